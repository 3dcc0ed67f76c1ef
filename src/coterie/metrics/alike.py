"""How far sites are apart, from the quantiles of their columns.

    t_ijc = 1/19 Σ_k |q_ick - q_jck| / s_c          column_terms
    d_ij  = 1/C Σ_c t_ijc                           their mean

q_ick are the 5 %, 10 %, ..., 95 % quantiles of column c at site i, s_c is the column's deviation over all
sites together. A term is close to the first Wasserstein distance of the two columns, in deviations: 0.5 says
that values of one site lie half a deviation from those of the other. The terms of a pair, largest first, are
the columns in which it differs most.

Two samples of the same patients differ too, the more so the smaller they are. How much is to be expected by
chance alone, from the sampling error v_ick of each quantile:

    E|q_ick - q_jck| = √(2/π) √(v_ick + v_jck)      by_chance

The k-th of n ordered uniform numbers has the distribution Beta(k, n + 1 - k), and v_ick is the variance of
the site's own quantile function, a straight line between its 19 points, at such a number (David and Nagaraja
2003, "Order Statistics", sections 2.1 and 4.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

POINTS = 32  # of a Beta distribution, evenly likely


def pooled_deviation(quantiles: Tensor, sizes: Tensor) -> Tensor:
    """s_c [column] of quantiles [site, column, level], each site counting by its rows; 1 where it is 0."""
    shares = (sizes.double() / sizes.sum()).reshape(-1, 1, 1) / quantiles.shape[-1]
    mean = (shares * quantiles).sum(dim=(0, 2), keepdim=True)
    found = (shares * (quantiles - mean) ** 2).sum(dim=(0, 2)).sqrt()
    return torch.where(found > 1e-12, found, torch.ones_like(found))


def column_terms(quantiles: Tensor, deviation: Tensor) -> Tensor:
    """t_ijc: [site, site, column]."""
    return _over_levels(quantiles, lambda one, other: (one - other).abs()) / quantiles.shape[2] / deviation


def by_chance(variance: Tensor, deviation: Tensor) -> Tensor:
    """What t_ijc is expected to be between two samples of the same rows: [site, site, column]."""
    total = _over_levels(variance, lambda one, other: (one + other).sqrt())
    return math.sqrt(2 / math.pi) * total / variance.shape[2] / deviation


def _over_levels(values: Tensor, of_pair: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The sum over levels of a function of two sites' values [site, column, level]: [site, site, column]."""
    sites, columns, levels = values.shape
    total = values.new_zeros(sites, sites, columns)
    for k in range(levels):
        total += of_pair(values[..., k].unsqueeze(1), values[..., k].unsqueeze(0))
    return total


def sampling_variance(quantiles: Tensor, sizes: Tensor) -> Tensor:
    """v_ick [site, column, level] of sites with so many rows."""
    from scipy.special import betaincinv  # only here: it takes a while to import

    found, even = [], (torch.arange(POINTS, dtype=torch.float64) + 0.5) / POINTS
    for own, rows in zip(quantiles, sizes.tolist(), strict=True):
        place = (_levels_of(own) * (int(rows) - 1) + 1).unsqueeze(1)
        drawn = betaincinv(place.numpy(), (int(rows) + 1 - place).numpy(), even.numpy())
        found.append(quantile_function(own, torch.as_tensor(drawn)).var(dim=-1, correction=0))
    return torch.stack(found)


def _levels_of(quantiles: Tensor) -> Tensor:
    many = quantiles.shape[-1]
    return torch.arange(1, many + 1, dtype=torch.float64) / (many + 1)


def quantile_function(quantiles: Tensor, at: Tensor) -> Tensor:
    """Values [column, ...] at levels [...]: straight lines between the quantiles [column, level], and beyond
    the outer ones.
    """
    levels = _levels_of(quantiles)
    right = torch.searchsorted(levels, at.contiguous()).clamp(1, len(levels) - 1)
    low, high = quantiles[:, right - 1], quantiles[:, right]
    return low + (high - low) * (at - levels[right - 1]) / (levels[right] - levels[right - 1])
