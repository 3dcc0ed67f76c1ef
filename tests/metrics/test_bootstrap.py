"""Rows drawn anew: variances and bounds that are known by hand, and what does not depend on what."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.metrics.bootstrap import DRAWS, Outcomes, bounds, bounds_by_client, bounds_of_mean, differences
from coterie.metrics.table import BY_ROW

ACCURACY, RMSE = BY_ROW["accuracy"], BY_ROW["rmse"]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_variance_of_draws_is_that_of_a_mean():
    # rows differ by 1, 1, 1, 1, -1: mean 0.6, variance 0.8, so that of a mean of five is 0.16
    ours, theirs = np.array([[1.0, 1, 1, 1, 0]]), np.array([[0.0, 0, 0, 0, 1]])
    found = differences(ours, theirs, np.array([5]), ACCURACY, rng())
    assert found.shape == (DRAWS, 1)
    assert found.mean() == pytest.approx(0.6, abs=4 * 0.4 / DRAWS**0.5)
    assert found.var() == pytest.approx(0.16, rel=0.1)


def test_clients_draw_from_their_own_rows():
    # the first client's rows all say 1, the second's all -1
    ours, theirs = np.array([[1.0, 1, 0, 0, 0]]), np.array([[0.0, 0, 1, 1, 1]])
    found = differences(ours, theirs, np.array([2, 3]), ACCURACY, rng())
    assert (found == [1.0, -1.0]).all()


def test_two_methods_are_judged_on_the_same_rows():
    # all rows differ much from each other, and the two methods by 1 in each
    theirs = rng().normal(scale=100, size=(1, 20))
    found = differences(theirs + 1, theirs, np.array([20]), ACCURACY, rng())
    np.testing.assert_allclose(found, 1.0)


def test_rows_are_averaged_over_seeds_first():
    values = rng().integers(0, 2, (2, 4, 12)).astype(float)
    sizes = np.array([5, 7])
    apart = differences(*values, sizes, ACCURACY, rng())
    once = differences((values[0] - values[1]).mean(axis=0)[None], np.zeros((1, 12)), sizes, ACCURACY, rng())
    np.testing.assert_allclose(apart, once)


def test_an_error_is_the_root_of_a_mean():
    # squared errors 4 and 9 everywhere: RMSE 2 and 3, whatever is drawn
    found = differences(np.full((3, 6), 9.0), np.full((3, 6), 4.0), np.array([6]), RMSE, rng())
    np.testing.assert_allclose(found, 1.0)


def test_bounds_hold_19_of_20_draws_and_draws_come_from_the_key():
    draws = np.arange(1001.0)[:, None] * [1.0, -2.0]
    np.testing.assert_allclose(bounds(draws), [[25.0, -1950.0], [975.0, -50.0]])
    values = rng().integers(0, 2, (2, 1, 30)).astype(float)
    one, again = (differences(*values, np.array([30]), ACCURACY, rng()) for _ in range(2))
    assert (one == again).all()


def test_many_rows_are_drawn_some_at_a_time():
    values = rng().integers(0, 2, (2, 1, 3000)).astype(float)
    found = differences(*values, np.array([1000, 2000]), ACCURACY, rng())
    assert found.shape == (DRAWS, 2)
    plain = [1.96 * np.std(part) / len(part) ** 0.5 for part in np.split((values[0] - values[1])[0], [1000])]
    halves = np.diff(bounds(found), axis=0)[0] / 2
    np.testing.assert_allclose(halves, plain, rtol=0.1)


def test_values_of_some_clients():
    kept = Outcomes(np.array([2, 0, 3]), np.array([1, 0, 1, 1, 0], dtype=np.uint8))
    assert kept.only(np.array([True, True, False])).tolist() == [1, 0]
    assert kept.only(np.array([False, False, True])).tolist() == [1, 1, 0]


def test_noise_is_told_from_none_once_in_twenty():
    """300 times, two fixed models that are right by pure chance, for three clients of 20 rows."""
    draw, sizes, times, of = rng(), np.array([20, 20, 20]), 0, 300
    for _ in range(of):
        ours, theirs = draw.integers(0, 2, (2, 1, 60)).astype(float)
        low, high = bounds(differences(ours, theirs, sizes, ACCURACY, draw).mean(axis=1))
        times += low > 0 or high < 0
    assert times / of == pytest.approx(0.05, abs=3 * (0.05 * 0.95 / of) ** 0.5)


def test_rows_that_all_say_the_same_are_no_certainty():
    """Wilson's bound of 0 of 8 rows is z² / (8 + z²) = 3.8415 / 11.8415; of two such clients, the squares of
    0.3244 add up, halved. Squared errors have no such bound.
    """
    same, sizes = np.ones((1, 16)), np.array([8, 8])
    draws = differences(same, same, sizes, ACCURACY, rng())
    np.testing.assert_allclose(
        bounds_by_client(draws, sizes, ACCURACY), [[-0.3244] * 2, [0.3244] * 2], atol=1e-4
    )
    np.testing.assert_allclose(
        bounds_of_mean(draws, sizes, ACCURACY), np.array([-1, 1]) * 0.3244 * 2**0.5 / 2, atol=1e-4
    )
    errors = differences(same, same, sizes, RMSE, rng())
    assert np.isnan(bounds_by_client(errors, sizes, RMSE)).all()
    assert np.isnan(bounds_of_mean(errors, sizes, RMSE)).all()


def test_where_rows_differ_bounds_are_those_of_the_draws():
    ours, theirs, sizes = np.array([[1.0, 1, 1, 1, 0]]), np.array([[0.0, 0, 0, 0, 1]]), np.array([5])
    draws = differences(ours, theirs, sizes, ACCURACY, rng())
    np.testing.assert_array_equal(bounds_by_client(draws, sizes, ACCURACY), bounds(draws))
    np.testing.assert_array_equal(bounds_of_mean(draws, sizes, ACCURACY), bounds(draws[:, 0]))


def test_a_client_whose_rows_all_say_the_same_brings_its_own_bounds_to_the_mean():
    """Of 4 rows all are lost, of 200 one: the mean is -0.5025, and it is not known to half a point.

    -1 of 4 rows lies between -1 and -1 + √((1 - 0.5101)² + 0.4899²) = -0.3072 (Wilson: 0.5101, 0.4899), half
    of which is 0.3464; one row in 200 adds next to nothing.
    """
    ours, theirs = np.array([[0.0] * 5 + [1.0] * 199]), np.ones((1, 204))
    sizes = np.array([4, 200])
    low, high = bounds_of_mean(differences(ours, theirs, sizes, ACCURACY, rng()), sizes, ACCURACY)
    assert low == pytest.approx(-0.5025 - 0.0050, abs=2e-3)
    assert high == pytest.approx(-0.5025 + 0.3464, abs=2e-3)


def test_the_same_model_at_a_client_adds_nothing_to_the_bounds_of_an_error():
    ours, theirs = np.array([[1.0, 2, 3, 4, 5]]), np.array([[1.0, 2, 4, 4, 9]])
    sizes = np.array([2, 3])
    draws = differences(ours, theirs, sizes, RMSE, rng())
    draws[:, 0] = 0.0
    np.testing.assert_allclose(bounds_of_mean(draws, sizes, RMSE), bounds(draws[:, 1]) / 2, atol=1e-12)
