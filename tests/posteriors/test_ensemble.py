"""Averages of models and of predictions, by hand; sampling; what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, row
from coterie.core.errors import BadInput
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.posteriors import diagonal, isotropic, product, sample
from coterie.posteriors.ensemble import average_model, bayavg, fedavg, predict, wbayavg, wfedavg

X = torch.ones(1, 1)
SURE = 1e-12


def logits(belief, x):
    """Two classes, of which the first has log-odds w x."""
    return torch.cat([x * belief["w"], torch.zeros_like(x)], dim=1)


def at(w, variance=SURE):
    return diagonal({"w": torch.tensor([w])}, {"w": torch.tensor([variance])})


def sigmoid(w):
    return 1 / (1 + math.exp(-w))


PAIR = [at(0.0), at(4.0)]


def first(probabilities):
    assert probabilities.shape == (1, 2)
    assert probabilities.sum().item() == pytest.approx(1)
    return probabilities[0, 0].item()


def test_averages_of_models():
    assert average_model(PAIR, [3, 1])["w"].item() == pytest.approx(1)
    assert first(fedavg(logits, PAIR, X)) == pytest.approx(sigmoid(2))
    assert first(wfedavg(logits, PAIR, X, torch.tensor([3, 1]))) == pytest.approx(sigmoid(1))


@pytest.mark.parametrize("samples", [0, 3])  # with next to no variance, samples are the mean
def test_averages_of_predictions(samples):
    half, sure = 0.5, sigmoid(4)
    assert first(bayavg(logits, PAIR, X, samples, Key(0))) == pytest.approx((half + sure) / 2, abs=1e-5)
    found = wbayavg(logits, PAIR, X, [3, 1], samples, Key(0))
    assert first(found) == pytest.approx(0.75 * half + 0.25 * sure, abs=1e-5)


def test_model_averaging_is_the_mean_over_the_samples():
    posterior = at(1.0, 2.0)
    drawn = sample(posterior, 4, Key(7))
    by_hand = sum(sigmoid(row(drawn, s)["w"].item()) for s in range(4)) / 4
    assert first(predict(logits, posterior, X, 4, Key(7))) == pytest.approx(by_hand)


def test_uncertainty_lowers_confidence():
    """E sigmoid(w) of w ~ N(2, 9) is nearer to a half than sigmoid(2); the probit formula gives 0.745."""
    found = first(predict(logits, at(2.0, 9.0), X, 4000, Key(0)))
    assert found == pytest.approx(sigmoid(2 / math.sqrt(1 + math.pi * 9 / 8)), abs=0.03)
    assert found < sigmoid(2)


def test_any_learner():
    model = nn.Linear(3, 4)
    learner = Learner(model, "classification")
    posterior = isotropic(belief_of(model), 1.0)
    found = predict(learner.outputs, product([posterior, posterior]), torch.randn(5, 3), 2, Key(0))
    assert found.shape == (5, 4)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(5).double())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fedavg(logits, [], X), "an average of 0 posteriors: give at least 1"),
        (lambda: wfedavg(logits, PAIR, X, [1]), "1 sizes for 2 posteriors: give one for each"),
        (
            lambda: wbayavg(logits, PAIR, X, [1, 0], 0, Key(0)),
            "size 0 must be above 0: leave that client out",
        ),
        (lambda: predict(logits, PAIR[0], X, -1, Key(0)), "samples=-1 must be at least 1: try 30"),
        (
            lambda: predict(lambda b, x: x, PAIR[0], X, 0, Key(0)),
            "outputs of shape [1, 1]: averaging probabilities needs logits [n, class] of at least 2 classes",
        ),
    ],
)
def test_refusals(call, message, refused):
    with refused(BadInput, message):
        call()
