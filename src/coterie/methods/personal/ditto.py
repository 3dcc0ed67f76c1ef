"""Ditto (Li, Hu, Beirami and Smith, 2021, "Ditto: Fair and robust federated learning through
personalization", Algorithm 1): a personal model for each client, held near the shared one.

    w_k ← LocalWork(w^t),    w^{t+1} ← Σ p_k w_k          federated averaging, as if there were nothing else
    v_k ← v_k - η (∇L_k(v_k) + λ (v_k - w^t))             s times, at home

λ is `pull`, η the rate of the local work, s comes from `personal_epochs`, p_k are FedAvg's weights. With λ =
0 clients train alone beside a shared model; with a large one v_k follows w. v_k is sent to nobody.

Deviations: s is given in epochs. v_k starts from the first model of its client. The pull goes for any local
work that steps along a gradient, with momentum or Adam's moments. In the authors' program both models see the
same batches, step by step; here the personal model's are dealt apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, handed_out, losses_of
from coterie.core.net import settle
from coterie.core.options import bounded, check_options
from coterie.kernels.proximal import ANCHOR, Proximal
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import for_epochs, overshooting, pull_of
from coterie.methods.server import fedavg


@dataclass(frozen=True, eq=False)
class State:
    """The shared model's state, and each client's own belief [client, ...], at home."""

    shared: fedavg.State
    own: Held


@METHODS.register("ditto")
@dataclass(frozen=True)
class Ditto:
    """FedAvg, and beside it a personal model for each client that is pulled towards the shared one."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work of a client in a round, on the shared model and on its own."""
    pull: float | None = None
    """How strongly personal models are pulled towards the shared one: 0 trains them alone. By default 0.1,
    and 1 where linear models are solved, which go as far as their rows say."""
    personal_epochs: int = 0
    """Passes over the training rows for the personal model; 0 takes as many as for the shared one."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    searched: ClassVar[tuple[str, ...]] = ("pull=0.01..10:log",)

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.personal  # refuses what it cannot be

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return overshooting(self.local, self.strength)

    def init(self, start: Held, net: Net) -> State:
        return State(self.averaging.init(start, net), handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        shared, info = self.averaging.round(state.shared, net, key)
        hosts = fedavg.sample_clients(n, self.sample, key.at("sample"))
        edges = torch.stack([hosts, hosts], dim=1)
        anchor = {ANCHOR: state.shared.beliefs}
        replies = net.visit(self.personal, state.own, edges, key.at("personal"), "personal", anchor)
        return State(shared, settle(net, state.own, replies)), replace(info, loss=losses_of(replies, n))

    @property
    def averaging(self) -> fedavg.FedAvg:
        return fedavg.FedAvg(self.local, self.weighted, self.sample)

    @property
    def strength(self) -> float:
        return pull_of(self.local, self.pull, 0.1)

    @property
    def personal(self) -> Proximal:
        return Proximal(
            for_epochs("ditto", "personal_epochs", self.local, self.personal_epochs), self.strength
        )

    def models(self, state: State) -> Models:
        return Models(state.own, of=torch.arange(len(state.own)), shared=state.shared.beliefs)

    def reveals(self) -> Reveals:
        return self.averaging.reveals()
