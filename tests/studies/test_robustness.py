"""The study of liars: a tiny one from the shell, its lines by hand, and the page of the docs from its CSV."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from coterie.cli.main import main
from coterie.features.liars.wrapper import KINDS as KNOWN
from coterie.studies.robustness import KINDS, STUDIES, Trace, cases, report, wraps_of

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_every_way_of_lying_is_in_the_study():
    assert set(KINDS) == set(KNOWN)
    assert cases(STUDIES["digits"], "full")[0] == ("none", 0.0)
    assert len(cases(STUDIES["digits"], "full")) == 1 + 2 * 13
    assert wraps_of("losses", 0.3) == ["liars:kind=label-flip,fraction=0.3", "liars:kind=losses,fraction=0.3"]


def test_the_honest_are_held_against_themselves():
    lied = Trace("ipm", 0.5, 0, {"a": 0.5, "c": 0.7}, origin={"commit": "x"})
    found = report.line("digits", "mean", lied, {"a": 0.8, "b": 0.1, "c": 0.9, "d": 0.2})
    assert (found["accuracy"], found["worst"], found["clean"], found["clean_worst"]) == (0.6, 0.5, 0.85, 0.8)


def test_a_tiny_study_goes_on_where_it_was(tmp_path, capsys):
    words = ["reproduce", "robustness", "--scale", "tiny", "--seeds", "1", "--figures", "none"]
    words += ["--out", str(tmp_path)]
    assert main([*words, "--cells", "digits/mean"]) == 0
    frame = pd.read_csv(tmp_path / "results.csv")
    assert list(frame["kind"]) == ["none", "sign-flip", "nonsense"]
    assert list(frame["honest"]) == [10, 7, 7]
    assert list(frame["left_out"]) == [0, 0, 3]
    assert (frame["clean"] == frame["accuracy"])[0]
    before = (tmp_path / "text" / "tiny" / "digits" / "mean.jsonl").read_bytes()
    assert main([*words, "--cells", "digits/mean,digits/krum"]) == 0
    assert (tmp_path / "text" / "tiny" / "digits" / "mean.jsonl").read_bytes() == before
    page = (tmp_path / "results.md").read_text()
    assert report.body(pd.read_csv(tmp_path / "results.csv")) in page
    assert "| krum |" in page
    capsys.readouterr()


@pytest.mark.parametrize(
    "change", [(0.0, "0.0"), (-0.04, "0.0"), (1.25, "+1.2"), (-3.0, "−3.0"), (None, "–")]
)
def test_changes_are_said_with_their_sign(change):
    assert report.points(change[0]) == change[1]
    assert report.points(-3.01) == "**−3.0**"


def test_the_page_of_the_docs_says_what_its_csv_says():
    frame, page = pd.read_csv(RESULTS / "robustness.csv"), (RESULTS / "robustness.md").read_text()
    assert report.body(frame) in page
    assert frame.groupby(["study", "method", "kind", "share"])["seed"].nunique().eq(5).all()
    assert set(frame["study"]) == set(STUDIES)
    for commit in set(frame["commit"]):
        assert commit in page
