"""Random-weighted: random others, weighed by how well one's model does on their data.

Karlsson, 2021, algorithm 5.

    C_k ⊂ C \\ {k} at random;   a_j = accuracy of w_k on D_j,  j ∈ C_k;   a_k = its validation accuracy
    w_k ← Σ_{j∈C_k∪{k}} a_j w_j / Σ_{j∈C_k∪{k}} a_j                        by_accuracy

D_j are training data. Info's matrix `accuracy` has a_j, and a_k on its diagonal. Deviation: if all
accuracies are 0, all weigh alike. A regression or survival has no accuracies and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Info, Key, Net, Partners, Reveals, Roster
from coterie.core.errors import BadData
from coterie.core.method import METHODS, check_validation
from coterie.core.options import chosen
from coterie.methods.peers.picks import alike, draw_others
from coterie.methods.peers.random import Random
from coterie.methods.peers.rounds import Choices, Peers, play
from coterie.methods.peers.turns import State

Own = Literal["validation", "train"]


@METHODS.register("random-weighted")
@dataclass(frozen=True)
class RandomWeighted(Random):
    """Everybody averages with random others, weighed by its model's accuracy on their data."""

    chooses: ClassVar[Partners] = Partners(
        by={"accuracy": "high"},
        shares="model",
        words={
            "en": "Others are drawn by lot; those count more on whose rows your model does well.",
            "fr": "Les autres sont tirés au sort ; ceux sur les lignes desquels votre modèle réussit "
            "bien comptent davantage.",
            "de": "Die anderen werden ausgelost; mehr zählen die, auf deren Zeilen Ihr Modell gut "
            "abschneidet.",
        },
    )

    own: Own = chosen("validation", Own)
    """On which of its own samples a client takes its own weight: validation (the thesis) or train."""

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        if roster.task != "classification":
            raise BadData(
                f"random-weighted weighs by accuracy, which a {roster.task} does not have: use random or "
                "greedy"
            )
        if self.own == "validation":
            check_validation(roster, "random-weighted", "set own=train")
        return super().check(roster, start, key)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, draws = len(net.roster), key.at("peers").torch()
        asked = [[draw_others(n, k, self.selected, draws)] for k in range(n)]
        choices = Choices(asked, direction="mine-on-theirs", own=self.own, weigh=by_accuracy)
        return play(self, state, net, key, choices)

    def reveals(self, scored: Sequence[str] = ()) -> Reveals:
        return Peers.reveals(self, ("accuracy",))


def by_accuracy(me: int, picked: Tensor, accuracy: Tensor) -> Tensor:
    """A row of W: a_j / Σ a, for oneself and the picked; [client]."""
    members = torch.cat([torch.tensor([me]), picked])
    row = torch.zeros_like(accuracy).index_copy(0, members, accuracy[members])
    return row / row.sum() if bool(row.sum() > 0) else alike(me, picked, len(accuracy))
