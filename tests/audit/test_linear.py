"""Rows from the step of a first linear layer: exact for one row, a mean for several."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from coterie.features.audit.deep_leakage import rows_of, takes_rows_as_they_are
from coterie.features.audit.inversion import cosines


def step_of(model, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    return dict(
        zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True)
    )


def test_by_hand():
    """Unit 0: 2 x with x = (1, 3); unit 1 does not move; unit 2: -4 x."""
    weight = torch.tensor([[2.0, 6.0], [0.0, 0.0], [-4.0, -12.0]])
    bias = torch.tensor([2.0, 0.0, -4.0])
    assert rows_of(weight, bias).tolist() == [[1, 3], [1, 3]]
    assert len(rows_of(weight * 0, bias * 0)) == 0


@pytest.mark.parametrize("hidden", [(), (32,)])
def test_one_row_is_exact(hidden):
    sizes = (8, *hidden, 3)
    layers = [nn.Flatten()]
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    x, y = torch.randn(1, 2, 4), torch.tensor([1])
    assert takes_rows_as_they_are(model, x) == ("1.weight", "1.bias")
    step = step_of(model, x, y)
    found = rows_of(step["1.weight"], step["1.bias"])
    assert float(cosines(found, x).min()) > 0.999999
    assert torch.allclose(found[0], x.flatten().double(), atol=1e-5)


def test_of_a_batch_units_give_weighted_means():
    model = nn.Sequential(nn.Linear(4, 3))
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    step = step_of(model, x, y)
    pull = (model(x).softmax(1) - nn.functional.one_hot(y, 3)).detach().double()
    expected = (pull.T @ x.double()) / pull.sum(0).unsqueeze(1)
    order = pull.sum(0).abs().argsort(descending=True)
    assert torch.allclose(rows_of(step["0.weight"], step["0.bias"]), expected[order], rtol=1e-3, atol=1e-4)
    assert float(cosines(rows_of(step["0.weight"], step["0.bias"]), x).max()) < 0.9999


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(2 * x)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 2, bias=False)),
        Scaled(),
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3)),
    ],
)
def test_other_first_layers_are_told_apart(model):
    assert takes_rows_as_they_are(model, torch.randn(1, 4)) is None


def test_a_model_may_be_one_layer():
    assert takes_rows_as_they_are(nn.Linear(4, 2), torch.randn(1, 4)) == ("weight", "bias")
