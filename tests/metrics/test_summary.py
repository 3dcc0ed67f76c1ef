"""Intervals of many rows at once; their factor, worked out without scipy, against scipy."""

import math

import numpy as np
import pytest
from scipy import special

from coterie.metrics.summary import (
    Interval,
    interval,
    intervals,
    mean_over_clients,
    means_of_known,
    student,
)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_students_factor_is_scipys(level):
    for degrees in (*range(1, 40), 99, 100, 999, 1000):
        wanted = float(special.stdtrit(degrees, (1 + level) / 2))
        assert student(degrees, level) == pytest.approx(wanted, rel=1e-12)


def test_students_factor_of_one_and_two_degrees_has_a_closed_form():
    assert student(1, 0.95) == pytest.approx(math.tan(0.95 * math.pi / 2), rel=1e-14)
    assert student(2, 0.95) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-14)


def test_many_intervals_are_those_of_each():
    table = np.array([[2.0, 3.0, 4.0], [2.0, math.nan, 3.0], [math.nan, 7.0, math.nan], [math.nan] * 3])
    for row, *found in zip(table, *intervals(table), strict=True):
        assert interval(row)[:3] == pytest.approx(tuple(found), nan_ok=True)
    assert intervals(table).mean[:3].tolist() == [3.0, 2.5, 7.0]
    assert intervals(table).half[1] == pytest.approx(12.7062047 * 0.5)
    assert intervals(table).seeds.tolist() == [3, 2, 1, 0]
    assert means_of_known(table)[:3].tolist() == [mean_over_clients(list(row)) for row in table[:3]]
    assert np.isnan(means_of_known(table)[3])
    assert mean_over_clients([1.0, None, 3.0]) == 2.0


def test_splits_of_the_same_rows_by_hand():
    # s = 1 and t = 4.3027 of two degrees: t √(1/3 + 1/4) where each split tests on a fifth of the rows
    found = interval([2.0, 3.0, 4.0], overlap=0.2 / 0.8)
    assert found.mean == 3.0
    assert found.half == pytest.approx(4.30265273 * math.sqrt(7 / 12))
    assert interval([2.0, 3.0, 4.0], overlap=0.0).half == pytest.approx(4.30265273 / math.sqrt(3))


def test_the_more_rows_splits_share_the_wider():
    values = np.tile([0.1, 0.4, 0.2, 0.7], (4, 1))
    halves = intervals(values, overlap=np.array([0.0, 0.1, 0.5, 2.0])).half
    assert (np.diff(halves) > 0).all()
    # with many seeds the plain one goes to 0, this one to t √r s
    many = np.resize([0.0, 1.0], 200)
    assert interval(many).half < 0.07
    assert interval(many, overlap=1.0).half == pytest.approx(1.972 * 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("found", "side"),
    [
        (Interval(1.0, 0.5, 5), 1),
        (Interval(-1.0, 0.5, 5), -1),
        (Interval(1.0, 1.0, 5), 0),
        (Interval(1.0, math.nan, 1), 0),  # one seed
        (Interval(1.0, 0.5, 5, 0.1, 1.9), 1),
        (Interval(1.0, 0.5, 5, -0.1, 2.1), 0),  # other test rows might say otherwise
        (Interval(-1.0, 0.5, 5, -1.9, -0.1), -1),
        (Interval(-1.0, 0.5, 5, -1.9, 0.0), 0),
        (Interval(1.0, math.nan, 1, 0.5, 1.5), 0),
        (Interval(math.nan, math.nan, 0), 0),
        (Interval(0.0, 0.0, 5), 0),
    ],
)
def test_what_lies_on_one_side_of_nothing(found, side):
    assert found.side == side


def test_splits_of_noise_exclude_nothing_once_in_twenty():
    """2,000 data sets of 100 rows, on which one fixed model is better by pure chance; 5 splits of each."""
    rng, sets, rows, tested, splits = np.random.default_rng(0), 2000, 100, 30, 5
    apart = rng.normal(size=(sets, rows))
    places = rng.random((sets, splits, rows)).argsort(axis=2)[:, :, :tested]
    gains = np.take_along_axis(apart[:, None], places, axis=2).mean(axis=2)
    error = math.sqrt(0.05 * 0.95 / sets)

    def excluded(overlap: float) -> float:
        found = intervals(gains, overlap=overlap)
        return float((np.abs(found.mean) > found.half).mean())

    assert excluded(tested / (rows - tested)) == pytest.approx(0.05, abs=3 * error)
    assert excluded(0.0) > 0.15
