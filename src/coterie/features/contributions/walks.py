"""Shapley values by walks: players arrive one after the other, and what each adds is noted.

Ends need no drawing (`Game.ends`): who comes first, or last, adds the same whatever the order of the others.
So with n players

    φ_j = (Δ_j(∅) + Δ_j(N without j)) / n  +  E[what j adds in between; 0 if it is at an end]

and walks are for the last term alone. That takes away what spreads most: whoever is first turns the belief
that went out into a trained one, once in n walks.

A walk is cut (Ghorbani and Zou, 2019, "Data Shapley", algorithm 1) once v(S) is as near to v(N), for every
judge, as `tolerance` of |v(N) - v(∅)|: those after it are taken to add nothing. That is wrong where v(S)
comes near v(N) by chance and leaves it again. So one in `AGAIN` of the walks that would be cut, drawn at
random, goes on, and what is added from there on counts `AGAIN` times: the mean stays right, and so does its
variance.

Orders come in blocks of the same make, which are independent of each other, so that the variance is that of
the blocks' means. These are skewed, as whoever comes early adds more, and a variance from few of them is less
sure than one from normal ones. With γ their excess kurtosis, 0 at the least, and B blocks,

    var(s²) = σ⁴ (2 / (B - 1) + γ / B),     so that     freedom = 2 / (2 / (B - 1) + γ / B)

is the number of degrees of freedom with which normal ones would be as unsure.

shapley   truncated Monte-Carlo permutations (Ghorbani and Zou, 2019, "Data Shapley: Equitable Valuation of
          Data for Machine Learning", algorithm 1): φ_j ≈ mean over random orders π of
          v(P_j^π ∪ {j}) - v(P_j^π), where P_j^π are those before j in π. A block is an order and its reverse
          (antithetic).
          Deviations: the number of orders is fixed instead of stopped by a criterion, as no interval is right
          after a stop that looks at the figures; ends are exact; some cut walks go on.
gtg       guided truncation gradient Shapley (Liu, Chen, Zhao, Yu, Liu, Bao, Sun and Yang, 2022, "GTG-Shapley:
          Efficient and Accurate Participant Contribution Evaluation in Federated Learning"). Models of sets
          of participants are mixed from the replies of a round instead of trained anew; the same holds for
          all estimates here. Beyond that it is guided: every participant comes first in as many orders as any
          other, the rest of an order is random (a block is one order for each who is first in it). A round in
          which all together changed little is skipped, an order is cut once it is near everybody's value.
          Deviations: the paper gives 0 to everybody in a skipped round. But a round may change little because
          one gained what others lost, so a skipped round is valued by its ends alone, 2 n values: midway
          between what a player adds as the first and as the last, with all between these two as its interval
          (which is usual, and no law). The number of orders is fixed; some cut walks go on; ends are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from coterie.features.contributions.game import ESTIMATES, Coalition, Estimate, Game

AGAIN = 4


class _Walked(NamedTuple):
    """What walks found: `added` [walk, judge, player] in between; `unseen` [walk, player] who came after a
    cut; `tolerated` [judge] the nearness at which a walk is cut.
    """

    added: np.ndarray
    unseen: np.ndarray
    tolerated: np.ndarray


def walk(game: Game, orders: Sequence[Sequence[int]], tolerance: float, rng: np.random.Generator) -> _Walked:
    """All walks side by side, so that the values of one step are asked for together."""
    n, nobody = game.players, frozenset[int]()
    bottom, top = game.values([nobody, game.everybody])
    tolerated = tolerance * np.abs(top - bottom)
    added = np.zeros((len(orders), len(top), n))
    unseen = np.zeros((len(orders), n), dtype=bool)
    goes_on, times = rng.random(len(orders)) < 1 / AGAIN, np.ones(len(orders))
    here: dict[int, Coalition] = {w: frozenset(order[:1]) for w, order in enumerate(orders)}
    for step in range(1, n - 1):
        now = dict(zip(here, game.values(here.values()), strict=True)) if here else {}
        for w, value in now.items():
            if tolerance and times[w] == 1 and bool((np.abs(top - value) <= tolerated).all()):
                times[w] = AGAIN if goes_on[w] else 0
                if not goes_on[w]:
                    unseen[w, list(orders[w][step : n - 1])] = True
        here = {w: s | {orders[w][step]} for w, s in here.items() if times[w]}
        after = game.values(here.values()) if here else ()
        for w, value in zip(here, after, strict=True):
            added[w, :, orders[w][step]] = times[w] * (value - now[w])
    return _Walked(added, unseen, tolerated)


def valued(
    game: Game, blocks: Sequence[Sequence[Sequence[int]]], tolerance: float, rng: np.random.Generator
) -> Estimate:
    """Shapley values from blocks of orders [block][order][player], and how sure they are."""
    first, last = game.ends()
    if game.players <= 2:
        return Estimate.exactly((first + last) / 2)
    found = walk(game, [order for block in blocks for order in block], tolerance, rng)
    means = found.added.reshape(len(blocks), -1, *first.shape).mean(axis=1)
    return Estimate(
        value=(first + last) / game.players + means.mean(axis=0),
        variance=means.var(axis=0, ddof=1) / len(blocks),
        freedom=freedom(means),
        hidden=np.outer(found.tolerated, found.unseen.mean(axis=0)),
        said={"walks": len(found.unseen), "cut": int(found.unseen.any(axis=1).sum())},
    )


def freedom(means: np.ndarray) -> np.ndarray:
    """Degrees of freedom of the variance of blocks' means [block, ...], by their kurtosis."""
    many = len(means)
    squares = np.square(means - means.mean(axis=0))
    second, fourth = squares.mean(axis=0), np.square(squares).mean(axis=0)
    excess = np.divide(fourth, np.square(second), out=np.full_like(second, 3.0), where=second > 0) - 3
    found: np.ndarray = 2 / (2 / (many - 1) + excess.clip(min=0) / many)
    return found


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
            first, last = game.ends()  # midway between them, and all between them
            nothing = np.zeros_like(first)
            return Estimate((first + last) / 2, nothing, nothing, np.abs(first - last) / 2, {"skipped": 1})
        blocks = []
        for _ in range(max(8, -(-self.permutations // n))):
            orders = ((first, rng.permutation(n).tolist()) for first in range(n))
            blocks.append([[first, *(j for j in order if j != first)] for first, order in orders])
        return valued(game, blocks, self.tolerance, rng)
