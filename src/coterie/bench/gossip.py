"""Gossip: everyone trains alone, then averages with a few random peers. Only here to be timed.

    w_k ← LocalWork(w_k);   w_k ← (w_k + Σ_{j∈P_k} w_j) / (1 + |P_k|)

P_k are `peers` others, drawn anew each round by `mixing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput
from coterie.core.held import Held
from coterie.core.kernel import Trainer
from coterie.core.method import Info, Models, Reveals, handed_out, losses_of
from coterie.core.net import Net, to_own
from coterie.core.partners import WEIGHTS, Partners
from coterie.core.roster import Roster
from coterie.core.seeds import Key


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home."""

    beliefs: Held


@dataclass(frozen=True)
class Gossip:
    """Not registered: a workload, not a method of anyone's paper. All clients must answer."""

    chooses: ClassVar[Partners] = Partners({WEIGHTS: "high"}, shares="model")

    local: Trainer
    peers: int = 5

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        clients = len(roster)
        if not 0 <= self.peers < clients:
            raise BadInput(
                f"peers={self.peers} must be at least 0 and below {clients} clients: try {clients - 1}"
            )
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, to_own(n), key)
        weights = mixing(n, self.peers, key)
        mixed = net.mix(weights, replies.beliefs, torch.arange(n))
        return State(mixed), Info(weights, losses_of(replies, n))

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True)


def mixing(n: int, peers: int, key: Key) -> Tensor:
    """[receiver, sender]: 1 / (1 + peers) for oneself and for each of so many others, drawn at random."""
    scores = torch.rand(n, n, generator=key.at("peers").torch(), dtype=torch.float64)
    scores.fill_diagonal_(2)  # oneself is always among the chosen
    chosen = scores.topk(peers + 1, dim=1).indices
    return torch.zeros(n, n, dtype=torch.float64).scatter_(1, chosen, 1 / (peers + 1))
