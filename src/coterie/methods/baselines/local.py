"""Training alone: w_k ← LocalWork(w_k) on client k's own data, round after round. Nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Info, Models, asking, scatter
from coterie.core.net import Net, Replies, to_own
from coterie.core.seeds import Key
from coterie.kernels.sgd import SGD


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], and what it keeps between rounds."""

    beliefs: Beliefs
    memory: Beliefs | None = None


@METHODS.register("local")
@dataclass(frozen=True)
class Local:
    """Each client alone: what collaboration has to beat."""

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = "all"
    """The only client that trains, by name; the others keep the first model. all: everybody trains."""

    def check(self, names: Sequence[str], rounds: int) -> None:
        asking(self.requester, names)

    def init(self, beliefs: Beliefs, clients: int) -> State:
        return State(tree.repeat(beliefs, clients))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.names)
        edges = to_own(n)[asking(self.requester, net.names)]
        replies = net.visit(self.local, state.beliefs, edges, key, state.memory)
        return State(net.settle(state.beliefs, replies), replies.memory), by_oneself(n, replies)

    def models(self, state: State, clients: int) -> Models:
        return Models(state.beliefs, of=torch.arange(clients))


def by_oneself(n: int, replies: Replies) -> Info:
    """Of a round in which nobody heard of anybody."""
    nothing = torch.zeros(n, dtype=torch.int64)
    weights = torch.zeros(n, n, dtype=torch.float64)
    weights[replies.hosts, replies.hosts] = 1
    loss = scatter(replies.numbers.get("loss", torch.zeros(0)), replies.hosts, n)
    return Info(weights, nothing, nothing, loss)
