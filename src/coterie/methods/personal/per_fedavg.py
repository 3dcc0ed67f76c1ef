"""Per-FedAvg (Fallah, Mokhtari and Ozdaglar, 2020, "Personalized federated learning with theoretical
guarantees: a model-agnostic meta-learning approach", Algorithm 1): a shared model from which a step or so of
one's own does well.

    w_k ← w_k - β (I - α ∇²L_k(w_k)) ∇L_k(w_k - α ∇L_k(w_k))     from w_k = w, each gradient on other rows
    w ← Σ p_k w_k
    v_k = w - α ∇L_k(w)                                           client k's model, at home

The first line is the kernel `meta.py`, where α is `adapt_lr`, β the rate of the local work, and `hessian`
says what becomes of ∇². p_k are FedAvg's weights (the paper's are equal: weighted=false). v_k is found on
client k's training rows, by `adapt_steps` steps on all of them, or on `adapt_batch` of them each; it is sent
to nobody.

After each round the new w goes to all clients, to be adapted there: one more model for each than FedAvg
sends. Who is away keeps its last v_k. Deviation: the paper adapts by one step on one batch of the test
client's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadData
from coterie.core.method import METHODS, handed_out
from coterie.core.net import from_server
from coterie.core.options import bounded, check_options
from coterie.kernels.meta import Hessian, Meta
from coterie.kernels.sgd import SGD
from coterie.methods.server import fedavg

ALL_ROWS = 2**31


@dataclass(frozen=True, eq=False)
class State:
    """The shared model's state, and each client's own belief [client, ...], at home."""

    shared: fedavg.State
    own: Held


@METHODS.register("per-fedavg")
@dataclass(frozen=True)
class PerFedAvg:
    """A shared model made to be adapted: each client's own is a gradient step or so away."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work of a client in a round, one step ahead: sgd, adam or adamw."""
    adapt_lr: float = Meta.adapt_lr
    """Length of a step of adaptation, in training and for a client's own model."""
    adapt_steps: int = bounded(1, "be at least 1", "use fedavg for none")
    """Steps from the shared model to a client's own."""
    adapt_batch: int = bounded(0, "be at least 0", "0 takes all rows")
    """Rows in each of these steps; 0 takes all training rows."""
    hessian: Hessian = "none"
    """Second derivatives in training: left out (FO), exact, or by a difference of gradients (HF)."""
    delta: float = Meta.delta
    """How far to either side a difference looks, times the gradient."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    solved_by: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.averaging  # refuses what it cannot be

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        need = Meta(self.local, hessian=self.hessian).batches
        for member in roster.members:
            if member.train < need:
                raise BadData(
                    f"client {member.name!r} has {member.train} training row(s), and per-fedavg with "
                    f"hessian={self.hessian} needs {need} for its batches: leave the client out, or use ditto"
                )
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(self.averaging.init(start, net), handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        shared, info = self.averaging.round(state.shared, net, key)
        everyone = from_server(torch.arange(len(net.roster)))
        replies = net.visit(self.adapting, shared.beliefs, everyone, key.at("adapt"), slot="adapt")
        own = state.own.put(replies.hosts, replies.beliefs) if len(replies) else state.own
        return State(shared, own), info

    @property
    def averaging(self) -> fedavg.FedAvg:
        work = Meta(self.local, self.adapt_lr, self.hessian, self.delta)
        return fedavg.FedAvg(work, self.weighted, self.sample)

    @property
    def adapting(self) -> SGD:
        return SGD(lr=self.adapt_lr, steps=self.adapt_steps, batch=self.adapt_batch or ALL_ROWS)

    def models(self, state: State) -> Models:
        return Models(state.own, of=torch.arange(len(state.own)), shared=state.shared.beliefs)

    def reveals(self) -> Reveals:
        return self.averaging.reveals()
