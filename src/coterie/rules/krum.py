"""Multi-Krum (Blanchard, El Mhamdi, Guerraoui and Stainer, 2017, "Machine learning with adversaries:
Byzantine tolerant gradient descent", arXiv:1703.02757).

    s(i) = Σ_{j→i} |x_i - x_j|²       over the n - f - 2 others nearest to x_i          krum_scores
    the mean of the m replies with the lowest scores                                    shares_of_lowest

n > 2f + 2. m is `m`, n - f if it is 0; m = 1 is Krum. Where the m-th lowest score is that of several, they
share the places that are left: scores tie where two replies are each other's nearest, and often after nnm,
and whoever came first, or the last bit of a distance, should decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.rules.base import RULES, SAME, Needs, Rule, more_than


@RULES.register("krum")
@dataclass(frozen=True)
class Krum(Rule):
    """The mean of the replies that have the nearest neighbours."""

    m: int = 0
    """How many replies to average, at most n - f; 0: n - f, 1: the best alone."""

    needs = Needs("n > 2f + 2", more_than(2, 2))

    def __post_init__(self) -> None:
        if self.m < 0:
            raise BadInput(f"krum m={self.m} must be at least 0: 0 averages n - f replies")

    def check(self, n: int, f: int) -> None:
        if self.m > n - f:
            raise BadInput(f"krum m={self.m} must lie between 1 and n - f = {n - f}, or be 0: lower it")

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        n = len(D) - 1
        best = min(self.m, n - f) or n - f
        w = shares_of_lowest(krum_scores(D[:n, :n], n - f - 2), best)
        return torch.cat([w, w.new_zeros(1)])


def krum_scores(D: Tensor, neighbours: int) -> Tensor:
    """[reply] the sum of the squared distances [reply, reply] to so many nearest others."""
    others = D.clone().fill_diagonal_(float("inf"))
    return others.sort(dim=1).values[:, :neighbours].sum(dim=1)


def shares_of_lowest(scores: Tensor, many: int) -> Tensor:
    """[reply] 1 / many for so many of the lowest scores; equals of the last share the places left."""
    last = scores.sort().values[many - 1]
    below, equal = (scores < last * (1 - SAME)).double(), ((scores - last).abs() <= last * SAME).double()
    return (below + equal * (many - below.sum()) / equal.sum()) / many
