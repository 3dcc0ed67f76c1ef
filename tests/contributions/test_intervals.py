"""Intervals: added up by hand, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from coterie.features.contributions import GTG, ExactShapley, Shapley
from coterie.features.contributions.record import Sums


def test_rounds_are_added_up_by_hand():
    sums = Sums((2,))
    at = (np.array([0]),)
    for value, variance, freedom, hidden in ((1.0, 0.04, 8.0, 0.01), (2.0, 0.09, 10.0, 0.02)):
        sums.add(at, *(np.array([x]) for x in (value, variance, freedom, hidden)), factor=2.0)
    variance = 4 * 0.13
    freedom = 0.13**2 / (0.04**2 / 8 + 0.09**2 / 10)  # 16.7, rounded down
    half = stats.t.ppf(0.95, 16) * variance**0.5 + 2 * 0.03
    assert int(freedom) == 16
    assert sums.known() == pytest.approx([6.0, np.nan], nan_ok=True)
    assert sums.half(0.9) == pytest.approx([half, np.nan], nan_ok=True)


def test_all_figures_hold_at_once():
    sums = Sums((4,))
    each = np.ones(4)
    sums.add((np.arange(4),), each, each, 5 * each, 0 * each)
    assert sums.half(0.9) == pytest.approx(stats.t.ppf(1 - 0.1 / 8, 5) * each)
    assert sums.half(0.9, beside=6) == pytest.approx(stats.t.ppf(1 - 0.1 / 20, 5) * each)


def test_what_is_exact_has_no_width():
    sums = Sums((1,))
    sums.add((np.array([0]),), *np.zeros((4, 1)))
    assert sums.half(0.999) == pytest.approx([0.0])


def means_of_vectors(seed, players):
    """Like averages of models: -|weighted mean of some vectors - a target|², far away for nobody."""
    rng = np.random.default_rng(seed)
    vectors, weights = rng.normal(size=(players, 3)), rng.uniform(0.5, 2, size=players)

    def values(s):
        some = sorted(s)
        mean = weights[some] @ vectors[some] / weights[some].sum() if some else np.full(3, 3.0)
        return -float(np.square(mean - 0.3).sum())

    return values


@pytest.mark.parametrize(
    "estimate", [Shapley(permutations=128), GTG(permutations=128)], ids=["shapley", "gtg"]
)
def test_intervals_hold_as_often_as_they_say(make_game, estimate):
    """60 games of 4: at 0.8 no fewer than 48 - 3 sigma hold, and not all do; at 0.999 all."""
    held = {0.8: 0, 0.999: 0}
    for seed in range(60):
        values = means_of_vectors(seed, 4)
        truth = ExactShapley()(make_game(4, values), np.random.default_rng(0)).value
        found = estimate(make_game(4, values), np.random.default_rng(1000 + seed))
        sums = Sums((1, 4))
        sums.add(tuple(np.indices((1, 4))), found.value, found.variance, found.freedom, found.hidden)
        for level in held:
            held[level] += bool((np.abs(found.value - truth) <= sums.half(level)).all())
    assert 48 - 3 * (60 * 0.8 * 0.2) ** 0.5 < held[0.8] < 60
    assert held[0.999] == 60
