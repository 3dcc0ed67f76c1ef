"""The pooled baseline: one model trained on everybody's data in one place, w ← LocalWork(w) on ∪_k D_k.

Data moves, so this is a yardstick and no option for clients who cannot share: what would one model for
all reach if it could see everything? A round is one visit to the pool; its epoch has as many steps as all
the clients' epochs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Info, Models
from coterie.core.net import Net, to_own
from coterie.core.seeds import Key
from coterie.kernels.sgd import SGD


@dataclass(frozen=True, eq=False)
class State:
    """The one belief [1, ...], and the optimiser's state."""

    beliefs: Beliefs
    memory: Beliefs | None = None


@METHODS.register("central")
@dataclass(frozen=True)
class Central:
    """All data in one place: a yardstick, not an option for those who cannot share."""

    local: Trainer = SGD()
    """The work on the pool in a round."""

    def check(self, names: Sequence[str], rounds: int) -> None:
        """Works for any number of clients and rounds."""

    def init(self, beliefs: Beliefs, clients: int) -> State:
        return State(tree.rows(beliefs, torch.tensor([0])))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.names)
        pool = net.pool([range(n)])
        replies = pool.visit(self.local, state.beliefs, to_own(1), key, state.memory)
        shares = net.sizes.double() / net.sizes.sum()
        nothing = torch.zeros(n, dtype=torch.int64)
        info = Info(
            weights=shares.expand(n, n),
            sent=nothing,
            received=nothing,
            loss=replies.numbers["loss"].expand(n),
            extras={"samples_moved": int(net.sizes.sum()) if key.round == 1 else 0},
        )
        return State(pool.settle(state.beliefs, replies), replies.memory), info

    def models(self, state: State, clients: int) -> Models:
        return Models(state.beliefs, of=torch.zeros(clients, dtype=torch.int64), shared=0)
