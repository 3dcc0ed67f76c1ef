"""Greedy: average with those on whose data one's own model does best (Karlsson, 2021, algorithm 2).

    C_sampled  = m_sample others at random;   a_j = accuracy of w_k on D_j,  j ∈ C_sampled
    C_selected = the m_selected of C_sampled with the highest a_j
    w_k ← (w_k + Σ_{j∈C_selected} w_j) / (1 + |C_selected|)

m_sample is `sampled`, m_selected `selected`, D_j are training data, a_j Info's matrix `accuracy`. The papers
disagree on whose model tries whose data: `direction` theirs-on-mine takes the lowest losses of w_j on D_k.
A regression goes by the lowest losses either way. Of equals, the one that was drawn first is picked. With
`tell` choices, a client ranks the w_j that visit it and tells only whom it selects: no loss leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Info, Key, Net, Partners, Reveals, Roster
from coterie.core.errors import BadInput
from coterie.core.method import METHODS
from coterie.core.options import chosen
from coterie.kernels.choice import CHOSEN
from coterie.methods.peers.picks import check_peers, draw_others, highest
from coterie.methods.peers.rounds import Choices, Direction, Peers, play
from coterie.methods.peers.turns import State

SAMPLED = 3  # if nothing is said
Tell = Literal["losses", "choices"]


@METHODS.register("greedy")
@dataclass(frozen=True)
class Greedy(Peers):
    """Everybody averages with those, of some random others, on whose data its model does best."""

    chooses: ClassVar[Partners] = Partners(
        by={"loss": "low", "accuracy": "high", "concordance": "high", "chosen": "high"},
        shares="model",
        words={
            "en": "Of some drawn by lot, those count that fit best: your model is tried on their rows, "
            "or theirs on yours.",
            "fr": "Parmi quelques-uns tirés au sort comptent ceux qui conviennent le mieux : votre "
            "modèle est essayé sur leurs lignes, ou le leur sur les vôtres.",
            "de": "Von einigen, die ausgelost werden, zählen die, die am besten passen: Ihr Modell "
            "wird auf deren Zeilen ausprobiert, oder deren Modell auf Ihren.",
        },
    )

    selected: int = 1
    """With how many of the sampled to average (the thesis: 4)."""
    sampled: int = 0
    """How many others to ask (the thesis: 20 of 199); 0: three, or all if they are fewer."""
    direction: Direction = chosen("mine-on-theirs", Direction)
    """My model on their data by accuracy, as in the thesis, or theirs-on-mine by loss."""
    tell: Tell = chosen("losses", Tell)
    """What leaves a client that tries others' models: losses, or only its choices; needs theirs-on-mine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tell == "choices" and self.direction != "theirs-on-mine":
            raise BadInput(
                f"tell=choices needs clients that try others' models; got direction={self.direction}: set it "
                "to theirs-on-mine"
            )

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        asked, said = self.to_ask(len(roster)), super().check(roster, start, key)
        check_peers("sampled", asked, len(roster) - 1)
        check_peers("selected", self.selected, asked, "those sampled", "lower it or raise sampled")
        if not self.sampled and asked < SAMPLED:
            said.append(f"sampled: all {asked} others, fewer than the {SAMPLED} of the default")
        return said

    def to_ask(self, clients: int) -> int:
        """How many of these clients each asks."""
        return self.sampled or min(SAMPLED, clients - 1)

    def draw(self, n: int, draws: torch.Generator, times: int = 1) -> list[list[Tensor]]:
        """So many samplings of others for each of n clients."""
        return [[draw_others(n, k, self.to_ask(n), draws) for _ in range(times)] for k in range(n)]

    def pick(self, asked: Sequence[Tensor], merit: Tensor, key: Key) -> list[Tensor]:
        return [highest(sampling, merit, self.selected) for sampling in asked]

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        asked = self.draw(len(net.roster), key.at("peers").torch())
        choices = Choices(asked, direction=self.direction, keep=self.keep, pick=self.pick)
        return play(self, state, net, key, choices)

    @property
    def keep(self) -> int:
        """How many a client chooses by itself; 0: it tells what it found."""
        return self.selected if self.tell == "choices" else 0

    def reveals(self, scored: Sequence[str] = ()) -> Reveals:
        found = "loss" if self.direction == "theirs-on-mine" else "accuracy"
        return super().reveals([CHOSEN if self.keep else found])
