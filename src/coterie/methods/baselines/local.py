"""Training alone: w_k ← LocalWork(w_k) on client k's own data, round after round.

Every w_k stays with its client. The first model comes from the coordinator, which after that sees nothing but
the mean training loss of each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Partners, Reveals, Roster, Trainer
from coterie.core.facts import kernel_fact
from coterie.core.method import METHODS, asking, handed_out, losses_of
from coterie.core.net import Net, Replies, settle, to_own
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home; where work forgets what came, [client] the loss of who
    has done it, NaN for the others.
    """

    beliefs: Held
    solved: Tensor | None = None


@METHODS.register("local")
@dataclass(frozen=True)
class Local:
    """Each client alone: what collaboration has to beat."""

    chooses: ClassVar[Partners] = Partners(
        shares="model",
        words={
            "en": "Each trains on its own rows alone.",
            "fr": "Chacun s'entraîne sur ses propres lignes seulement.",
            "de": "Jeder trainiert nur auf den eigenen Zeilen.",
        },
    )

    solved_by: ClassVar[str] = "ridge"

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = "all"
    """The only client that trains, by name; the others keep the first model. all: everybody trains."""

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        asking(self.requester, roster.names)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, who = len(net.roster), asking(self.requester, net.roster.names)
        if not kernel_fact(self.local, "forgets"):
            replies = net.visit(self.local, state.beliefs, to_own(n)[who], key)
            return State(settle(net, state.beliefs, replies)), by_oneself(n, replies)
        known = torch.full((n,), torch.nan, dtype=torch.float64) if state.solved is None else state.solved
        left = who[known[who].isnan()]  # a second visit would find the same
        if len(left):
            replies = net.visit(self.local, state.beliefs, to_own(n)[left], key)
            known = losses_of(replies, n).where(known.isnan(), known)
            state = State(settle(net, state.beliefs, replies), known)
        return state, Info(torch.diag((~known.isnan()).double()), known)

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(numbers=numbers_of(self.local))


def by_oneself(n: int, replies: Replies) -> Info:
    """Of a round in which nobody heard of anybody."""
    weights = torch.zeros(n, n, dtype=torch.float64)
    weights[replies.hosts, replies.hosts] = 1
    return Info(weights, losses_of(replies, n))
