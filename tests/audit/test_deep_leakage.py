"""Pictures from a gradient: its parts by hand, a small network attacked, and one that is not tried."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.features.audit import deep_leakage
from coterie.features.audit.deep_leakage import angle, label_of, last_bias, mismatch, why_not
from coterie.features.audit.inversion import psnr


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(8 * 36, 16),
        nn.Tanh(),
        nn.Linear(16, 4),
    )


def test_by_hand():
    g = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([4.0])}
    assert float(mismatch(g, g)) == 0
    assert float(mismatch({k: 0 * t for k, t in g.items()}, g)) == 1
    found = {"a": torch.tensor([0.0, 3.0]), "b": torch.tensor([4.0])}
    assert float(mismatch(found, g)) == pytest.approx((9 + 9) / 25)
    assert float(angle(found, g)) == pytest.approx(1 - 16 / 25)
    assert float(angle({k: 7 * t for k, t in g.items()}, g)) == pytest.approx(0, abs=1e-6)


def test_the_label_is_where_the_gradient_is_below_zero():
    model, x = small(), torch.randn(1, 1, 6, 6)
    for label in range(4):
        loss = nn.functional.cross_entropy(model(x), torch.tensor([label]))
        (bias,) = torch.autograd.grad(loss, [model[5].bias])
        assert label_of(bias) == label
        assert int((bias < 0).sum()) == 1


def test_psnr_by_hand():
    assert psnr(torch.zeros(4), torch.tensor([0.1, -0.1, 0.1, -0.1]), 1.0) == pytest.approx(20)
    assert psnr(torch.zeros(4), torch.full((4,), 2.0), 20.0) == pytest.approx(10 * math.log10(100))
    assert psnr(torch.ones(2), torch.ones(2), 1.0) == 150


def test_a_picture_comes_back(monkeypatch):
    monkeypatch.setattr(deep_leakage, "SIGNED_STEPS", 60)
    learner = Learner(small(), "classification")
    belief, x = belief_of(learner.scoring), torch.rand(1, 1, 6, 6, generator=Key(0).torch())
    y = torch.tensor([2])
    gradient = {n: t.detach() for n, t in deep_leakage.gradient_at(learner, belief, x, y).items()}
    like = torch.rand(20, 1, 6, 6, generator=Key(1).torch())
    found = deep_leakage.recovered(learner, belief, gradient, y, like, Key(0))
    assert psnr(found.pictures[0], x[0], 1.0) > 30
    assert found.mismatch < 0.01
    again = deep_leakage.recovered(learner, belief, gradient, y, like, Key(0))
    assert torch.equal(found.pictures, again.pictures)


def test_what_is_not_tried():
    assert last_bias(small()) == "5.bias"
    assert why_not(small(), 10**7).startswith("the network has 10000000 parameters")
    assert "normalises" in why_not(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 2)), 10)
    assert "no bias" in why_not(nn.Sequential(nn.Conv2d(1, 2, 3)), 10)
    assert why_not(small(), 1000) == ""
