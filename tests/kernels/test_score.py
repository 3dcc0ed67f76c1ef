from __future__ import annotations

import math

import pytest
import torch

from coterie.core.groups import Groups
from coterie.core.kernel import scores
from coterie.kernels import SGD, Calibrate, Score, Tallied


def measured(kernel, task, outputs, losses, y, sizes=None):
    """Figures by name, a list with one for each client."""
    groups = Groups.of(torch.tensor(sizes or [len(y)]))
    return {n: v.tolist() for n, v in kernel.measure(task, outputs, losses, y, groups).items()}


def test_two_classes_by_hand():
    # class 1 is ahead of class 0 by 2, -1, 1, 1; right are the first three
    outputs = torch.tensor([[0.0, 2.0], [4.0, 3.0], [0.0, 1.0], [0.0, 1.0]])
    y = torch.tensor([1, 0, 1, 0])
    found = measured(Score(), "classification", outputs, torch.tensor([1.0, 2.0, 3.0, 6.0]), y)
    assert found == {
        "loss": [3.0],
        "samples": [4.0],
        "accuracy": [0.75],
        "balanced_accuracy": [0.75],
        # of four pairs, three are in order and one is tied
        "auc": [3.5 / 4],
    }


def test_several_clients_by_hand():
    # class 1 is ahead by 2, -1 | 1 | 1, 1, -3; right are both, none, and the first and last
    ahead = torch.tensor([2.0, -1.0, 1.0, 1.0, 1.0, -3.0])
    outputs, y = torch.stack([torch.zeros(6), ahead], dim=1), torch.tensor([1, 0, 0, 1, 0, 0])
    found = measured(Score(), "classification", outputs, torch.arange(6.0), y, [2, 1, 3])
    assert found["loss"] == [0.5, 2.0, 4.0]
    assert found["samples"] == [2, 1, 3]
    assert found["accuracy"] == pytest.approx([1, 0, 2 / 3])
    assert found["balanced_accuracy"] == pytest.approx([1, 0, 0.75])
    assert found["auc"][0] == 1
    assert math.isnan(found["auc"][1])
    assert found["auc"][2] == 0.75  # one pair is tied, the other in order
    some = measured(Score(numbers=("loss",)), "classification", outputs, torch.arange(6.0), y, [2, 1, 3])
    assert some == {"loss": found["loss"]}


@pytest.mark.parametrize("classes", [2, 3, 10, 33])
@pytest.mark.parametrize("kernel", [Calibrate(), Tallied()], ids=lambda k: k.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_clients_figures_have_the_same_bits_alone_and_among_others(kernel, classes, dtype):
    sizes, draws = [7, 1, 23, 16, 40], torch.Generator().manual_seed(classes)
    outputs = 3 * torch.randn(sum(sizes), classes, generator=draws, dtype=torch.float64).to(dtype)
    losses = torch.rand(sum(sizes), generator=draws)
    y = torch.randint(classes, (sum(sizes),), generator=draws)
    together = measured(kernel, "classification", outputs, losses, y, sizes)
    parts = zip(*(t.split(sizes) for t in (outputs, losses, y)), strict=True)
    for i, part in enumerate(parts):
        alone = measured(kernel, "classification", *(t.clone() for t in part))
        assert {n: v[0] for n, v in alone.items()} == pytest.approx(
            {n: v[i] for n, v in together.items()}, rel=0, abs=0, nan_ok=True
        )


def test_three_classes_have_no_auc():
    found = measured(Score(), "classification", torch.eye(3), torch.zeros(3), torch.tensor([0, 1, 1]))
    assert set(found) == {"loss", "samples", "accuracy", "balanced_accuracy"}
    assert found["accuracy"] == pytest.approx([2 / 3])
    # all of class 0, half of class 1; class 2 is absent
    assert found["balanced_accuracy"] == pytest.approx([0.75])


def test_one_class_only_has_no_auc_number():
    found = measured(Score(), "classification", torch.zeros(2, 2), torch.zeros(2), torch.tensor([1, 1]))
    assert math.isnan(found["auc"][0])
    assert found["accuracy"] == [0]


def test_a_regression_by_hand():
    # the second client has but one target
    outputs = torch.tensor([[1.0], [2.0], [6.0], [4.0], [2.0]])
    y = torch.tensor([1.0, 3.0, 5.0, 5.0, 5.0])
    losses = torch.tensor([0.0, 1.0, 1.0, 1.0, 9.0])
    found = measured(Score(), "regression", outputs, losses, y, [3, 2])
    assert found["loss"] == pytest.approx([2 / 3, 5])
    assert found["rmse"] == pytest.approx([(2 / 3) ** 0.5, 5**0.5])
    # squared errors 2, squared deviations from 3: 8
    assert found["r2"] == pytest.approx([0.75, math.nan], nan_ok=True)


def test_scorers_and_trainers_are_told_apart():
    assert scores(Score())
    assert not scores(SGD())
