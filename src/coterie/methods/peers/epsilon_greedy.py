"""Epsilon-greedy: greedy, with some of the picked swapped at random (Karlsson, 2021, algorithm 3).

    C_selected as in greedy;   n_swap ~ Bin(m_selected, λ^t ε)
    C_swap = n_swap of C_selected at random
    C_new  = n_swap of (C_sampled \\ C_selected) ∪ C_swap at random
    C_selected ← (C_selected \\ C_swap) ∪ C_new                             swap

ε is `epsilon`, λ `decay`, t the round, counted from 1. Who is swapped out may be drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.method import METHODS
from coterie.core.options import bounded
from coterie.core.partners import Partners
from coterie.core.seeds import Key
from coterie.methods.peers.greedy import Greedy


@METHODS.register("epsilon-greedy")
@dataclass(frozen=True)
class EpsilonGreedy(Greedy):
    """Greedy, but each of the picked gives way to a random one of the sampled with some probability."""

    chooses: ClassVar[Partners] = Partners(
        by=Greedy.chooses.by,
        shares="model",
        words={
            "en": "Of some drawn by lot, those count that fit best; now and then one of them makes "
            "room for another.",
            "fr": "Parmi quelques-uns tirés au sort comptent ceux qui conviennent le mieux ; de temps "
            "en temps, l'un d'eux cède sa place à un autre.",
            "de": "Von einigen, die ausgelost werden, zählen die, die am besten passen; dann und wann "
            "macht einer von ihnen einem anderen Platz.",
        },
    )

    epsilon: float = bounded(0.2, "lie between 0 and 1", "try 0.2")
    """The chance that a picked one is swapped, in round 0."""
    decay: float = bounded(1.0, "lie between 0 and 1", "try 1")
    """By what the chance is multiplied in each round (λ)."""

    def pick(self, asked: Sequence[Tensor], merit: Tensor, key: Key) -> list[Tensor]:
        chance, draws = swap_chance(self.epsilon, self.decay, key.round), key.at("swap").torch()
        return [
            swap(sampling, best, number_of_swaps(len(best), chance, draws), draws)
            for sampling, best in zip(asked, super().pick(asked, merit, key), strict=True)
        ]


def swap_chance(epsilon: float, decay: float, t: int) -> float:
    """λ^t ε."""
    return epsilon * decay**t


def number_of_swaps(picked: int, chance: float, draws: torch.Generator) -> int:
    """One draw of Bin(picked, chance)."""
    return int((torch.rand(picked, generator=draws, dtype=torch.float64) < chance).sum())


def swap(sampled: Tensor, picked: Tensor, swaps: int, draws: torch.Generator) -> Tensor:
    """`swaps` of the picked give way to as many of those not picked and of themselves."""
    shuffled = picked[torch.randperm(len(picked), generator=draws)]
    out, kept = shuffled[:swaps], shuffled[swaps:]
    population = torch.cat([sampled[~torch.isin(sampled, picked)], out])
    return torch.cat([kept, population[torch.randperm(len(population), generator=draws)[:swaps]]])
