"""What so many rows allow at best, and what no model at all would have: by hand."""

from __future__ import annotations

import math

import pytest

from coterie.metrics import no_model
from coterie.metrics.bootstrap import least_bounds
from coterie.metrics.summary import Interval, interval, telling

Z2 = 1.959964**2


@pytest.mark.parametrize("rows", [12, 27, 1000])
def test_two_accuracies_that_are_the_same_may_differ_by_about_four_rows(rows):
    low, high = least_bounds(0.0, rows)
    assert high == -low == pytest.approx(Z2 / (rows + Z2), rel=1e-5)


def test_five_rows_are_the_fewest_that_can_tell():
    """Wilson of 5 of 100: (5 + 1.9207 ± 1.96 √(4.75 + 0.9604)) / 103.84 is 0.0215 to 0.1118; of 0: 0.0370.
    0.05 - √(0.0285² + 0.0370²) = 0.0033.
    """
    assert least_bounds(0.05, 100) == (pytest.approx(0.0033, abs=1e-4), pytest.approx(0.1118, abs=1e-4))
    assert least_bounds(0.04, 100)[0] < 0
    assert least_bounds(-0.05, 100) == tuple(-end for end in least_bounds(0.05, 100)[::-1])


def test_all_rows_and_none():
    assert least_bounds(1.0, 3) == (pytest.approx(0.2059, abs=1e-4), 1.0)
    assert all(map(math.isnan, least_bounds(0.0, 0)))
    assert all(map(math.isnan, least_bounds(math.nan, 9)))


def test_seeds_that_agree_have_a_mean_and_no_interval():
    found = telling(interval([0.96, 0.96, 0.96]))
    assert (found.mean, found.side) == (pytest.approx(0.96), 0)
    assert math.isnan(found.half)
    assert telling(interval([0.9, 0.8])) == interval([0.9, 0.8])


@pytest.mark.parametrize(
    ("found", "bounds", "side"),
    [
        (Interval(0.2, 0.1, 5), (0.1, 0.3), 1),
        (Interval(-0.2, 0.1, 5), (-0.3, -0.1), -1),
        (Interval(0.2, 0.1, 5, -0.05, 0.25), (-0.05, 0.3), 0),
        (Interval(0.2, math.nan, 5, 0.05, 0.25), (0.05, 0.25), 1),
        (Interval(0.2, math.nan, 1, 0.05, 0.25), (0.05, 0.25), 0),
        (Interval(0.2, math.nan, 5), (math.nan, math.nan), 0),
    ],
)
def test_the_bounds_are_the_wider_of_all_that_is_known(found, bounds, side):
    assert found.bounds == pytest.approx(bounds, nan_ok=True)
    assert found.side == side


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        ("accuracy", 0.9),
        ("balanced_accuracy", 0.5),
        ("nll", -0.9 * math.log(0.9) - 0.1 * math.log(0.1)),
        ("brier", 1 - 0.81 - 0.01),
        ("auc", 0.5),
        ("sensitivity", math.nan),  # at no specificity there is none
        ("concordance", 0.5),
        ("r2", 0.0),
        ("rmse", math.nan),
        ("loss", math.nan),
    ],
)
def test_what_no_model_has(metric, known):
    assert no_model.of_labels(metric, [9, 1, 0]) == pytest.approx(known, nan_ok=True)


def test_by_chance_as_many_of_the_ill_are_called_ill_as_of_the_well():
    assert no_model.of_labels("sensitivity", [9, 1], 0.9) == pytest.approx(0.1)
    assert no_model.of_labels("sensitivity", [], 0.95) == pytest.approx(0.05)


def test_no_model_of_no_rows_and_of_numbers():
    """Of 1, 3: the mean, 2, is off by 1, and one that was known before by √2 in the mean. Predictions 1, 2
    have an RMSE of √(1/2), and R² is 1 - 1 / 2.
    """
    assert math.isnan(no_model.of_labels("accuracy", [0, 0]))
    assert no_model.of_figures(math.sqrt(0.5), 0.5, 2) == pytest.approx(math.sqrt(2))
    assert no_model.of_figures(math.sqrt(0.5), 0.5, 10**6) == pytest.approx(1.0)
    assert math.isnan(no_model.of_figures(math.nan, math.nan, 9))
    assert math.isnan(no_model.of_figures(1.0, 0.0, 1))
