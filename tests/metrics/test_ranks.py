"""Ranks of methods over settings, beside numbers worked out by hand and published ones."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.metrics.ranks import cliques, friedman, nemenyi, ranked


def test_ranks_by_hand():
    """The best has rank 1; two that tie for places 2 and 3 share 2.5."""
    figures = np.array([[0.9, 0.8, 0.8, 0.1], [1.0, 2.0, 3.0, 4.0]])
    assert ranked(figures).tolist() == [[1, 2.5, 2.5, 4], [4, 3, 2, 1]]
    assert ranked(figures, higher=False).tolist() == [[4, 2.5, 2.5, 1], [1, 2, 3, 4]]


def test_the_worked_example_of_demsar():
    """Section 3.2 there: four classifiers, 14 data sets; F = 3.69 of their mean ranks, and CD = 1.25."""
    ranks = np.tile([3.143, 2.000, 2.893, 1.964], (14, 1))
    found = friedman(ranks)
    assert found.statistic == pytest.approx(3.69, abs=0.02)
    assert found.critical == pytest.approx(1.25, abs=0.005)
    assert found.p == pytest.approx(0.0195, abs=0.001)


def test_friedman_agrees_with_scipy_where_nothing_ties():
    """scipy has χ², which F follows from."""
    from scipy.stats import friedmanchisquare

    figures = np.random.default_rng(0).normal(size=(8, 5))
    found, n, k = friedman(ranked(figures)), 8, 5
    chi = friedmanchisquare(*figures.T).statistic
    assert found.statistic == pytest.approx((n - 1) * chi / (n * (k - 1) - chi))
    assert found.ranks.sum() == pytest.approx(k * (k + 1) / 2)


def test_what_cannot_be_ranked_is_refused():
    with pytest.raises(ValueError, match="at least 2 of each"):
        friedman(np.ones((1, 4)))


def test_everybody_agreeing_is_no_division_by_zero():
    found = friedman(np.tile([1.0, 2.0, 3.0], (4, 1)))
    assert found.statistic == np.inf
    assert found.p == 0


def test_critical_distance_falls_with_settings_and_grows_with_methods():
    """Demšar's table: q is 1.960 for two methods and 3.164 for ten, at 5 %."""
    assert nemenyi(2, 6) == pytest.approx(1.960 * np.sqrt(2 * 3 / 36), abs=1e-3)
    assert nemenyi(10, 10) == pytest.approx(3.164 * np.sqrt(110 / 60), abs=2e-3)


def test_bars_by_hand():
    """With CD = 1: 1.0 and 1.9 go together, 1.9 to 2.8 too; 5.0 is by itself; no bar lies inside another."""
    assert cliques([2.8, 1.0, 1.9, 5.0], 1.0) == [(0, 1), (1, 2)]
    assert cliques([1.0, 1.2, 1.4], 1.0) == [(0, 2)]
    assert cliques([1.0, 3.0], 1.0) == []
