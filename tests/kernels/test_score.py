from __future__ import annotations

import math

import pytest
import torch

from coterie.core.kernel import scores
from coterie.kernels import SGD, Score


def test_two_classes_by_hand():
    # class 1 is ahead of class 0 by 2, -1, 1, 1; right are the first three
    outputs = torch.tensor([[0.0, 2.0], [4.0, 3.0], [0.0, 1.0], [0.0, 1.0]])
    y = torch.tensor([1, 0, 1, 0])
    found = Score().measure("classification", outputs, torch.tensor([1.0, 2.0, 3.0, 6.0]), y)
    assert found == {
        "loss": 3.0,
        "samples": 4.0,
        "accuracy": 0.75,
        "balanced_accuracy": 0.75,
        # of four pairs, three are in order and one is tied
        "auc": 3.5 / 4,
    }


def test_three_classes_have_no_auc():
    found = Score().measure("classification", torch.eye(3), torch.zeros(3), torch.tensor([0, 1, 1]))
    assert set(found) == {"loss", "samples", "accuracy", "balanced_accuracy"}
    assert found["accuracy"] == pytest.approx(2 / 3)
    # all of class 0, half of class 1; class 2 is absent
    assert found["balanced_accuracy"] == pytest.approx(0.75)


def test_one_class_only_has_no_auc_number():
    found = Score().measure("classification", torch.zeros(2, 2), torch.zeros(2), torch.tensor([1, 1]))
    assert math.isnan(found["auc"])
    assert found["accuracy"] == 0


def test_a_regression_by_hand():
    outputs, y = torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([1.0, 3.0, 5.0])
    found = Score().measure("regression", outputs, torch.tensor([0.0, 1.0, 1.0]), y)
    assert found["loss"] == pytest.approx(2 / 3)
    assert found["rmse"] == pytest.approx((2 / 3) ** 0.5)
    # squared errors 2, squared deviations from 3: 8
    assert found["r2"] == pytest.approx(0.75)


def test_scorers_and_trainers_are_told_apart():
    assert scores(Score())
    assert not scores(SGD())
