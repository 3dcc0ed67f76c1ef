"""Intervals of many rows at once; their factor, worked out without scipy, against scipy."""

import math

import numpy as np
import pytest
from scipy import special

from coterie.metrics.summary import interval, intervals, mean_over_clients, means_of_known, student


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
