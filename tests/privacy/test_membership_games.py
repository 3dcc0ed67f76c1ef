"""What scores of models tell about membership: `benchmarks/membership.py` on a small scale."""

from __future__ import annotations

import csv
import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from coterie.core.seeds import Key
from coterie.kernels.noisy import Noisy

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PARTS = ("membership_attackers", "membership_games", "membership")
ANSWERS, GAMES = 20, 400


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("membership")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in PARTS:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def place(bench):
    """North of the demo's breast cancer: 143 rows, of which a site of a game has 47."""
    (found,) = bench.places(bench.breast_cancer(), ["north"])
    return found


def advantage(bench, place, sigma: float, games: int = GAMES) -> float:
    (said,) = bench.chosen(place, bench.Told(sigma), "others", games, (ANSWERS,), Key(3))
    return float(1 - said.errors().sum())


def test_without_noise_one_answer_tells_who_knows_all_others(bench, place):
    (said,) = bench.chosen(place, bench.Told(), "others", 60, (1,), Key(1))
    assert said.errors().max() == 0


def test_without_noise_two_answers_tell_who_knows_the_row_alone(bench, place):
    """Planes before and behind a row tell it from all others, whatever the site's min_rows is."""
    size = bench.Size(targets=20, lists=1, draws=40)
    two, *_ = bench.clear_planes(place, size, Key(1))
    assert two.errors().mean() < 0.01


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 10.0])
def test_noise_of_a_budget_keeps_the_strongest_attacker_within_what_it_promises(bench, place, epsilon):
    sigma = bench.sigma_of(epsilon, ANSWERS)
    found, slack = advantage(bench, place, sigma), 3 * math.sqrt(2 * 0.25 / (GAMES / 2))
    assert found <= min(bench.promised(epsilon), bench.of_gaussian(sigma, ANSWERS) + slack)
    assert found >= bench.of_gaussian(sigma, ANSWERS) - slack  # it plays as well as anybody could


def test_noise_that_is_a_tenth_of_that_would_be_noticed(bench, place):
    sigma = bench.sigma_of(1.0, ANSWERS) / 10
    assert advantage(bench, place, sigma, 200) > bench.promised(1.0)


def test_bounds_by_hand(bench):
    assert bench.promised(math.log(3), 0) == pytest.approx(0.5)
    assert bench.promised(0.0, 0.1) == pytest.approx(0.1)
    # mu = sqrt(2 · 2) / 1 = 2, and 68.27 % of a normal lie within a deviation
    assert bench.of_gaussian(1.0, 2) == pytest.approx(0.6827, abs=1e-4)


def test_told_from_where_errors_stay_within_the_bound(bench):
    errors = np.array([[0.04, 0.2, 0.5], [0.3, 0.05, 0.4], [0.01, 0.0, 0.06]])
    assert bench.first_told(errors, (1, 10, 100)).tolist() == [100, 10, math.inf]


def test_moments_are_those_of_the_kernel(bench):
    """Means near a bound are cut off at it; 20,000 visits of the kernel beside the formula."""
    told, rows, many = bench.Told(3.0), 10, 20_000
    means = np.array([0.5, 0.9])
    figures = {
        "loss": torch.full((many,), means[0]),
        "accuracy": torch.full((many,), means[1]),
        "samples": torch.full((many,), float(rows)),
    }
    heard = Noisy(sigma=3.0).tell(figures, range(many), [Key(i) for i in range(many)])
    first, _, variance = told.moments(means, rows)
    for i, name in enumerate(("loss", "accuracy")):
        assert heard[name].mean().item() == pytest.approx(first[i], abs=0.02)
        assert heard[name].var().item() == pytest.approx(variance[i], rel=0.05)


def test_as_many_answers_as_people_on_a_list_tell_who_is_in(bench):
    attackers = sys.modules["membership_attackers"]
    rng = np.random.default_rng(0)
    rows = rng.random((12, 16))  # 12 people, 16 numbers of exact answers
    inside = np.array([rng.permutation(12) < 6 for _ in range(20)])
    game = attackers.Game(np.arange(12), inside, np.empty(0, int), 6)
    heard = np.stack([rows[who].mean(axis=0) for who in inside])
    assert ((attackers.knows_list(bench.Told(), game, heard, rows, 12) > 0) == inside).all()


def test_a_threshold_in_hindsight_by_hand(bench):
    attackers = sys.modules["membership_attackers"]
    found = np.array([[1.0], [2.0], [3.0], [4.0]])
    true = np.array([[False], [False], [True], [True]])
    assert ((attackers.hindsight(found, true) > 0) == true).all()


def test_the_pages_are_made_of_the_csv(bench):
    with (RESULTS / "membership.csv").open() as file:
        lines = list(csv.DictReader(file))
    page, privacy = (RESULTS / "membership.md").read_text(), (ROOT / "docs" / "privacy.md").read_text()
    tables = (*bench.answers_table(lines), *bench.budget_table(lines))
    assert len(tables) > 20
    assert [row for row in tables if row not in page] == []
    assert lines[0]["commit"] in page
    assert lines[0]["commit"] in privacy
    cleveland = [row for row in tables if row.startswith("| cleveland")]
    assert [row for row in cleveland if row not in privacy] == []
