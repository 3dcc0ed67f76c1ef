"""FedRep (Collins, Hassani, Mokhtari and Shakkottai, 2021, "Exploiting shared representations for
personalized federated learning", Algorithm 1): clients fit their heads to a shared body first, then improve
the body.

    h_k ← LocalWork(h_k; φ)      many steps on the head alone, φ standing still
    φ_k ← LocalWork(φ; h_k)      then on the body alone, with the new head
    φ ← Σ p_k φ_k                h_k stays at client k

h_k are the tensors that `home` names, the last layer if it names none; the work on it takes `head_epochs`,
that on the body what the local work says. p_k are FedAvg's weights (the paper's are equal: weighted=false).
h_k is sent to nobody. While the head is fitted the body stands still, batch norm's statistics too. What holds
for models of one layer is in `fedper.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS
from coterie.core.net import SERVER, settle
from coterie.core.options import bounded, check_options
from coterie.kernels.only import Only
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import for_epochs
from coterie.methods.personal.fedper import FedPer
from coterie.methods.server import fedavg
from coterie.methods.server.norms import calls, models_of


@dataclass(frozen=True, eq=False)
class State:
    """The shared body [1, ...], and each client's own head [client, ...], at home."""

    body: Held
    heads: Held


@METHODS.register("fedrep")
@dataclass(frozen=True)
class FedRep:
    """A shared body; each client fits its own head to it first, then improves the body."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work of a client on the body in a round."""
    home: str = ""
    """Which tensors are the head, by patterns with + between (head.*, *bias); none: the last layer."""
    head_epochs: int = bounded(5, "be at least 1", "try 5")
    """Passes over the training rows for the head, before those for the body."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    solved_by: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.head  # refuses what it cannot be

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return FedPer(self.local, self.home).check(roster, start, key)

    def init(self, start: Held, net: Net) -> State:
        begun = FedPer(self.local, self.home).init(start, net)
        assert begun.norms is not None
        return State(begun.beliefs, begun.norms)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        hosts = fedavg.sample_clients(n, self.sample, key.at("sample"))
        whole, edges = calls(state.body, state.heads, hosts)
        fitted = net.visit(Only(self.head, state.heads.names), whole, edges, key.at("head"), slot="head")
        heads = settle(net, state.heads, fitted)
        whole, edges = calls(state.body, heads, fitted.hosts)
        replies = net.visit(Only(self.local, state.body.names), whole, edges, key, slot="body")
        if len(replies) == 0:
            return State(state.body, heads), fedavg.server_info(n, replies)
        shares = fedavg.averaging_weights(net.roster.sizes[replies.hosts], self.weighted)
        mixed = net.mix(shares.unsqueeze(0), replies.beliefs.only(state.body.names), SERVER)
        return State(mixed, settle(net, heads, replies)), fedavg.server_info(n, replies, shares)

    @property
    def head(self) -> Trainer:
        return for_epochs("fedrep", "head_epochs", self.local, self.head_epochs)

    def models(self, state: State) -> Models:
        return models_of(state.body, state.heads, len(state.heads))

    def reveals(self) -> Reveals:
        return fedavg.FedAvg(self.local).reveals()
