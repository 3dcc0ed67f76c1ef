from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from coterie.core.groups import Groups
from coterie.metrics.classification import accuracy, auc, balanced_accuracy, hits
from coterie.metrics.summary import interval, mean_over_clients, worst
from coterie.metrics.table import METRICS, r2, rmse

BOTH = Groups.one(2)


@pytest.mark.parametrize("seed", range(3))
class TestAgainstScikitLearn:
    def test_accuracies(self, seed):
        rng = np.random.default_rng(seed)
        outputs, y = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
        guess, labels = outputs.argmax(axis=1), torch.as_tensor(y)
        right = hits(torch.as_tensor(outputs), labels)
        assert float(accuracy(right)) == pytest.approx(reference.accuracy_score(y, guess))
        balanced = float(balanced_accuracy(right, labels, 4))
        assert balanced == pytest.approx(reference.balanced_accuracy_score(y, guess))

    def test_auc_with_ties(self, seed):
        rng = np.random.default_rng(seed)
        score, y = rng.integers(0, 6, 40) / 4, rng.integers(0, 2, 40)
        found = auc(torch.as_tensor(score), torch.as_tensor(y))
        assert float(found) == pytest.approx(reference.roc_auc_score(y, score))

    def test_regression(self, seed):
        rng = np.random.default_rng(seed)
        predicted, y = rng.normal(size=30), 5 + rng.normal(size=30)
        pair = torch.as_tensor(predicted), torch.as_tensor(y)
        assert float(rmse(*pair)) == pytest.approx(reference.root_mean_squared_error(y, predicted))
        assert float(r2(*pair)) == pytest.approx(reference.r2_score(y, predicted))


class TestAuc:
    @pytest.mark.parametrize(
        ("score", "y", "value"),
        [
            ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
            ([1.0, 2.0, 3.0], [0, 0, 1], 1.0),
            ([3.0, 2.0, 1.0], [0, 0, 1], 0.0),
            ([1.0, 1.0, 1.0], [0, 1, 1], 0.5),
            ([0.0, -0.0], [0, 1], 0.5),
        ],
    )
    def test_by_hand(self, score, y, value):
        assert float(auc(torch.tensor(score), torch.tensor(y))) == pytest.approx(value)


def test_of_tied_logits_the_first_class_counts():
    assert hits(torch.zeros(4, 3), torch.tensor([0, 0, 1, 2])).tolist() == [1, 1, 0, 0]


class TestR2:
    def test_the_mean_is_0_and_the_truth_is_1(self):
        y = torch.tensor([1.0, 2.0, 6.0])
        assert float(r2(torch.full((3,), 3.0), y)) == pytest.approx(0)
        assert float(r2(y, y)) == 1

    @pytest.mark.parametrize("y", [[4.0], [4.0, 4.0]])
    def test_a_target_that_does_not_vary(self, y):
        assert math.isnan(r2(torch.zeros(len(y)), torch.tensor(y)))

    def test_a_target_that_does_not_vary_but_whose_mean_is_rounded(self):
        assert math.isnan(r2(torch.zeros(3), torch.full((3,), 0.1, dtype=torch.float64)))


class TestInterval:
    def test_by_hand(self):
        # mean 3, standard deviation 1; t(0.975, 2) = 4.3027, over √3
        found = interval([2.0, 3.0, 4.0])
        assert found[0] == 3
        assert found[1] == pytest.approx(4.302652729911275 / 3**0.5)
        assert found[2] == 3

    def test_what_is_missing_is_left_out(self):
        assert interval([2.0, math.nan, 3.0, 4.0]) == interval([2.0, 3.0, 4.0])

    def test_one_value_has_no_width_and_none_no_mean(self):
        one, none = interval([7.0]), interval([math.nan])
        assert (one[0], one[2]) == (7.0, 1)
        assert math.isnan(one[1])
        assert (math.isnan(none[0]), none[2]) == (True, 0)


def test_mean_over_clients_counts_each_once():
    assert mean_over_clients([1.0, None, 2.0, math.nan, 6.0]) == 3
    assert math.isnan(mean_over_clients([None]))


def test_the_worst_client_by_metric():
    assert worst([0.9, None, 0.4], higher=True) == 0.4
    assert worst([0.9, math.nan, 0.4], higher=False) == 0.9
    assert math.isnan(worst([], higher=False))


def test_every_scored_figure_knows_which_way_is_better():
    from coterie.kernels.calibrate import Calibrate

    two = ("classification", torch.eye(2), torch.zeros(2), torch.tensor([0, 1]), BOTH)
    numbers = {
        **Calibrate().measure(*two),
        **Calibrate(specificity=0.9).measure(*two),
        **Calibrate().measure("regression", torch.zeros(2, 1), torch.zeros(2), torch.ones(2), BOTH),
        **Calibrate().measure("survival", torch.zeros(2, 1), torch.zeros(2), torch.ones(2), BOTH),
    }
    assert set(numbers) - {"samples"} == set(METRICS)
