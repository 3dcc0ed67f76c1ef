"""Steinke et al., 2023: numbers worked out by hand, and bounds that stay below the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.features.audit.canaries import (
    TRIED,
    accuracy,
    best_bound,
    chance,
    guessed,
    lower_bound,
    slope,
    tail,
)

LN3 = math.log(3)  # q = 3/4


def test_by_hand():
    assert accuracy(0) == 0.5
    assert accuracy(LN3) == pytest.approx(0.75)
    assert tail(2, 2, LN3) == pytest.approx(9 / 16)
    assert tail(2, 1, LN3) == pytest.approx(15 / 16)
    assert tail(2, 0, LN3) == pytest.approx(1)
    # v = 2: 2/1 P[W = 1] = 2 · 6/16, 2/2 P[W in 0, 1] = 7/16
    assert slope(2, 2, LN3) == pytest.approx(12 / 16)
    # v = 1: 2/1 P[W = 0] = 2/16
    assert slope(2, 1, LN3) == pytest.approx(2 / 16)
    assert slope(2, 0, LN3) == 0
    # 9/16 + 12/16 · 5 · 0.01
    assert chance(5, 2, 2, LN3, 0.01) == pytest.approx(0.5625 + 0.75 * 5 * 0.01)
    assert chance(5, 2, 2, LN3, 0.5) == 1


def test_the_slope_may_be_largest_for_several():
    """r = 4, v = 2, q = 1/2: P[W = 1] = 4/16, P[W = 0] = 1/16; 2/1 · 4/16 = 8/16 beats 2/2 · 5/16. With v = 4
    it is 2/1 · 4/16 = 8/16 against 2/2 · 10/16 = 10/16.
    """
    assert slope(4, 2, 0.0) == pytest.approx(8 / 16)
    assert slope(4, 4, 0.0) == pytest.approx(10 / 16)


@pytest.mark.parametrize("guesses", [5, 10, 100])
def test_all_right(guesses):
    """q^r = 0.05, so ε = log(q / (1 - q)) with q = 0.05^(1/r)."""
    q = 0.05 ** (1 / guesses)
    assert lower_bound(guesses, guesses, guesses, 0.0, 0.95) == pytest.approx(math.log(q / (1 - q)), abs=1e-9)


def test_few_or_wrong_guesses_refute_nothing():
    assert lower_bound(4, 4, 4, 0.0, 0.95) == 0  # 1/16 is above 0.05
    assert lower_bound(100, 100, 50, 0.0, 0.95) == 0
    assert lower_bound(100, 100, 0, 1e-5, 0.95) == 0


def test_a_delta_lowers_the_bound():
    bounds = [lower_bound(100, 100, 90, delta, 0.95) for delta in (0.0, 1e-5, 1e-3)]
    assert bounds[0] > bounds[1] > bounds[2] > 0


def test_guesses_are_the_ends():
    scores = np.array([0.1, 0.9, 0.5, 0.8, 0.2, 0.4])
    present = np.array([False, True, True, False, True, False])
    assert guessed(scores, present, 2) == 2  # 0.9 in, 0.1 out
    assert guessed(scores, present, 4) == 2  # 0.9, 0.8 in, 0.1, 0.2 out: the second of each is wrong
    assert guessed(scores, present, 3) == 2  # two in, one out
    assert guessed(scores, present, 6) == 4


def test_tries_are_paid_for():
    """Perfect scores: the best of four tries, each at a confidence of 1 - 0.05 / 4."""
    present = np.arange(200) % 2 == 0
    found = best_bound(present.astype(float), present, 0.0)
    q = (0.05 / len(TRIED)) ** (1 / 200)
    assert (found.guesses, found.right) == (200, 200)
    assert found.epsilon == pytest.approx(math.log(q / (1 - q)), abs=1e-9)


def test_scores_that_know_nothing():
    """Of 200 audits of nothing, hardly any claims more than 0, and 5 in 100 at most may."""
    source = np.random.default_rng(0)
    claims = 0
    for _ in range(200):
        present = source.random(100) < 0.5
        claims += best_bound(source.normal(size=100), present, 0.0).epsilon > 0
    assert claims <= 10


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 4.0])
def test_never_above_the_truth(sigma):
    """A Gaussian mechanism on 1,000 directions: what it is known to cost, and what the guesses show."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    truth = PLDAccountant().compose(accounting.GaussianDpEvent(sigma)).get_epsilon(1e-5)
    for seed in range(3):
        source = np.random.default_rng(seed)
        present = source.random(1000) < 0.5
        scores = present + sigma * source.normal(size=1000)
        found = best_bound(scores, present, 1e-5).epsilon
        assert found <= truth
        assert sigma > 1 or found > 0.7, "a bound that shows nothing"
