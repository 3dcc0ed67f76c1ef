"""Centred clipping (Karimireddy, He and Jaggi, 2021, "Learning from history for Byzantine robust
optimization", arXiv:2012.10333).

    v ← v + 1/n Σ_i (x_i - v) min(1, τ / |x_i - v|)                                     clipped

from what went out on, `steps` times. τ is `radius`. A liar moves v by at most τ / n in a step.

Deviations. The paper goes on from the last round's momentum with one step; replies here have no momentum, so
that several steps are made. `auto` takes for τ, in every step, the (n - f)-th smallest |x_i - v|: of n
replies n - f are honest, so that no liar can make it longer than the longest honest way, and with f = 0
nothing is clipped, which is the mean. n > 2f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.rules.base import RULES, Needs, Rule, more_than
from coterie.rules.identities import alone, to_sum


@RULES.register("centred-clipping")
@dataclass(frozen=True)
class CentredClipping(Rule):
    """Steps from what went out towards the replies, the long ones cut short."""

    radius: float | Literal["auto"] = "auto"
    """How far a reply may pull, in weights of the model; auto: as far as the (n - f)-th nearest reply."""
    steps: int = 3
    """How often to clip, each time from where the last step ended."""

    needs = Needs("n > 2f", more_than(2), origin=True)

    def __post_init__(self) -> None:
        if self.radius != "auto" and (isinstance(self.radius, str) or not 0 < self.radius < math.inf):
            raise BadInput(f"centred-clipping radius={self.radius} must be above 0 and finite: try 1 or auto")
        if self.steps < 1:
            raise BadInput(f"centred-clipping steps={self.steps} must be at least 1: try 3")

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        n = len(D) - 1
        w = alone(n + 1, n)
        for _ in range(self.steps):
            ways = to_sum(D, w)[:n].sqrt()
            radius = ways.sort().values[n - f - 1] if self.radius == "auto" else self.radius
            w = clipped(w, ways, float(radius))
        return w


def clipped(w: Tensor, ways: Tensor, radius: float) -> Tensor:
    """Weights [n+1] after a step from those before, with lengths of ways |x_i - v| [n]."""
    pulls = torch.where(ways > radius, radius / ways, torch.ones_like(ways)) / len(ways)
    return (1 - pulls.sum()) * w + torch.cat([pulls, pulls.new_zeros(1)])
