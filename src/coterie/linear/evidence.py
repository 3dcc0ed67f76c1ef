"""Coefficients of sites around a common mean; how far apart they lie is learnt, by how likely it makes rows.

    w_k = c + u_k,    u_k ~ N(0, T),  T = diag(τ² for slopes, τ₀² for the intercept)
    c ~ N(0, σ²) for slopes; its intercept is free

Around w_k, site k's log-likelihood is -½ w'H_k w + z_k'w + const, with H_k its curvature and z_k = H_k w_k -
g_k. Without u_k, which is summed over:

    A_k = (I + H_k T)^{-1} H_k,    a_k = (I + H_k T)^{-1} z_k
    s_k = -½ log|I + T H_k| + ½ z_k' T (I + H_k T)^{-1} z_k

so that of the sums A, a, s over sites alone, with P = A + diag(1/σ²),

    log p(rows | σ, τ, τ₀) = s + ½ a'P^{-1}a - ½ log|P| + ½ Σ_slopes log 1/σ²,        c = P^{-1} a

σ, τ and τ₀ are those of a grid that make this largest: empirical Bayes (Efron and Morris, 1973, "Stein's
estimation rule and its competitors"; for likelihoods that are not Gaussian, Laplace's approximation). τ = 0
is one model for all, a large τ as many as there are sites, held by the same strength; σ = 0 says that sites
have nothing in common but how large their coefficients are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from coterie.linear.strength import FIRM

APART = (0.0, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0)
"""τ, in deviations of a column."""
LEVELS = (0.0, 0.25, 1.0, 4.0)
"""τ₀, in the units of η: log odds, or deviations of the target."""
COMMON = (0.01, 0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.0)
"""σ, in deviations of a column."""


class Sums(NamedTuple):
    """A [g, q, q], a [g, q] and s [g] for each pair (τ, τ₀) of a grid, of one site or of all."""

    curvature: Tensor
    slope: Tensor
    constant: Tensor


class Learnt(NamedTuple):
    """What makes all rows most likely, and the common coefficients [q] that go with it."""

    apart: float
    level: float
    common: float
    mean: Tensor
    evidence: float


def grid(apart: bool, intercept: bool) -> list[tuple[float, float]]:
    """Pairs (τ, τ₀); the first alone where sites are to share one model."""
    if not apart:
        return [(0.0, 0.0)]
    return [(tau, level) for tau in APART for level in (LEVELS if intercept else LEVELS[:1])]


def variances(pairs: list[tuple[float, float]], slopes: Tensor) -> Tensor:
    """[g, q] the diagonal of T for each pair."""
    taus = torch.tensor(pairs, dtype=torch.float64)
    return torch.where(slopes, taus[:, :1], taus[:, 1:]).square()


def marginal(curvature: Tensor, z: Tensor, spread: Tensor) -> Sums:
    """A, a and s of one site, of H [q, q] and z [q], for each diagonal of T [g, q]."""
    root = spread.sqrt()
    if not bool(spread.any()):
        whole = curvature.expand(len(spread), -1, -1), z.expand(len(spread), -1)
        return Sums(*whole, torch.zeros(len(spread), dtype=z.dtype))
    inside = torch.eye(len(z), dtype=z.dtype) + root.unsqueeze(2) * curvature * root.unsqueeze(1)
    factor = torch.linalg.cholesky(inside)
    right = torch.cat([curvature, z.unsqueeze(1)], 1)
    scaled = root.unsqueeze(2) * right  # R [H, z]
    back = torch.cholesky_solve(scaled, factor)  # B^{-1} R [H, z]
    less = (root.unsqueeze(1) * curvature) @ back  # H R B^{-1} R [H, z]
    left = right - less
    gained = (scaled[..., -1] * back[..., -1]).sum(1) / 2
    size = factor.diagonal(dim1=1, dim2=2).log().sum(1)
    return Sums(left[..., :-1], left[..., -1], gained - size)


def learnt(sums: Sums, pairs: list[tuple[float, float]], slopes: Tensor) -> Learnt:
    """The best of the grid, from the sums over all sites."""
    best: Learnt | None = None
    sigmas = torch.tensor(COMMON, dtype=torch.float64)
    prior = torch.where(slopes, sigmas.unsqueeze(1) ** -2, FIRM)  # [sigma, q]
    many = int(slopes.sum())
    for g, (apart, level) in enumerate(pairs):
        a = sums.slope[g]
        matrix = (sums.curvature[g] + sums.curvature[g].T) / 2 + torch.diag_embed(prior)
        factor, wrong = torch.linalg.cholesky_ex(matrix)
        mean = torch.cholesky_solve(a.expand(len(sigmas), -1).unsqueeze(2), factor).squeeze(2)
        size = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        found = sums.constant[g] + (mean * a).sum(1) / 2 - size - many * sigmas.log()
        found = torch.where(wrong > 0, -torch.inf, found)
        at = int(found.argmax())
        if best is None or float(found[at]) > best.evidence:
            best = Learnt(apart, level, float(sigmas[at]), mean[at], float(found[at]))
    assert best is not None
    return best
