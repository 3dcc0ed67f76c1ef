"""Minimum-diameter averaging (Rousseeuw, 1985, "Multivariate estimation with high breakdown point"; El
Mhamdi, Guerraoui, Guirguis, Hoang and Rouault, 2020, "Genuinely distributed Byzantine machine learning",
arXiv:1905.03853).

    mean of the n - f replies whose largest distance between two is least               tightest

n > 2f. All subsets are looked at; of equals, the one whose numbers come first. Too many of them are refused.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.rules.base import RULES, SAME, Needs, Rule, more_than
from coterie.rules.identities import mean_of

MOST = 50_000  # subsets
AT_ONCE = 2**22  # pairs of replies that are looked at at a time


@RULES.register("minimum-diameter")
@dataclass(frozen=True)
class MinimumDiameter(Rule):
    """The mean of the n - f replies that lie closest together."""

    needs = Needs("n > 2f", more_than(2))

    def check(self, n: int, f: int) -> None:
        if math.comb(n, f) > MOST:
            raise BadInput(
                f"minimum-diameter would look at {math.comb(n, f)} sets of {n - f} among n={n} replies, "
                f"above {MOST}: lower f, or use nnm+krum"
            )

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        n = len(D) - 1
        return mean_of(n + 1, tightest(D[:n, :n], n - f))


def tightest(D: Tensor, many: int) -> Tensor:
    """The numbers of so many replies of least diameter, by squared distances [reply, reply]."""
    subsets = _subsets(len(D), many)
    widths = torch.cat(
        [
            D[some.unsqueeze(2), some.unsqueeze(1)].amax(dim=(1, 2))
            for some in torch.split(subsets, max(1, AT_ONCE // many**2))
        ]
    )
    return subsets[int((widths <= widths.min() * (1 + SAME)).int().argmax())]


@lru_cache(maxsize=8)
def _subsets(n: int, many: int) -> Tensor:
    """[subset, many] in the order of their numbers."""
    return torch.tensor(list(itertools.combinations(range(n), many)))
