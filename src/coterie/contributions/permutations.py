"""Shapley values by truncated Monte-Carlo permutations (Ghorbani and Zou, 2019, "Data Shapley: Equitable
Valuation of Data for Machine Learning", algorithm 1).

    φ_j ≈ mean over random orders π of  v(P_j^π ∪ {j}) - v(P_j^π)

P_j^π are those before j in π. Orders come in pairs, one and its reverse (antithetic), and a pair is a block.
Ends, cuts and the variance of blocks are in `walks.py`.

Deviations: the number of orders is fixed instead of stopped by a criterion, as no interval is right after a
stop that looks at the figures; ends are exact; some cut walks go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coterie.contributions.game import ESTIMATES, Estimate, Game
from coterie.contributions.walks import valued


@ESTIMATES.register("shapley")
@dataclass(frozen=True)
class Shapley:
    """Shapley values by random orders, in pairs, with intervals."""

    permutations: int = 256
    """Orders that are drawn."""
    tolerance: float = 0.01
    """Cut an order once it is as near to everybody's value, as a share of what all changed together."""

    most: ClassVar[int] = 10**6

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        drawn = (rng.permutation(game.players).tolist() for _ in range(max(2, -(-self.permutations // 2))))
        return valued(game, [(order, order[::-1]) for order in drawn], self.tolerance, rng)
