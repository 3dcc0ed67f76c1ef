"""The geometric median by smoothed Weiszfeld steps (Pillutla, Kakade and Harchaoui, 2022, "Robust aggregation
for federated learning", arXiv:1912.13445; Chen, Su and Xu, 2017, arXiv:1705.05491).

    z = argmin Σ_i |x_i - z|
    z ← Σ_i β_i x_i / Σ_i β_i,   β_i = 1 / max(ν, |x_i - z|)                            weiszfeld

from the mean on, for at most `steps` steps. z is a weighted sum of replies all along, so that |x_i - z| comes
from D. ν is `smoothing` times the root mean square of the distances between replies. n > 2f, the breakdown
point; the number f itself does not enter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.rules.base import RULES, Needs, Rule, more_than
from coterie.rules.identities import to_sum

STILL = 1e-13  # a change of weights that counts as none


@RULES.register("geometric-median")
@dataclass(frozen=True)
class GeometricMedian(Rule):
    """The point with the least sum of distances to all replies."""

    steps: int = 100
    """Weiszfeld steps at most; fewer if nothing moves any more."""
    smoothing: float = 1e-6
    """The least distance that counts, as a share of what replies are apart on average."""

    needs = Needs("n > 2f", more_than(2))

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadInput(f"geometric-median steps={self.steps} must be at least 1: try 100")
        if not 0 < self.smoothing < math.inf:
            raise BadInput(
                f"geometric-median smoothing={self.smoothing} must be above 0 and finite: try 1e-6"
            )

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        n = len(D) - 1
        D = D[:n, :n]
        w = weiszfeld(D, self.steps, self.smoothing * float(D.mean().sqrt()))
        return torch.cat([w, w.new_zeros(1)])


def weiszfeld(D: Tensor, steps: int, nu: float) -> Tensor:
    """[reply] weights of the smoothed geometric median, from squared distances [reply, reply]."""
    w = torch.full((len(D),), 1 / len(D), dtype=torch.float64)
    if nu == 0:  # all replies are the same
        return w
    for _ in range(steps):
        beta = 1 / to_sum(D, w).sqrt().clamp(min=nu)
        before, w = w, beta / beta.sum()
        if bool((w - before).abs().max() < STILL):
            break
    return w
