"""Gossip learning: everybody pushes its model to a random peer, who averages it into its own.

Ormándi, Hegedűs and Jelasity, 2013, "Gossip learning with linear models on fully distributed data"; Hegedűs,
Danner and Jelasity, 2019, "Gossip learning as a decentralized alternative to federated learning".

    p(j) ~ one of C \\ {j} at random;   C_k = {j : p(j) = k};   w_k ← (w_k + Σ_{j∈C_k} w_j) / (1 + |C_k|)

Deviations. Rounds in place of clocks that tick by themselves: what arrives within a round is averaged
together, and only then trained on. All weigh alike, where the paper of 2019 weighs models by their age, and
that of 2013 merges the two that arrived last. A model pushed to somebody who is gone is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.method import METHODS, Info
from coterie.core.net import Net
from coterie.core.partners import WEIGHTS, Partners
from coterie.core.seeds import Key
from coterie.methods.peers.picks import draw_others
from coterie.methods.peers.rounds import Choices, Peers, play
from coterie.methods.peers.turns import State


@METHODS.register("gossip")
@dataclass(frozen=True)
class Gossip(Peers):
    """Everybody pushes its model to one random other, who averages what arrives with its own."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        shares="model",
        words={
            "en": "Each sends its model to somebody drawn by lot; nothing is measured of the others.",
            "fr": "Chacun envoie son modèle à quelqu'un tiré au sort ; rien n'est mesuré chez les autres.",
            "de": "Jeder schickt sein Modell an jemanden, den das Los bestimmt; von den anderen wird "
            "nichts gemessen.",
        },
    )

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, draws = len(net.roster), key.at("peers").torch()
        pushed_to = torch.cat([draw_others(n, j, 1, draws) for j in range(n)])
        return play(self, state, net, key, Choices([[who] for who in arrivals(pushed_to)]))


def arrivals(pushed_to: Tensor) -> list[Tensor]:
    """Whose models reach each client, if the j-th is pushed to pushed_to[j]."""
    return [(pushed_to == k).nonzero().flatten() for k in range(len(pushed_to))]
