"""Gains row by row, by hand; and boosted trees beside the ways."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coterie
from coterie.features.trials.gains import LIKELIHOODS, gain_by_row, interval_over_rows
from coterie.features.trials.measure import trees_on, tries_trees
from coterie.metrics.summary import student


def test_a_gain_of_rows_and_its_interval_by_hand():
    there, alone = [[1.0, 2.0], [3.0, 4.0]], [[2.0, 2.0], [3.0, 7.0]]
    gains = gain_by_row(there, alone, "nll", higher=False)
    assert gains.tolist() == [1.0, 0.0, 0.0, 3.0]
    found = interval_over_rows(gains, 1.0, 2, 0.95, "nll")
    spread = (0 + 1 + 1 + 4) / 3
    assert found.half == pytest.approx(student(3, 0.95) * math.sqrt(spread * (1 + 2) / 4))
    more = interval_over_rows(gains, 1.0, 2, 0.95, "nll", coming=10)
    assert more.half == pytest.approx(student(3, 0.95) * math.sqrt(spread * (3 / 4 + 1 / 10)))


def test_the_gain_of_a_root_is_that_of_the_roots():
    a, b = [[1.0, 9.0]], [[4.0, 46.0]]  # means 5 and 25
    gains = gain_by_row(a, b, "rmse", higher=False)
    assert gains.mean() == pytest.approx(5 - math.sqrt(5))


def test_shares_that_differ_in_no_row_are_not_certain():
    found = interval_over_rows(np.zeros(20), 0.0, 5, 0.95, "accuracy")
    assert found.half == pytest.approx(student(19, 0.95) * math.sqrt(1 / 22 * (1 + 5 / 4) / 20))


def test_rows_that_do_not_match_say_nothing():
    assert gain_by_row([[1.0]], [[1.0, 2.0]], "nll", higher=False) is None
    assert gain_by_row([[]], [[]], "nll", higher=False) is None


def test_losses_of_probabilities_by_hand():
    p, y = np.array([[0.25, 0.75], [1.0, 0.0]]), np.array([1, 1])
    assert LIKELIHOODS["nll"](p, y) == pytest.approx([-math.log(0.75), -math.log(1e-12)])
    assert LIKELIHOODS["brier"](p, y) == pytest.approx([2 * 0.0625, 2.0])


def ring(rng: np.random.Generator, n: int):
    """Classes that no line parts: near the middle and far from it."""
    x = rng.normal(size=(n, 2))
    return x, ((x**2).sum(axis=1) > 1.4).astype(int)


def test_advice_says_where_another_class_of_models_matters_more():
    rng = np.random.default_rng(0)
    clients = []
    for k in range(2):
        x, y = ring(rng, 260)
        clients.append(coterie.Client.from_arrays(x[:200], y[:200], name=f"s{k}", test=(x[200:], y[200:])))
    said = coterie.advise("logistic", clients, inner=0, candidates=["pooled"], progress=False)
    for client in ("s0", "s1"):
        assert any("another class of models matters more" in line for line in said.words(client))


def test_trees_are_not_tried_on_few_rows_or_survivals():
    rng = np.random.default_rng(0)
    x, y = ring(rng, 30)
    few = coterie.Client.from_arrays(x[:20], y[:20], name="few", test=(x[20:], y[20:]))
    assert tries_trees([few], "nll")
    assert trees_on([few], "nll") == ([None], [[]])
    assert not tries_trees([few], "auc")
    assert not tries_trees([], "nll")
