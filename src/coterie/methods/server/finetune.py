"""Federated averaging, then fine-tuning: the simplest model of one's own.

    rounds 1 .. R-F      w ← FedAvg(w)
    rounds R-F+1 .. R    w_k ← LocalWork(w_k), starting from w_k = w

F is `tune`, R the run's number of rounds. See Wang et al., 2019, "Federated Evaluation of On-device
Personalization". Once tuning starts, optimiser states begin afresh and nothing is sent any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS, Info, Models
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.kernels.sgd import SGD
from coterie.methods.baselines import local
from coterie.methods.server import fedavg


@dataclass(frozen=True, eq=False)
class State:
    """The shared belief [1, ...]; once tuning has begun, each client's own [client, ...] too."""

    shared: Beliefs
    own: Beliefs | None = None
    memory: Beliefs | None = None


@METHODS.register("finetune")
@dataclass(frozen=True)
class FineTune:
    """FedAvg first; in the last rounds each client goes on alone from the shared model."""

    local: Trainer = SGD()
    """The work of a client in a round."""
    tune: int = 5
    """Rounds at the end in which each client trains alone."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = 1.0
    """Share of the clients that take part in an averaging round."""

    def __post_init__(self) -> None:
        if self.tune < 1:
            raise BadInput(f"tune={self.tune} must be at least 1: use fedavg to leave tuning out")
        fedavg.FedAvg(sample=self.sample)

    def check(self, names: Sequence[str], rounds: int) -> None:
        if self.tune >= rounds:
            raise BadInput(f"tune={self.tune} leaves none of {rounds} rounds for averaging: lower it")

    def init(self, beliefs: Beliefs, clients: int) -> State:
        return State(tree.rows(beliefs, torch.tensor([0])))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if key.round <= key.rounds - self.tune:
            averaging = fedavg.FedAvg(self.local, self.weighted, self.sample)
            after, info = averaging.round(fedavg.State(state.shared, state.memory), net, key)
            return State(after.beliefs, None, after.memory), info
        begins = state.own is None
        own = tree.repeat(state.shared, len(net.names)) if state.own is None else state.own
        alone = local.State(own, None if begins else state.memory)
        tuned, info = local.Local(self.local).round(alone, net, key)
        return State(state.shared, tuned.beliefs, tuned.memory), info

    def models(self, state: State, clients: int) -> Models:
        if state.own is None:
            return Models(state.shared, of=torch.zeros(clients, dtype=torch.int64), shared=0)
        both = {name: torch.cat([t, state.own[name]]) for name, t in state.shared.items()}
        return Models(both, of=torch.arange(1, clients + 1), shared=0)
