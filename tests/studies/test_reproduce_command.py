"""coterie reproduce, from the shell's side."""

from __future__ import annotations

import re

import pytest

from coterie.core.errors import BadInput, UnknownName
from coterie.storage.atomic import read_lines
from coterie.studies import PAPERS, command, drawing
from coterie.studies import gengler_2020 as gengler
from coterie.studies import grimberg_2020 as grimberg
from coterie.studies.command import reproduce


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grimberg, "ROUNDS", 2)


def test_alone_it_lists_papers(capsys):
    assert reproduce([]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in PAPERS)


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        ("gengler2020", UnknownName, "'gengler2020': did you mean gengler-2020?"),
        ("gengler-2020 --scale small --cells B/100", UnknownName, "'B/100': did you mean B/10?"),
        ("gengler-2020 --seeds -1", BadInput, "seeds=-1 must be at least 1"),
        ("grimberg-2020 --scale small", BadInput, "has no scale 'small': it has full"),
        ("gengler-2020 --minutes -1", BadInput, "minutes=-1.0 must be at least 0"),
        ("gengler-2020 --preset asrun", BadInput, "invalid choice 'asrun'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(tmp_path, words, kind, said):
    with pytest.raises(kind, match=said):
        reproduce(words.split())
    assert list(tmp_path.iterdir()) == []


def test_a_paper_from_the_shell_is_done_once(monkeypatch, tmp_path, capsys):
    words = ["grimberg-2020", "--cells", "age-some/1", "--seeds", "1", "--results", "docs/results"]
    monkeypatch.setattr(drawing, "at_hand", lambda: False)
    assert reproduce(words) == 0
    said = capsys.readouterr()
    assert {f"table: runs/grimberg-2020/results.{end}" for end in ("md", "csv")} <= {*said.out.splitlines()}
    assert re.search(r"^claim +text +as-run *$", said.out, re.MULTILINE), said.out
    agents = "AGE_SOME: agents 0 and 1, of the same ages, have the most"
    assert re.search(rf"^{agents} +undecided +undecided$", said.out, re.MULTILINE), said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert "no figures without matplotlib: pip install 'coterie[figures]'" in said.err
    for ending in ("md", "csv"):
        kept = tmp_path / f"runs/grimberg-2020/results.{ending}"
        assert (tmp_path / f"docs/results/grimberg-2020.{ending}").read_bytes() == kept.read_bytes()
    assert not (tmp_path / "runs/grimberg-2020/figures").exists()
    kept = tmp_path / "runs/grimberg-2020/text/full/age-some/1.jsonl"
    assert len(read_lines(kept)) == 3
    before = kept.read_bytes()
    assert reproduce([*words, "--figures", "none"]) == 0
    assert "all of it was finished before" in capsys.readouterr().err
    assert kept.read_bytes() == before


def test_stopped_it_says_how_to_go_on(monkeypatch):
    def stop(*words, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(gengler, "train_in", stop)
    with pytest.raises(KeyboardInterrupt, match="give the same command again"):
        reproduce(["gengler-2020", "--scale", "small", "--cells", "B/10"])


def test_defaults_are_the_papers_own(monkeypatch):
    seen = []
    monkeypatch.setattr(command, "run_all", lambda jobs, *rest: seen.extend(j.label for j in jobs) or 1)
    monkeypatch.setattr(gengler.Gengler, "write", lambda self, asked: [])
    reproduce(["gengler-2020", "--scale", "small"])
    assert seen == [
        f"text {cell} {method} seed 0" for cell in ("A/10", "B/10", "B/20") for method in gengler.METHODS
    ]
