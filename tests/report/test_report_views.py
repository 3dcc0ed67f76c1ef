"""Numbers worked out by hand. With two seeds the t quantile is 12.7062."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.core.errors import BadInput
from coterie.report import matrices
from coterie.show import views

T = 12.7062047
WIDER = math.sqrt(5 / 3)  # √(1/2 + 1/3) over √(1/2): two splits, one test row for three others


def test_groups_keep_the_order_of_labels_and_sort_seeds(two_seeds):
    by_label = views.groups([two_seeds[3], two_seeds[2], two_seeds[0]])
    assert list(by_label) == ["fedavg", "local"]
    assert [views.seed(r) for r in by_label["fedavg"]] == [0, 1]
    assert views.baseline(by_label) == "local"


def test_groups_refuse_what_cannot_stand_in_one_table(two_seeds, make_known):
    with pytest.raises(BadInput, match="nothing to report"):
        views.groups([])
    with pytest.raises(BadInput, match="'fedavg' is there 2 times with seed 0"):
        views.groups([two_seeds[2], two_seeds[2]])
    with pytest.raises(BadInput, match="different clients"):
        views.groups([two_seeds[0], make_known({"accuracy": [1.0]}, "fedavg", names=["a"])])
    with pytest.raises(BadInput, match="a regression"):
        views.groups([two_seeds[0], make_known({"rmse": [1.0, 1.0]}, "x", task="regression")])


def test_mean_over_clients_then_interval_over_seeds(two_seeds):
    # seeds: (0.8 + 0.8) / 2 and (0.7 + 1.0) / 2; half = t s √(1/2 + r) with s = 0.05 / √2, and 10 test rows
    # over 30 others make r = 1/3
    found = views.over_seeds(two_seeds[2:], "accuracy")
    assert found.mean == pytest.approx(0.825)
    assert found.half == pytest.approx(T * 0.025 * WIDER)
    assert math.isnan(views.over_seeds(two_seeds[2:3], "accuracy").half)


def test_gain_is_paired_by_client_and_seed(two_seeds):
    table = views.gains(two_seeds[2:], two_seeds[:2], "accuracy")
    np.testing.assert_allclose(table, [[0.2, 0.0], [0.0, 0.1]], atol=1e-12)
    found = views.gain_over_seeds(two_seeds[2:], two_seeds[:2], "accuracy")
    assert found.mean == pytest.approx(0.075)
    assert found.half == pytest.approx(T * 0.025 * WIDER)
    drawn = views.gain_bars("fedavg", two_seeds[2:], two_seeds[:2], "accuracy")
    np.testing.assert_allclose(drawn.mean, [0.1, 0.05])
    # by itself, a has 5 test rows over 10 others and b 5 over 20: √(1 + 2r)
    wider = np.sqrt([2.0, 1.5])
    np.testing.assert_allclose(drawn.half, wider * [T * 0.1, T * 0.05], rtol=1e-6)
    each = views.gain_by_client(two_seeds[2:], two_seeds[:2], "accuracy")
    np.testing.assert_allclose([g.half for g in each], drawn.half)


def test_gain_in_an_error_is_above_zero_when_it_shrinks(two_seeds):
    table = views.gains(two_seeds[2:], two_seeds[:2], "loss")
    np.testing.assert_allclose(table, [[0.4, 0.1], [0.1, 0.2]], atol=1e-12)


def test_gain_without_a_common_seed_is_nothing(two_seeds):
    assert np.isnan(views.gains(two_seeds[2:3], two_seeds[1:2], "accuracy")).all()


def test_curve_has_the_interval_over_seeds(two_seeds):
    by_label = views.groups(two_seeds)
    assert views.band_kind(by_label) == "seeds"
    curve = views.curve("fedavg", by_label["fedavg"], "seeds", "accuracy")
    assert curve.rounds == [0, 1, 2]
    assert curve.seeds == [2, 2, 2]
    np.testing.assert_allclose(curve.mean, [0.4125, 0.825, 0.825])
    np.testing.assert_allclose(
        curve.high - curve.mean, WIDER * T * np.array([0.0125, 0.025, 0.025]), rtol=1e-6
    )


def test_band_of_one_seed_is_the_middle_half_of_the_clients(make_known):
    run = make_known({"accuracy": [0.1, 0.2, 0.3, 0.4, None]}, names=list("abcde"))
    assert views.band_kind(views.groups([run])) == "clients"
    curve = views.curve("fedavg", [run], "clients", "accuracy")
    assert curve.mean[-1] == pytest.approx(0.25)
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((0.175, 0.325))


def test_one_seed_among_several_gets_no_band(two_seeds):
    curve = views.curve("local", two_seeds[:1], "seeds", "accuracy")
    assert np.isnan(curve.low).all()
    assert np.isfinite(curve.mean).all()


def test_rounds_that_were_not_scored_are_left_out(make_known):
    run = make_known({"accuracy": [0.5, 0.7]}, rounds=12, every=5)
    assert views.curve("fedavg", [run], "clients", "accuracy").rounds == [0, 5, 10, 12]
    assert views.figures(run, "loss", views.TRAIN)[0] == list(range(13))
    assert np.isnan(views.figures(run, "loss", views.TRAIN)[1][0]).all()


def test_seeds_that_stopped_early_count_as_long_as_they_ran(make_known):
    runs = [
        make_known({"accuracy": [0.5, 0.5]}, seed=0),
        make_known({"accuracy": [0.7, 0.7]}, seed=1, done=1),
    ]
    curve = views.curve("fedavg", runs, "seeds", "accuracy")
    assert curve.seeds == [2, 2, 1]
    np.testing.assert_allclose(curve.mean, [0.3, 0.6, 0.5])


def test_nothing_scored_and_metrics_that_are_not_there(make_known):
    empty = make_known({"accuracy": [0.5, 0.7]})
    empty.metrics.clear()
    assert np.isnan(views.final(empty, "accuracy")).all()
    assert views.metrics([empty]) == []
    run = make_known({"accuracy": [0.5, None], "auc": [None, None]})
    assert views.metrics([run]) == ["accuracy"]
    assert views.over_seeds([run], "accuracy").mean == pytest.approx(0.5)
    assert views.metrics([run], "shared/test") == []


def test_thin_is_even_and_keeps_the_last():
    assert views.thin([1, 2, 3], 5) == [1, 2, 3]
    assert views.thin(range(1, 11), 4) == [1, 4, 7, 10]
    assert views.thin(range(1, 11), 1) == [10]
    assert len(views.thin(range(150), 40)) == 40


def test_matrices_are_of_the_first_seed_and_in_order(make_known):
    run = make_known({"accuracy": [0.5] * 3}, names=list("abc"), rounds=5, seed=4)
    run.weights = {r: np.arange(9.0).reshape(3, 3) + 10 * r for r in range(1, 6)}
    for client, cluster in zip(run.about["clients"], (1, 0, 1), strict=True):
        client["cluster"] = cluster
    order = views.client_order(run)
    assert order == [1, 0, 2]
    found = matrices.matrices("fedavg", [run], order, frames=2)
    assert (found.seed, found.rounds, found.of_rounds) == (4, [1, 5], 5)
    assert found.names == ["b", "a", "c"]
    np.testing.assert_array_equal(found.values[0], [[14, 13, 15], [11, 10, 12], [17, 16, 18]])


def test_more_clients_than_fit_are_drawn_as_means_of_neighbours(make_known):
    run = make_known({"accuracy": [0.5] * 3}, names=list("abc"), rounds=1)
    run.weights = {1: np.arange(9.0).reshape(3, 3)}
    found = matrices.matrices("fedavg", [run], [0, 1, 2], side=2)
    assert found.names == ["a … b", "c"]
    np.testing.assert_allclose(found.values[0], [[2.0, 3.5], [6.5, 8.0]])


def test_no_matrix_before_the_first_round(make_known):
    run = make_known({"accuracy": [0.5, 0.5]}, done=0)
    assert matrices.matrices("fedavg", [run], [0, 1]) is None


def test_labels_and_sizes(make_known):
    run = make_known({"accuracy": [0.5, 0.5]}, classes=["no", "yes"])
    names, counts = views.labels(run)
    assert names == ["no", "yes"]
    assert list(counts) == ["train", "test"]
    np.testing.assert_array_equal(counts["train"], [[9, 19], [1, 1]])
    assert views.sizes(run) == {"train": [10, 20], "test": [5, 5]}
    assert views.labels(make_known({"rmse": [1.0, 1.0]}, task="regression")) is None
