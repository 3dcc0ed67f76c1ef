"""What the pages say of similarity is what the table of pairs gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def study():
    found = importlib.util.spec_from_file_location("similarity_study", ROOT / "benchmarks" / "similarity.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def frame():
    return pd.read_csv(RESULTS / "similarity.csv", dtype={"commit": str})


@pytest.fixture(scope="module")
def found(study, frame):
    return study.correlations(frame)


def test_the_results_are_the_table_s(study, frame, found):
    assert study.page(frame, found) == (RESULTS / "similarity.md").read_text()


def test_so_are_the_figures_on_the_page(study, frame, found):
    text = (ROOT / "docs" / "similarity.md").read_text()
    for _, rows in found.groupby("study", sort=False):
        by = rows.groupby("measure", sort=False)["gain_loss, requester"]
        assert " | ".join(study.cell(own) for _, own in by) in text
    picked = study.choices(frame[frame["study"] == "four hospitals"]).groupby("choice")["gain"]
    for choice in ("ndoye", "mean"):
        mean, half = (100 * v for v in study.around(picked.get_group(choice)))
        assert f"loses {-mean:.1f} ± {half:.1f}" in " ".join(text.split())


def test_hand_worked_correlations(study):
    """Gains that follow the partner's size, and go against the distance, at both requesters."""
    line = {"study": "s", "seed": 0, "transport": 1.0, "ndoye": 1.0}
    rows = [
        {
            **line,
            "requester": r,
            "other": str(j),
            "quantiles": -j,
            "size": j,
            "gain_loss": j,
            "gain_accuracy": -j,
        }
        for r in "ab"
        for j in (1, 2, 3)
    ]
    found = study.correlations(pd.DataFrame(rows)).set_index("measure")
    assert found.loc["size", "gain_loss, requester"] == pytest.approx(1)
    assert found.loc["quantiles", "gain_loss, pairs"] == pytest.approx(1)
    assert found.loc["size", "gain_accuracy, requester"] == pytest.approx(-1)
    picked = study.choices(pd.DataFrame(rows)).set_index("choice")["gain"]
    assert (picked["size"], picked["mean"], picked["max"]) == (-3, -2, -1)
