"""Have chains of draws met? (Vehtari et al., 2021, sections 2 and 3, without ranks)

Each chain is cut into halves, which gives M chains of N draws of a quantity. With their variances s²_m, means
θ̄_m and autocorrelations ρ_{tm} at lag t,

    W     = 1/M Σ_m s²_m                    B/N = 1/(M-1) Σ_m (θ̄_m - θ̄)²
    var⁺  = (N-1)/N W + B/N                 R̂   = √(var⁺ / W)                            `split_r_hat`
    ρ_t   = 1 - (W - 1/M Σ_m s²_m ρ_{tm}) / var⁺
    P_k   = ρ_{2k} + ρ_{2k+1}, up to the first that is not above 0, and none above the one before
    τ     = -1 + 2 Σ_k P_k                  ESS = M N / τ                                `effective_size`

R̂ near 1 says that halves and chains agree; ESS is the number of independent draws that would tell the mean as
well. Of draws that alternate, ESS can exceed M N; it ends at M N log₁₀(M N), as in Stan. Axes are
[chain, draw, ...]; both return [...], NaN for a quantity that never moves.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coterie.core.errors import BadInput

FEWEST = 4  # draws of a chain: two in each half, for a variance


def split_r_hat(draws: Tensor) -> Tensor:
    """R̂ of each quantity."""
    within, pooled = _variances(halves(draws))
    return (pooled / within).sqrt()


def effective_size(draws: Tensor) -> Tensor:
    """ESS of each quantity."""
    split = halves(draws)
    within, pooled = _variances(split)
    total = split.shape[0] * split.shape[1]
    rho = 1 - (within - autocovariance(split)) / pooled
    rho[0] = 1
    last = len(rho) // 2 * 2
    pairs = rho[0:last:2] + rho[1:last:2]
    kept = (pairs > 0).cumprod(dim=0)
    tau = -1 + 2 * (pairs.cummin(dim=0).values * kept).sum(dim=0)
    size: Tensor = total / tau.clamp(min=1 / math.log10(total))
    return size


def halves(draws: Tensor) -> Tensor:
    """Each chain as two, [2 chain, draw, ...], in float64, without the middle draw of an odd number."""
    n = draws.shape[1]
    if n < FEWEST:
        raise BadInput(f"{n} draws a chain: halves with a variance need at least {FEWEST}: draw more")
    half = n // 2
    return torch.cat([draws[:, :half], draws[:, n - half :]]).double()


def _variances(chains: Tensor) -> tuple[Tensor, Tensor]:
    """W and var⁺."""
    n = chains.shape[1]
    within = chains.var(dim=1).mean(dim=0)
    return within, (n - 1) / n * within + chains.mean(dim=1).var(dim=0)


def autocovariance(chains: Tensor) -> Tensor:
    """1/M Σ_m s²_m ρ_{tm} by lag: [lag, ...], each sum divided by N, which damps the far lags."""
    n = chains.shape[1]
    away = chains - chains.mean(dim=1, keepdim=True)
    lags = [(away[:, t:] * away[:, : n - t]).sum(dim=1).mean(dim=0) / n for t in range(n)]
    return torch.stack(lags)
