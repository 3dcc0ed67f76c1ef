"""Guided truncation gradient Shapley (Liu, Chen, Zhao, Yu, Liu, Bao, Sun and Yang, 2022, "GTG-Shapley:
Efficient and Accurate Participant Contribution Evaluation in Federated Learning").

Models of sets of participants are mixed from the replies of a round instead of trained anew; the same holds
for all estimates here. Beyond that:

guided      every participant comes first in as many orders as any other; the rest of an order is random
between     a round in which all together changed little is skipped
within      an order is cut once it is near everybody's value

A block is one order for each participant, who is first in it. Ends, cuts and the variance of blocks are in
`walks.py`.

Deviations: the paper gives 0 to everybody in a skipped round. But a round may change little because one
gained what others lost, so a skipped round is valued by its ends alone, 2 n values: midway between what a
player adds as the first and as the last, with all between these two as its interval (which is usual, and no
law). The number of orders is fixed; some cut walks go on; ends are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coterie.contributions.game import ESTIMATES, Estimate, Game, ends
from coterie.contributions.walks import valued


@ESTIMATES.register("gtg")
@dataclass(frozen=True)
class GTG:
    """Shapley values by orders in which each is first in turn; rounds that change little are skipped."""

    permutations: int = 256
    """Orders that are drawn; as many for each player to be first, and eight at least."""
    tolerance: float = 0.01
    """Cut an order once it is as near to everybody's value, as a share of what all changed together."""
    skip: float = 0.001
    """Skip a round that changed the judged loss by no more than this share of it."""

    most: ClassVar[int] = 10**6

    def __call__(self, game: Game, rng: np.random.Generator) -> Estimate:
        n, nobody = game.players, frozenset[int]()
        bottom, top = game.values([nobody, game.everybody])
        if bool((np.abs(top - bottom) <= self.skip * np.abs(bottom)).all()):
            return skipped(*ends(game))
        blocks = [[guided(i, n, rng) for i in range(n)] for _ in range(max(8, -(-self.permutations // n)))]
        return valued(game, blocks, self.tolerance, rng)


def guided(first: int, players: int, rng: np.random.Generator) -> list[int]:
    """An order with this player first, the others at random."""
    return [first, *(int(j) for j in rng.permutation(players) if j != first)]


def skipped(first: np.ndarray, last: np.ndarray) -> Estimate:
    """Midway between the ends, and all between them."""
    nothing = np.zeros_like(first)
    return Estimate((first + last) / 2, nothing, nothing, np.abs(first - last) / 2, {"skipped": 1})
