"""Labels of pure noise: nobody gains anything, and 95 % intervals of the gain should say so 19 times in 20.

The long test is the measurement that docs/measures.md tells of:

    pytest -m slow -s tests/report/test_null_gains.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import coterie
from coterie.data.clients import Client
from coterie.metrics.summary import interval
from coterie.runs.record import Record
from coterie.show import views

SETS, SEEDS, SITES, ROWS, COLUMNS = 200, 5, 4, 60, 5
Runs = dict[str, list[Record]]


def sites(number: int, split: int) -> list[Client]:
    """A data set whose labels say nothing, split by another seed."""
    rng = np.random.default_rng([7, number])
    tables = [(rng.normal(size=(ROWS, COLUMNS)), rng.integers(0, 2, ROWS)) for _ in range(SITES)]
    return [Client.from_arrays(X, y, name=f"site {i}", seed=split) for i, (X, y) in enumerate(tables)]


def runs(number: int, anew: bool, seeds: int = SEEDS, methods: Sequence[str] = ("local", "fedavg")) -> Runs:
    """Every method with every seed, which splits the rows anew or has those of seed 0."""
    found: Runs = {method: [] for method in methods}
    for seed in range(seeds):
        clients = sites(number, seed if anew else 0)
        for method, records in found.items():
            options = {"rounds": 6, "evaluate": 6, "lr": 0.3, "init": "common", "progress": False}
            made = coterie.train("logistic", clients, method, seed=seed, **options)
            records.append(made.record)
    return found


def excluded(low: float, high: float) -> bool:
    return low > 0 or high < 0


def surely_off(times: int, of: int, share: float = 0.05) -> bool:
    """Whether these are more than this share of all allows, by 3.1 standard deviations: once in 1,000."""
    return times > of * share + 3.1 * math.sqrt(of * share * (1 - share))


def told(method: str, anew: Runs, same: Runs) -> dict[str, bool]:
    """Which intervals tell a gain from none."""
    gain = views.gain_over_seeds(anew[method], anew["local"], "accuracy")
    plain = interval(views.gains(anew[method], anew["local"], "accuracy").mean(axis=1))
    fixed = views.gain_over_seeds(same[method], same["local"], "accuracy")
    return {
        "splits, corrected": gain.side != 0,
        "splits, plain t": plain.side != 0,
        "same rows, bootstrap over rows": excluded(fixed.low, fixed.high),
        "same rows, t over seeds": abs(fixed.mean) > fixed.half,
        "same rows, both": fixed.side != 0,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "too_often"),
    [("fedavg", {"splits, plain t", "same rows, t over seeds"}), ("finetune", set())],
)
def test_gains_on_noise_are_told_from_none_once_in_twenty(method, too_often):
    found = []
    for number in range(SETS):
        both = (runs(number, anew, methods=("local", method)) for anew in (True, False))
        found.append(told(method, *both))
    times = {name: sum(one[name] for one in found) for name in found[0]}
    print(method, {name: f"{n} of {SETS}" for name, n in times.items()})
    assert {name for name, n in times.items() if surely_off(n, SETS)} == too_often


def test_one_such_data_set_has_all_of_these_intervals():
    anew, same = (runs(0, anew, seeds=2) for anew in (True, False))
    assert set(told("fedavg", anew, same)) >= {"splits, corrected", "same rows, bootstrap over rows"}
    gain, fixed = (views.gain_over_seeds(r["fedavg"], r["local"], "accuracy") for r in (anew, same))
    assert math.isnan(gain.low)
    assert fixed.low <= fixed.mean <= fixed.high
    # 18 of 60 rows are tested on
    plain = interval(views.gains(anew["fedavg"], anew["local"], "accuracy").mean(axis=1))
    assert gain.half == pytest.approx(plain.half * math.sqrt(1 + 2 * 18 / 42))
