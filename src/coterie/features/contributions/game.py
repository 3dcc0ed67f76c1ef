"""A game: what any set of players is worth to each judge, and its exact values.

    v(S)      worth of the set S of players (a coalition), [judge]; v(∅) is that of nobody
    Δ_j(S)    v(S ∪ {j}) - v(S), what j adds to S: its marginal

A game asks for many values at once and for each once only: behind a value is a model that is mixed and
scored. Estimates know nothing of models, so that they can be tried on games worked out by hand.

The Shapley value (Shapley, 1953, "A value for n-person games"), from all 2^n sets of players

    φ_j = Σ_{S ⊆ N without j}  |S|! (n - |S| - 1)! / n!  Δ_j(S)

is the mean of what j adds, over all orders in which players may arrive: the only way to share v(N) - v(∅)
that leaves nothing over (efficiency), gives the same to players that add the same (symmetry) and nothing to
one that adds nothing (null player), and adds up over games (linearity). `walks.py` draws orders instead.

Leave-one-out is what is lost if one player alone is missing, n + 1 values:

    L_j = v(N) - v(N without j)

Of two players that have the same to give, each is then worth nothing beside the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from coterie.core.registry import Registry

Coalition = frozenset[int]
Ask = Callable[[Sequence[Coalition]], np.ndarray]
"""Values [coalition, judge] of coalitions."""


class Game:
    """Players 0 to n - 1, and what sets of them are worth; no value is asked for twice."""

    def __init__(self, players: int, ask: Ask) -> None:
        self.players = players
        self._ask, self._known = ask, dict[Coalition, np.ndarray]()

    @property
    def everybody(self) -> Coalition:
        return frozenset(range(self.players))

    @property
    def asked(self) -> int:
        """How many values had to be worked out."""
        return len(self._known)

    def values(self, coalitions: Iterable[Coalition]) -> np.ndarray:
        """[coalition, judge]"""
        wanted = list(coalitions)
        new = [s for s in dict.fromkeys(wanted) if s not in self._known]
        if new:
            self._known |= dict(zip(new, np.asarray(self._ask(new), dtype=np.float64), strict=True))
        return np.stack([self._known[s] for s in wanted])

    def value(self, coalition: Coalition) -> np.ndarray:
        """[judge]"""
        found: np.ndarray = self.values([coalition])[0]
        return found

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Δ_j(∅) and Δ_j(N without j): what each adds as the first and as the last, [judge, player] each."""
        n, everybody = self.players, self.everybody
        ones = [frozenset([j]) for j in range(n)]
        found = self.values([frozenset(), everybody, *ones, *(everybody - one for one in ones)])
        return (found[2 : 2 + n] - found[0]).T, (found[1] - found[2 + n :]).T


@dataclass(frozen=True, eq=False)
class Estimate:
    """What each player gave to each judge, [judge, player] throughout.

    variance   of the value, as drawing has it; 0 for what is exact
    freedom    degrees of freedom of that variance
    hidden     by how much the value may be off besides, because something was left out
    said       counts by name: walks that were cut, rounds that were skipped
    """

    value: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray
    hidden: np.ndarray
    said: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def exactly(value: np.ndarray) -> Estimate:
        """Nothing was drawn for it."""
        nothing = np.zeros_like(value)
        return Estimate(value, nothing, nothing, nothing)


ESTIMATES: Registry[Any] = Registry("estimate")
"""Ways to value the players of a game: options, and a call. Above `most` players one is refused."""


@ESTIMATES.register("exact-shapley")
@dataclass(frozen=True)
class ExactShapley:
    """The Shapley value from all 2^n sets; for up to 12 clients."""

    most: ClassVar[int] = 12

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        n = game.players
        sets = [frozenset(some) for size in range(n + 1) for some in combinations(range(n), size)]
        values = dict(zip(sets, game.values(sets), strict=True))
        shares = []
        for j in range(n):
            without = [s for s in sets if j not in s]
            shares.append(sum(arrivals(n, len(s)) * (values[s | {j}] - values[s]) for s in without))
        return Estimate.exactly(np.stack([np.asarray(share) for share in shares], axis=1))


def arrivals(players: int, before: int) -> float:
    """|S|! (n - |S| - 1)! / n!: the share of all orders in which exactly the players of S come before j."""
    return 1 / (players * math.comb(players - 1, before))


@ESTIMATES.register("leave-one-out")
@dataclass(frozen=True)
class LeaveOneOut:
    """What is lost if one alone is missing; exact."""

    most: ClassVar[int] = 10**6

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        everybody = game.everybody
        found = game.values([everybody, *(everybody - {j} for j in range(game.players))])
        return Estimate.exactly((found[0] - found[1:]).T)
