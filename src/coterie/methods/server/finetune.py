"""Federated averaging, then fine-tuning: the simplest model of one's own.

    rounds 1 .. R-F      w ← FedAvg(w)
    rounds R-F+1 .. R    w_k ← LocalWork(w_k), starting from w_k = w

F is `tune`, R the run's number of rounds. See Wang et al., 2019, "Federated Evaluation of On-device
Personalization". Once tuning starts, optimiser states begin afresh and nothing is sent any more.
With norm=local each client keeps its own batch norms (`norms.py`), and tunes from w with these.
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
from coterie.methods.server.norms import Norm, joined, models_of


@dataclass(frozen=True, eq=False)
class State:
    """The shared belief [1, ...], and norms that stay local [client, ...]; once tuning has begun, each
    client's own belief [client, ...] with its norms in it.
    """

    shared: Beliefs
    own: Beliefs | None = None
    memory: Beliefs | None = None
    norms: Beliefs | None = None


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
    norm: Norm = "average"
    """Average batch norm like all else, or leave it local: each client keeps its own (FedBN)."""

    def __post_init__(self) -> None:
        if self.tune < 1:
            raise BadInput(f"tune={self.tune} must be at least 1: use fedavg to leave tuning out")
        fedavg.FedAvg(sample=self.sample, norm=self.norm)

    def check(self, names: Sequence[str], rounds: int) -> None:
        if self.tune >= rounds:
            raise BadInput(f"tune={self.tune} leaves none of {rounds} rounds for averaging: lower it")

    def init(self, beliefs: Beliefs, clients: int) -> State:
        first = self.averaging.init(beliefs, clients)
        return State(first.beliefs, norms=first.norms)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if key.round <= key.rounds - self.tune:
            before = fedavg.State(state.shared, state.memory, state.norms)
            after, info = self.averaging.round(before, net, key)
            return State(after.beliefs, None, after.memory, after.norms), info
        alone = local.State(self.begun(state, len(net.names)), None if state.own is None else state.memory)
        tuned, info = local.Local(self.local).round(alone, net, key)
        return State(state.shared, tuned.beliefs, tuned.memory), info

    @property
    def averaging(self) -> fedavg.FedAvg:
        return fedavg.FedAvg(self.local, self.weighted, self.sample, self.norm)

    def begun(self, state: State, clients: int) -> Beliefs:
        """Each client's own belief [client, ...] before a round of tuning."""
        if state.own is not None:
            return state.own
        if state.norms is not None:
            return joined(state.shared, state.norms)
        return tree.repeat(state.shared, clients)

    def models(self, state: State, clients: int) -> Models:
        if state.own is None:
            return models_of(state.shared, state.norms, clients)
        if self.norm == "local":
            return Models(state.own, of=torch.arange(clients))
        both = {name: torch.cat([t, state.own[name]]) for name, t in state.shared.items()}
        return Models(both, of=torch.arange(1, clients + 1), shared=0)
