"""What is measured of the draws of section 6 of makni-2022: two clouds of models [draw, parameter].

    deviation    1/p Σ_i |1/S Σ_s θ_si - 1/S Σ_s θ'_si|, the mean over coordinates of two means' distance
    plane        through the mean of some models along their first two principal axes          `plane_of`
    ratio        of one cloud's standard deviation to the other's, along an axis
    overlap      ∫ √(q q') of the normal densities with the moments of two clouds in a plane, from 0 to 1
    gap          the mean over test rows of |p(y=1|x) - p'(y=1|x)|, both averaged over draws

Of a cloud that is as wide in thousands of directions, as HMC's is in all weights, the principal axes follow
whichever stretch of a chain moved least and hold a percent of its variance; SWAG's axes then tell more.

The paper has an average deviation on coordinates of order 1e-3, and clouds in a plane that are close to each
other. What these words mean in numbers is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.metrics.calibration import brier, ece, logits_of, normalised_nll
from coterie.metrics.chains import effective_size, split_r_hat
from coterie.metrics.classification import accuracy, hits

MARGIN = 0.08  # around both clouds, as a share of their extent


class Plane(NamedTuple):
    """origin [parameter], axes [2, parameter] of length 1, and their shares [2] of all variance."""

    origin: Tensor
    axes: Tensor
    shares: Tensor

    def project(self, theta: Tensor) -> Tensor:
        """Coordinates [..., 2] of models [..., parameter]."""
        return (theta - self.origin) @ self.axes.T

    def lift(self, t: Tensor) -> Tensor:
        return self.origin + t @ self.axes


def plane_of(theta: Tensor) -> Plane:
    """Principal axes of models [model, parameter], each with its greatest entry above zero."""
    origin = theta.mean(dim=0)
    away = theta - origin
    values, vectors = torch.linalg.eigh(away @ away.T)
    top = vectors[:, [-1, -2]].T @ away
    axes = top / top.norm(dim=1, keepdim=True)
    signs = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
    return Plane(origin, axes * signs, values[[-1, -2]] / values.sum())


def deviation(a: Tensor, b: Tensor) -> float:
    """The mean over coordinates of the distance of two means, from draws [draw, parameter]."""
    return float((a.mean(dim=0) - b.mean(dim=0)).abs().mean())


def overlap(a: Tensor, b: Tensor) -> float:
    """∫ √(q q') of the normal densities with the moments of two clouds [draw, axis]."""
    A, B = torch.cov(a.T), torch.cov(b.T)
    middle, away = (A + B) / 2, a.mean(dim=0) - b.mean(dim=0)
    distance = away @ torch.linalg.solve(middle, away) / 8
    distance += (torch.logdet(middle) - (torch.logdet(A) + torch.logdet(B)) / 2) / 2
    return float((-distance).exp())


def scores(chances: Tensor, y: Tensor) -> dict[str, float]:
    """Of probabilities [row] that were averaged over draws."""
    p = torch.stack([1 - chances, chances], dim=1)
    return {
        "accuracy": float(accuracy(hits(p, y))),
        "ece": float(ece(p, y)),
        "nll": float(normalised_nll(logits_of(p), y)),
        "brier": float(brier(p, y)),
    }


def mixing(draws: Tensor) -> dict[str, float]:
    """R̂ and ESS over the quantities of [chain, draw, quantity]."""
    r_hat, size = split_r_hat(draws), effective_size(draws)
    return {
        "r_hat_median": float(r_hat.nanmedian()),
        "r_hat_95": float(r_hat.nanquantile(0.95)),
        "r_hat_worst": float(r_hat.nan_to_num(0).max()),
        "ess_median": float(size.nanmedian()),
        "ess_least": float(size.nan_to_num(math.inf).min()),
    }


def gap(chances: Tensor, others: Tensor) -> float:
    """Between averages over draws of [draw, row]."""
    return float((chances.mean(dim=0) - others.mean(dim=0)).abs().mean())


def on_plane(
    plane: Plane, swag: Tensor, hmc: Tensor, height: Callable[[Tensor], Tensor], grid: int
) -> dict[str, Any]:
    """Both clouds in a plane, how alike they are, and heights [model] of models on a grid around them."""
    a, b = plane.project(swag), plane.project(hmc)
    both = torch.cat([a, b])
    low, high = both.amin(dim=0), both.amax(dim=0)
    start, end = low - MARGIN * (high - low), high + MARGIN * (high - low)
    steps = torch.linspace(0, 1, grid, dtype=torch.float64)
    sides = [s + steps * (e - s) for s, e in zip(start, end, strict=True)]
    heights = height(plane.lift(torch.cartesian_prod(*sides))).view(grid, grid)
    return {
        "shares": plane.shares.tolist(),
        "ratio": (a.std(dim=0) / b.std(dim=0)).tolist(),
        "overlap": overlap(a, b),
        "swag": _rounded(a),
        "hmc": _rounded(b),
        "sides": [_rounded(s) for s in sides],
        "log_posterior": _rounded(heights.T),
    }


def _rounded(values: Tensor) -> Any:
    """Lists of numbers with the digits a picture needs."""
    if values.ndim > 1:
        return [_rounded(v) for v in values]
    return [float(f"{v:.5g}") for v in values.tolist()]
