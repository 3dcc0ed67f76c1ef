"""MoNNA's nearest-neighbour averaging (Farhadkhani, Guerraoui, Gupta, Hoang, Pinot and Stephan, 2023, "Robust
collaborative learning with linear gradient overhead", arXiv:2209.10931).

    mean of the n - f replies nearest to one's own, x_me among them                     nearest

n > 2f. One's own reply is the root that is trusted. Of replies equally near the lower number goes first.
Deviation: the paper sends momenta along; here replies are what local work made of the belief.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.rules.base import RULES, Needs, Rule, more_than
from coterie.rules.identities import mean_of


@RULES.register("monna")
@dataclass(frozen=True)
class MoNNA(Rule):
    """The mean of the n - f replies nearest to one's own."""

    needs = Needs("n > 2f", more_than(2), reads="mine", root=True)

    def weights(self, D: Tensor, f: int, me: int | None) -> Tensor:
        assert me is not None
        n = len(D) - 1
        return mean_of(n + 1, nearest(D[:n, me], me, n - f))


def nearest(away: Tensor, me: int, many: int) -> Tensor:
    """So many replies with the lowest squared distances [reply], oneself first."""
    away = away.clone()
    away[me] = -1.0
    return away.argsort(stable=True)[:many]
