"""The Shapley value, from all sets of players (Shapley, 1953, "A value for n-person games").

    φ_j = Σ_{S ⊆ N without j}  |S|! (n - |S| - 1)! / n!  Δ_j(S)

the mean of what j adds, over all orders in which players may arrive. It is the only way to share v(N) - v(∅)
that leaves nothing over (efficiency), gives the same to players that add the same (symmetry) and nothing to
one that adds nothing (null player), and adds up over games (linearity). 2^n values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from coterie.contributions.game import ESTIMATES, Estimate, Game, exactly


@ESTIMATES.register("exact-shapley")
@dataclass(frozen=True)
class ExactShapley:
    """The Shapley value from all 2^n sets; for up to 12 clients."""

    most: ClassVar[int] = 12

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        n = game.players
        sets = [frozenset(some) for size in range(n + 1) for some in combinations(range(n), size)]
        values = dict(zip(sets, game.values(sets), strict=True))
        shares = [sum(arrivals(n, len(s)) * (values[s | {j}] - values[s]) for s in sets if j not in s)
                  for j in range(n)]  # fmt: skip
        return exactly(np.stack([np.asarray(share) for share in shares], axis=1))


def arrivals(players: int, before: int) -> float:
    """|S|! (n - |S| - 1)! / n!: the share of all orders in which exactly the players of S come before j."""
    return 1 / (players * math.comb(players - 1, before))
