"""`coterie watch` of what is over, and of what it cannot follow."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

TITANIC = ("--data", "titanic", "--rounds", "2")


@pytest.fixture
def seen(coterie):
    def look(*words):
        code, out, err = coterie("watch", *words)
        assert (code, err) == (0, "")
        return out

    return look


def test_a_run_is_shown_once(coterie, seen):
    assert coterie("run", *TITANIC, "--evaluate", "2", "--out", "here")[0] == 0
    shown = seen("here", "--once").splitlines()
    assert shown[0] == "here"
    assert shown[1].startswith("finished after round 2 of 2; accuracy ")
    rounds = [line.split()[:2] for line in shown if re.match(r"\d ", line)]
    assert [r[0] for r in rounds] == ["0", "1", "2"]
    assert rounds[1][1] == "—", "that round was not scored"
    assert f"accuracy {rounds[2][1]} %" in shown[1]
    assert [line.partition(" ")[2] for line in shown[-2:]] == [
        "round 0: the run begins",
        "round 2: the run is finished",
    ]
    lines = seen("here").splitlines()
    assert lines[:2] == shown[-2:]
    assert lines[2].partition(" ")[2] == shown[1]
    shutil.copytree("here", "kit/state/shown/old")
    shutil.copytree("here", "kit/state/shown/new", copy_function=shutil.copy)
    assert seen("kit", "--once").splitlines()[0] == "kit/state/shown/new"


def test_a_comparison_is_shown_once(coterie, seen):
    methods = ("--methods", "local", "fedavg", "--seeds", "2", "--jobs", "1")
    assert coterie("compare", *TITANIC, *methods, "--out", "here")[0] == 0
    shown = seen("here", "--once").splitlines()
    assert shown[1] == "6 runs: 6 finished"
    rows = [line.split() for line in shown if line.startswith(("local", "fedavg"))]
    assert [row[:3] for row in rows] == [[m, s, "2/2"] for m in ("local", "fedavg") for s in ("0", "1")]
    assert all(row[3] == "accuracy" and row[-1] == "finished" for row in rows)
    Path("here/local/seed-1/models.safetensors").unlink()
    assert seen("here", "--once").splitlines()[1] == "6 runs: 5 finished, 1 stopped"


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_what_is_no_run_is_refused(refused, place):
    line = f"{place} is no run, no comparison, and no kit of a site that is in runs: check the path"
    assert refused("watch", place) == f"coterie: {line}"
