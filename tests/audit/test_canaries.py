"""The one-run audit of a run: scores by hand, a leaky run, and bounds below the accountant's."""

from __future__ import annotations

import pytest
import torch
from audit_runs import DIGITS, LEAKY, PRIVATE
from torch import nn

from coterie.core.belief import belief_of
from coterie.core.client import Samples
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.features.audit import canaries
from coterie.features.audit.canaries import gradients_of, planted_rows, shares_of, with_planted


def test_shares_by_hand():
    """Gradients (1, 0) and (0.6, 0.8), a step of the second alone: products 0.6 and 1."""
    alike = torch.tensor([[1, 0.6], [0.6, 1]], dtype=torch.float64)
    step = torch.tensor([0.6, 1.0], dtype=torch.float64)
    assert shares_of(step, alike, ridge=0.0).tolist() == pytest.approx([0, 1])
    # with λ = 1: (A + I)⁻¹ b, of determinant 4 - 0.36
    expected = [(2 * 0.6 - 0.6) / 3.64, (2 - 0.36) / 3.64]
    assert shares_of(step, alike, ridge=1.0).tolist() == pytest.approx(expected)


def test_gradients_are_those_of_each_row():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    learner, rows = (
        Learner(model, "classification"),
        Samples(torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])),
    )
    found = gradients_of(learner, belief_of(model), rows)
    for i in range(5):
        loss = nn.functional.cross_entropy(model(rows.x[i : i + 1]), rows.y[i : i + 1])
        expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        assert torch.allclose(found[i], expected, atol=1e-6)


@pytest.mark.parametrize("y", [torch.tensor([0, 1, 2]), torch.tensor([1.0, 2.0, 6.0])])
def test_planted_rows(client_of, y):
    client = client_of(torch.randn(3, 4) * 5, y)
    rows = planted_rows(client, 400, Key(0), 3)
    assert rows.x.dtype == client.train.x.dtype
    assert rows.y.dtype == y.dtype
    spread = (client.train.x - client.train.x.mean(0)).square().mean().sqrt()
    assert float(rows.x.std()) == pytest.approx(float((rows.x - rows.x.mean(0)).std()), rel=0.5)
    assert float((rows.x - client.train.x.mean(0)).square().mean().sqrt()) == pytest.approx(
        float(spread), rel=0.1
    )
    if not y.is_floating_point():
        assert set(rows.y.tolist()) == {0, 1, 2}
    more = with_planted(client, rows, torch.arange(400) < 7)
    assert len(more.train) == 10
    assert torch.equal(more.train.x[3:], rows.x[:7])


def test_a_leaky_run_is_caught(subject_of):
    found = canaries.attack(subject_of(*LEAKY))
    assert found["upper"] is None
    assert found["bounds"]["model"]["epsilon"] > 1
    assert found["bounds"]["replies"]["epsilon"] > 1
    assert (found["visits"], found["seen"]) == (20, 10), "what is tuned at home is seen by nobody"


@pytest.mark.parametrize("sigma", ["3", *(pytest.param(s, marks=pytest.mark.slow) for s in ("0.5", "1"))])
def test_never_above_the_accountant(subject_of, sigma):
    """The promise of dp(sgd) holds against both onlookers, and little noise shows."""
    pytest.importorskip("dp_accounting")
    found = canaries.attack(subject_of(*PRIVATE, "--dp.sigma", sigma, canaries=400))
    upper = found["upper"]["epsilon"]
    assert upper > 0
    assert found["seen"] == 6
    for bound in found["bounds"].values():
        assert bound["epsilon"] <= upper
    if sigma == "0.5":
        assert found["bounds"]["replies"]["epsilon"] > 0.2, "an audit that shows nothing"


def test_a_site_that_stops_at_its_budget_is_audited_as_it_does(subject_of):
    pytest.importorskip("dp_accounting")
    found = canaries.attack(subject_of(*PRIVATE, "--dp.sigma", "1", "--wrap", "private=6"))
    assert 0 < found["visits"] < 6
    assert found["upper"]["epsilon"] <= 6
    assert all(bound["epsilon"] <= found["upper"]["epsilon"] for bound in found["bounds"].values())


def test_nothing_leaves_who_trains_alone(subject_of):
    found = canaries.attack(subject_of(*DIGITS, "--clients", "4", "--method", "local", "--rounds", "1"))
    assert (found["visits"], found["seen"]) == (1, 0)
    assert list(found["bounds"]) == ["model"]
