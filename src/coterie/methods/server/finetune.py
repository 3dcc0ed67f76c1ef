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
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.method import METHODS, handed_out
from coterie.core.net import settle, to_own
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.sgd import SGD
from coterie.methods.baselines.local import by_oneself
from coterie.methods.server import fedavg
from coterie.methods.server.norms import Norm


@dataclass(frozen=True, eq=False)
class State:
    """The averaging rounds' state; once tuning has begun, each client's own belief [client, ...], at home."""

    shared: fedavg.State
    own: Held | None = None


@METHODS.register("finetune")
@dataclass(frozen=True)
class FineTune:
    """FedAvg first; in the last rounds each client goes on alone from the shared model."""

    chooses: ClassVar[Partners] = Partners(
        shares="model",
        words={
            "en": "Everybody trains one common model, then each goes on alone.",
            "fr": "Tous entraînent un modèle commun, puis chacun continue seul.",
            "de": "Alle trainieren ein gemeinsames Modell, dann macht jeder allein weiter.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    tune: int = bounded(5, "be at least 1", "use fedavg to leave tuning out")
    """Rounds at the end in which each client trains alone."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in an averaging round."""
    norm: Norm = chosen("average", Norm)
    """Average batch norm like all else, or leave it local: each client keeps its own (FedBN)."""

    paced: ClassVar[str] = "fine-tunes in its last rounds"

    searched: ClassVar[tuple[str, ...]] = ("tune=1|2|5|10",)

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if self.tune >= key.rounds:
            raise BadInput(f"tune={self.tune} leaves none of {key.rounds} rounds for averaging: lower it")
        return self.averaging.check(roster, start, key)

    def init(self, start: Held, net: Net) -> State:
        return State(self.averaging.init(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if key.round <= key.rounds - self.tune:
            shared, info = self.averaging.round(state.shared, net, key)
            return State(shared), info
        n = len(net.roster)
        own = self.begun(state.shared, net) if state.own is None else state.own
        replies = net.visit(self.local, own, to_own(n), key, slot="tune")
        return State(state.shared, settle(net, own, replies)), by_oneself(n, replies)

    @property
    def averaging(self) -> fedavg.FedAvg:
        return fedavg.FedAvg(self.local, self.weighted, self.sample, self.norm)

    def begun(self, shared: fedavg.State, net: Net) -> Held:
        """Each client's own belief [client, ...] as tuning begins: w, with its norms if these are at home."""
        if shared.norms is None:
            return handed_out(shared.beliefs, net)
        models, n = self.averaging.models(shared).beliefs, len(net.roster)
        return net.deliver(models, torch.arange(n), torch.arange(n))

    def models(self, state: State) -> Models:
        if state.own is None:
            return self.averaging.models(state.shared)
        shared = self.averaging.models(state.shared).shared
        return Models(state.own, of=torch.arange(state.shared.clients), shared=shared)

    def reveals(self) -> Reveals:
        return self.averaging.reveals()
