"""Norm bounding (Sun, Kairouz, Suresh and McMahan, 2019, "Can you really backdoor federated learning?",
arXiv:1911.07963).

    x ← x + 1/n Σ_i g_i / max(1, |g_i| / M),   g_i = x_i - x                            bounded

x is what went out, M is `radius`. Only lengths are needed, and the sum is one of replies and of what went
out: so it runs sealed like the rules from distances. `auto` takes the median length for M, as Nguyen et al.
(2022, "FLAME", arXiv:2101.02281) do; as n > 2f, it lies between lengths of honest replies. The number f
itself does not enter. Deviation: the paper's noise is for the local work to add, `dp(sgd)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.rules.base import RULES, Needs, Rule, more_than


@RULES.register("norm-bound")
@dataclass(frozen=True)
class NormBound(Rule):
    """The mean of all replies, of which none may go further than a bound."""

    radius: float | Literal["auto"] = "auto"
    """How far a reply may go from what went out, in weights of the model; auto: the median way."""

    needs = Needs("n > 2f", more_than(2), reads="lengths", origin=True)

    def __post_init__(self) -> None:
        if self.radius != "auto" and (isinstance(self.radius, str) or not 0 < self.radius < math.inf):
            raise BadInput(f"norm-bound radius={self.radius} must be above 0 and finite: try 1 or auto")

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        n = len(D) - 1
        lengths = D[:n, n].sqrt()
        return bounded(lengths, float(lengths.quantile(0.5)) if self.radius == "auto" else self.radius)


def bounded(lengths: Tensor, most: float) -> Tensor:
    """Weights [n+1] from |g_i| [n]."""
    w = torch.where(lengths > most, most / lengths, torch.ones_like(lengths)) / len(lengths)
    return torch.cat([w, (1 - w.sum()).unsqueeze(0)])
