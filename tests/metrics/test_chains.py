"""R̂ and ESS by hand, then beside arviz."""

from __future__ import annotations

import math

import arviz
import numpy as np
import pytest
import torch

from coterie.core.errors import BadInput
from coterie.metrics.chains import autocovariance, effective_size, halves, split_r_hat


def walks(phi: float, seed: int, shape: tuple[int, int, int] = (4, 300, 5)) -> np.ndarray:
    """Chains x_t = φ x_{t-1} + e_t."""
    noise = np.random.default_rng(seed).normal(size=shape)
    for t in range(1, shape[1]):
        noise[:, t] += phi * noise[:, t - 1]
    return noise


def test_r_hat_by_hand():
    # halves (0, 2), (1, 3) of one chain: W = 2, means 1 and 2, B/N = 1/2, var⁺ = 1/2 · 2 + 1/2
    assert split_r_hat(torch.tensor([[0.0, 2.0, 1.0, 3.0]])).item() == pytest.approx(math.sqrt(1.5 / 2))


def test_the_middle_of_an_odd_number_is_left_out():
    assert halves(torch.tensor([[1.0, 2.0, 9.0, 3.0, 4.0]])).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_autocovariance_by_hand():
    # deviations -1, 1, 0 of the only chain: (1 + 1 + 0)/3, (-1 + 0)/3, 0
    found = autocovariance(torch.tensor([[1.0, 3.0, 2.0]]).double())
    assert found.tolist() == pytest.approx([2 / 3, -1 / 3, 0])


def test_size_by_hand():
    # halves (0, 0, 1, 1) and (1, 1, 0, 0): W = 1/3, B/N = 0, var⁺ = 1/4; acov = 1/4, 1/16, ...
    # ρ_1 = 1 - (1/3 - 1/16) · 4 = -1/12, P_0 = 11/12; acov_2 = -1/8, acov_3 = -1/16 give P_1 < 0
    draws = torch.tensor([[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]])
    tau = max(-1 + 2 * 11 / 12, 1 / math.log10(8))
    assert effective_size(draws).item() == pytest.approx(8 / tau)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_as_arviz_has_it(phi):
    chains = walks(phi, 3)
    r_hat, size = split_r_hat(torch.tensor(chains)), effective_size(torch.tensor(chains))
    columns = [chains[..., i] for i in range(chains.shape[2])]
    assert r_hat.tolist() == pytest.approx([float(arviz.rhat(c, method="split")) for c in columns])
    # arviz adds a last half of a pair
    assert size.tolist() == pytest.approx([float(arviz.ess(c, method="mean")) for c in columns], rel=0.05)


def test_what_never_moves_has_no_number():
    still = torch.ones(2, 8, 1)
    assert bool(split_r_hat(still).isnan().all())
    assert bool(effective_size(still).isnan().all())


def test_too_few_draws(refused):
    message = "3 draws a chain: halves with a variance need at least 4: draw more"
    with refused(BadInput, message):
        split_r_hat(torch.zeros(2, 3, 1))
