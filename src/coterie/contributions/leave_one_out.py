"""Leave-one-out: what is lost if one player alone is missing.

    L_j = v(N) - v(N without j)

Exact, n + 1 values. Of two players that have the same to give, each is worth nothing beside the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coterie.contributions.game import ESTIMATES, Estimate, Game, exactly


@ESTIMATES.register("leave-one-out")
@dataclass(frozen=True)
class LeaveOneOut:
    """What is lost if one alone is missing; exact."""

    most: ClassVar[int] = 10**6

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        everybody = game.everybody
        found = game.values([everybody, *(everybody - {j} for j in range(game.players))])
        return exactly((found[0] - found[1:]).T)
