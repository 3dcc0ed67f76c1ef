"""Sums of columns and targets of any size, sealed and in the clear, give the same models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import coterie


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    size, middle = np.array([1, 100, 1, 0.01]), np.array([0, 5, 2000, 0])
    common, clients = 30 * rng.normal(size=4), []
    for k in range(3):
        z = rng.normal(size=(60, 4))
        y = z @ (common + 5 * rng.normal(size=4)) + 5000 + 50 * k + 20 * rng.normal(size=60)
        x = z * size + middle
        clients.append(coterie.Client.from_arrays(x[:40], y[:40], name=f"s{k}", test=(x[40:], y[40:])))
    return clients


@pytest.mark.parametrize("method", ["pooled", "partial"])
def test_targets_and_columns_of_any_size(sites, method):
    clear, sealed = (
        coterie.train("linear", sites, method, wrap=wrap, rounds=8, progress=False).record.metrics[-1][
            "scores"
        ]["own/test"]["rmse"]
        for wrap in ((), ("sealed",))
    )
    assert clear == pytest.approx(sealed, rel=1e-3)
    if method == "partial":  # noise has a deviation of 20, targets one of 60
        assert max(clear) < 32


def test_what_is_remembered_of_rows_fits_the_model_that_asks(sites):
    """The same rows, solved for tensors of other names and another precision."""
    one, two = nn.Linear(4, 1), nn.Sequential(nn.Flatten(), nn.Linear(4, 1)).double()
    ask = {"kernel": "ridge", "rounds": 1, "progress": False}
    first, second = (coterie.train(model, sites, "local", **ask).models["s0"] for model in (one, two))
    mine, other = dict(first.named_parameters()), dict(second.named_parameters())
    assert {t.dtype for t in mine.values()} == {torch.float32}
    assert {t.dtype for t in other.values()} == {torch.float64}
    assert len(mine) == len(other) == 2
    assert set(mine) != set(other)
    for a, b in zip(mine.values(), other.values(), strict=True):
        assert torch.allclose(a.double(), b, rtol=1e-4)
