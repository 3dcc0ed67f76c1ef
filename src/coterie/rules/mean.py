"""The mean of all replies, by which a single liar can do what it likes.

w_j = 1 / n
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.rules.base import NEVER, RULES, Needs, Rule
from coterie.rules.identities import mean_of


@RULES.register("mean")
@dataclass(frozen=True)
class Mean(Rule):
    """The mean of all replies: it holds against nobody."""

    needs = Needs("f = 0", lambda f: NEVER if f else 1, reads="nothing")

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        return mean_of(len(D), torch.arange(len(D) - 1))
