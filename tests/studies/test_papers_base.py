"""Cells are picked by name, done once, and go on where they were cut off."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import coterie.studies
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.data.sources.cifar import Cifar10
from coterie.data.sources.heart_disease import HeartDisease
from coterie.data.sources.mnist import Mnist
from coterie.methods import METHODS
from coterie.metrics.summary import Interval
from coterie.studies import PAPERS, paper
from coterie.studies.base import Asked, Job, pick, run_jobs
from coterie.studies.pages import commands, plus_minus, shortest, table

CELLS = ("A/10", "A/100", "B/10", "B/100")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("B/100, A/10,B/100", ("A/10", "B/100")),  # in the paper's order, each once
        ("A,B/10", ("A/10", "A/100", "B/10")),
        ("b/100", ("B/100",)),
    ],
)
def test_cells_by_name(text, wanted):
    assert pick(text, CELLS) == wanted


def test_what_is_unknown_is_refused(tmp_path):
    with pytest.raises(UnknownName, match="'B/1000': did you mean B/100"):
        pick("A/10,B/1000", CELLS)
    with pytest.raises(UnknownName, match="'gengler-2021': did you mean gengler-2020"):
        paper("gengler-2021")
    with pytest.raises(BadInput, match="seeds=0 must be at least 1"):
        Asked(("text",), "full", CELLS, 0, tmp_path)


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_says_what_it_has_and_registers_nothing(name, monkeypatch):
    monkeypatch.setattr(HeartDisease, "fetch", lambda self: [])
    before, found = list(METHODS), paper(name)
    assert found.name == name
    for scale in found.scales:
        assert len(set(found.cells(scale))) == len(found.cells(scale))
        assert set(found.usual(scale)[0]) <= set(found.cells(scale))
    importlib.import_module(f"coterie.studies.{name.replace('-', '_')}.report")
    assert list(METHODS) == before
    assert not any(cls.__module__.startswith("coterie.studies") for _, cls in METHODS.items())


@pytest.mark.parametrize(
    ("name", "source", "scale", "cell", "easier"),
    [
        ("gengler-2020", Mnist, "full", "B/10", "small"),
        ("karlsson-2021", Cifar10, "small", "common-16/pens", "tiny"),
        ("makni-2022", Mnist, "full", "logistic/mnist", "tiny"),
        ("yang-2023", Cifar10, "small", "cifar10-0.3/fedavg", "tiny"),
    ],
)
def test_without_pictures_it_says_what_runs(monkeypatch, tmp_path, name, source, scale, cell, easier):
    def absent(self):
        raise BadData("not here")

    monkeypatch.setattr(source, "fetch", absent)
    with pytest.raises(BadData, match=f"not here; or see it run with --scale {easier}"):
        paper(name).jobs(Asked(("text",), scale, (cell,), 1, tmp_path))


def test_papers_stand_on_what_anybody_may_use():
    inside = re.compile(r"^\s*(?:from|import) coterie\.(engines|nets|runs|cli)\b", re.MULTILINE)
    home = Path(coterie.studies.__file__).parent
    papers = [f for f in home.rglob("*.py") if not {"bench", "demo"} & {*f.parts} and f.name != "command.py"]
    assert len(papers) > 20
    for file in papers:
        assert not inside.search(file.read_text()), file


def test_jobs_run_once_and_progress_is_in_units_of_what_is_left():
    ran, heard = [], []

    def job(label, cost, finished=False):
        def run(step):
            step(0.5, "half way")
            if label == "cut":
                raise KeyboardInterrupt
            ran.append(label)

        return Job(label, cost, finished, run)

    jobs = [job("a", 1), job("b", 5, finished=True), job("c", 3)]
    assert run_jobs(jobs, lambda done, said: heard.append((done, said))) == 2
    assert heard == [(0.5, "a half way"), (1, "a"), (2.5, "c half way"), (4, "c")]
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job("d", 1), job("cut", 1), job("e", 1)], lambda done, said: None)
    assert ran == ["a", "c", "d"]


class TestPages:
    def test_commands(self):
        found = commands(paper("gengler-2020"), "as-run", "full", {"A/10": 1, "B/100": 3, "C/10": 1})
        assert found.splitlines()[1:-1] == [
            "coterie reproduce gengler-2020 --cells A/10,C/10 --preset as-run --scale full --seeds 1",
            "coterie reproduce gengler-2020 --cells B/100 --preset as-run --scale full --seeds 3",
        ]
        every = paper("grimberg-2020")  # all cells need no names, and the only scale no mention
        found = commands(every, "text", "full", dict.fromkeys(every.cells("full"), 20))
        assert found.splitlines()[1] == "coterie reproduce grimberg-2020 --preset text --seeds 20"
        assert shortest(["A/10", "A/100", "B/10"], CELLS) == ["A", "B/10"]

    def test_cells_of_tables(self):
        nan = float("nan")
        assert table(["a", "b"], [["x|y", 1]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"
        assert plus_minus(Interval(0.5, 0.013, 3)) == "50.0 ± 1.3"
        assert plus_minus(Interval(0.5, nan, 1)) == "50.0"
        assert plus_minus(Interval(nan, nan, 0)) == "–"
