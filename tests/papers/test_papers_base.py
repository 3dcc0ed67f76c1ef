"""Cells are picked by name, done once, and go on where they were cut off."""

from __future__ import annotations

import importlib

import pytest

from coterie.core.errors import BadInput, UnknownName
from coterie.data.sources.heart_disease import HeartDisease
from coterie.metrics.summary import Interval
from coterie.papers import PAPERS, paper
from coterie.papers.base import Asked, Job, pick, run_jobs
from coterie.papers.pages import commands, plus_minus, shortest, table

CELLS = ("A/10", "A/100", "B/10", "B/100")


def test_cells_come_in_the_papers_order_each_once():
    assert pick("B/100, A/10,B/100", CELLS) == ("A/10", "B/100")


def test_a_letter_means_all_of_its_kind():
    assert pick("A,B/10", CELLS) == ("A/10", "A/100", "B/10")


def test_small_letters_will_do():
    assert pick("b/100", CELLS) == ("B/100",)


def test_an_unknown_cell_is_refused(refused):
    with refused(UnknownName, "unknown cell 'B/1000': did you mean B/100?"):
        pick("A/10,B/1000", CELLS)


def test_an_unknown_paper_is_refused(refused):
    with refused(UnknownName, "unknown paper 'gengler-2021': did you mean gengler-2020?"):
        paper("gengler-2021")


def test_no_seeds_are_refused(refused, tmp_path):
    with refused(BadInput, "seeds=0 must be at least 1: try 3"):
        Asked(("text",), "full", CELLS, 0, tmp_path)


@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_says_what_it_has(name, monkeypatch):
    monkeypatch.setattr(HeartDisease, "fetch", lambda self: [])
    found = paper(name)
    assert found.name == name
    for scale in found.scales:
        assert len(set(found.cells(scale))) == len(found.cells(scale))
        assert set(found.usual(scale)[0]) <= set(found.cells(scale))


class Tape:
    """Jobs that write down what happens to them; those named in `cut` are interrupted half way."""

    def __init__(self, cut=()):
        self.ran, self.cut = [], set(cut)

    def job(self, label, cost, finished=False):
        def run(step):
            step(0.5, "half way")
            if label in self.cut:
                raise KeyboardInterrupt
            self.ran.append(label)

        return Job(label, cost, finished, run)


def test_finished_jobs_are_not_run_again():
    tape = Tape()
    jobs = [tape.job("a", 1), tape.job("b", 5, finished=True), tape.job("c", 3)]
    assert run_jobs(jobs, lambda done, said: None) == 2
    assert tape.ran == ["a", "c"]


def test_progress_is_in_units_of_cost_of_what_is_left():
    tape, heard = Tape(), []
    jobs = [tape.job("a", 1), tape.job("b", 5, finished=True), tape.job("c", 3)]
    run_jobs(jobs, lambda done, said: heard.append((done, said)))
    assert heard == [(0.5, "a half way"), (1, "a"), (2.5, "c half way"), (4, "c")]


def test_an_interrupted_job_leaves_those_before_it_done():
    tape = Tape(cut=["b"])
    with pytest.raises(KeyboardInterrupt):
        run_jobs([tape.job(name, 1) for name in "abc"], lambda done, said: None)
    assert tape.ran == ["a"]


class TestPages:
    def test_a_command_for_each_number_of_seeds(self):
        found = commands(paper("gengler-2020"), "as-run", "full", {"A/10": 1, "B/100": 3, "C/10": 1})
        assert found.splitlines()[1:-1] == [
            "coterie reproduce gengler-2020 --cells A/10,C/10 --preset as-run --scale full --seeds 1",
            "coterie reproduce gengler-2020 --cells B/100 --preset as-run --scale full --seeds 3",
        ]

    def test_all_cells_need_no_names_and_one_scale_no_mention(self):
        every = paper("grimberg-2020")
        found = commands(every, "text", "full", dict.fromkeys(every.cells("full"), 20))
        assert found.splitlines()[1] == "coterie reproduce grimberg-2020 --preset text --seeds 20"

    def test_all_of_a_kind_have_a_short_name(self):
        assert shortest(["A/10", "A/100", "B/10"], CELLS) == ["A", "B/10"]
        assert pick(",".join(shortest(["A/10", "A/100", "B/10"], CELLS)), CELLS) == ("A/10", "A/100", "B/10")

    def test_a_stroke_in_a_cell_does_not_break_the_table(self):
        assert table(["a", "b"], [["x|y", 1]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 |"

    def test_a_mean_has_its_interval_if_it_has_one(self):
        nan = float("nan")
        assert plus_minus(Interval(0.5, 0.013, 3)) == "50.0 ± 1.3"
        assert plus_minus(Interval(0.5, nan, 1)) == "50.0"
        assert plus_minus(Interval(nan, nan, 0)) == "–"


def test_nothing_of_a_paper_is_registered():
    from coterie.runs.settings import PARTS

    before = {kind: list(registry) for kind, registry in PARTS.items()}
    for name in PAPERS:
        module = importlib.import_module(f"coterie.papers.{name.replace('-', '_')}")
        own = {id(v) for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__}
        for registry in PARTS.values():
            assert not own & {id(cls) for _, cls in registry.items()}
    assert {kind: list(registry) for kind, registry in PARTS.items()} == before
