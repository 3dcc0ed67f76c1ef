"""Counting operations, taking turns, and what becomes of seconds. Nothing here depends on the clock."""

from __future__ import annotations

import itertools

import pytest
import torch

from coterie.core.seeds import Key
from coterie.studies.bench import measure, table
from coterie.studies.bench.measure import Timing, interleave, peak_memory, rows_of
from coterie.studies.bench.workloads import WORKLOADS, quick

NOTHING = {"w": torch.zeros(1, 1)}


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("titanic-4", 9 * 2),
        ("linear-100", 784 * 10),
        (
            "erosion-cnn-10",
            14 * 14 * 32 * (1 * 9) + 7 * 7 * 64 * (32 * 9) + 4 * 4 * 128 * (64 * 9) + 2048 * 128 + 128 * 10,
        ),
        (
            "pens-cnn-20",
            30 * 30 * 32 * (3 * 9) + 13 * 13 * 64 * (32 * 9) + 4 * 4 * 64 * (64 * 9) + 256 * 64 + 64 * 10,
        ),
    ],
)
def test_operations_are_counted_as_by_hand(name, multiply_adds):
    assert measure.operations_per_sample(WORKLOADS[name]) == 3 * 2 * multiply_adds


def test_sgemm_rate_is_operations_over_the_best_seconds():
    ticks = iter([0.0, 4.0, 10.0, 12.0, 20.0, 28.0])
    assert measure.sgemm_rate(side=8, repeats=3, clock=lambda: next(ticks)) == 2 * 8**3 / 2.0


def test_contenders_take_turns_with_fresh_random_numbers():
    calls = []

    def run(name):
        return lambda key: calls.append((name, key.path)) or NOTHING

    watched = []
    clock = itertools.count().__next__
    timings = interleave({"a": run("a"), "b": run("b")}, 2, Key(0), watched.append, clock)
    turns = [(name, ("repeat", i)) for i in range(3) for name in "ab"]
    assert calls == turns
    assert watched == [name for name, _ in turns]
    assert {n: (t.first, t.seconds) for n, t in timings.items()} == {"a": (1, (1, 1)), "b": (1, (1, 1))}


def test_warm_up_is_kept_apart():
    ticks = iter([0, 50, 100, 103, 200, 201])
    found = interleave({"a": lambda key: NOTHING}, 2, Key(0), clock=lambda: next(ticks))["a"]
    assert (found.first, found.seconds, found.best, found.median) == (50, (3, 1), 1, 2)


def test_threads_are_as_found_after_each_contender():
    found = torch.get_num_threads()
    seen = []

    def greedy(key):
        seen.append(torch.get_num_threads())
        torch.set_num_threads(found + 1)
        return NOTHING

    def failing(key):
        torch.set_num_threads(found + 1)
        raise RuntimeError

    interleave({"a": greedy, "b": greedy}, 2, Key(0))
    assert seen == [found] * 6
    with pytest.raises(RuntimeError):
        interleave({"a": failing}, 1, Key(0))
    assert torch.get_num_threads() == found


def fake(**seconds):
    return {name: Timing(9.0, taken, 2**21, NOTHING) for name, taken in seconds.items()}


def rows(**seconds):
    rate = 100 * measure.operations_per_sample(WORKLOADS["linear-100"])  # a limit of 100 samples a second
    losses = dict.fromkeys(seconds, 0.5)
    return {r.contender: r for r in rows_of(WORKLOADS["linear-100"], 60, fake(**seconds), rate, losses)}


def test_ratios_and_shares():
    found = rows(plain=(2.0, 6.0, 4.0), fast=(1.0, 2.0, 1.5))
    plain, fast = found["plain"], found["fast"]
    assert (plain.best, plain.median, plain.ratio_best, plain.ratio_median) == (30, 15, 1, 1)
    assert (fast.best, fast.median) == (60, 40)
    assert fast.ratio_best == 2.0
    assert fast.ratio_median == pytest.approx(4.0 / 1.5)
    assert fast.limit == pytest.approx(100)
    assert fast.share == pytest.approx(0.6)
    assert (fast.repeats, fast.first_seconds, fast.peak_mb, fast.loss) == (3, 9.0, 2.0, 0.5)


def test_no_ratio_without_the_plain_loop():
    only = rows(fast=(1.0,))["fast"]
    assert only.ratio_best is None
    assert only.ratio_median is None
    assert table.cells(only)[3:5] == ("", "")


def test_csv_has_a_line_for_each_row():
    lines = table.as_csv(list(rows(plain=(2.0,), fast=(1.0,)).values())).splitlines()
    assert lines[0].split(",") == list(table.COLUMNS)
    assert lines[2].startswith("linear-100,fast,60,1,60,60,2,2,0.6,100,")


def test_markdown_names_command_commit_machine_and_workload():
    text = table.markdown(list(rows(plain=(2.0,), fast=(1.0,)).values()), "coterie bench --repeats 1")
    assert "| `linear-100` | plain | 30 | 30 | 1.00 | 1.00 | 30 % | 2 |" in text
    assert "|  | fast | 60 | 60 | 2.00 | 2.00 | 60 % | 2 |" in text
    assert "`coterie bench --repeats 1`, commit " in text
    assert f"torch {torch.__version__}" in text
    assert WORKLOADS["linear-100"].about in text


def test_peak_memory_is_in_bytes():
    assert 2**24 < peak_memory() < 2**44


def test_quick_keeps_the_model_and_is_small():
    for workload in WORKLOADS.values():
        small = quick(workload)
        kept = [(w.model, w.inputs, w.classes, w.sample, w.peers) for w in (workload, small)]
        assert kept[0] == kept[1]
        assert sum(small.sizes) <= 2000
        assert small.rounds <= 3
