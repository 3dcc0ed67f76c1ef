"""pFedMe (Dinh, Tran and Nguyen, 2020, "Personalized federated learning with Moreau envelopes", Algorithm 1).

    θ_k ≈ argmin_θ L_k(θ) + λ/2 ‖θ - w_k‖²,    w_k ← w_k - η λ (w_k - θ_k)     batch after batch, from w_k = w
    w ← (1 - β) w + β Σ p_k w_k

The first line is the kernel `moreau.py`, where λ is `pull`, η `outer_lr` and `inner_steps` the K steps by
which θ is found with the local work. β is `server_step`, p_k are FedAvg's weights (the paper's are equal:
weighted=false). A client's model is its last θ_k, which stays at home.

Deviations: η λ above 1 is refused. Batch norm's statistics are averaged with β = 1, whatever β is. The
authors' program also pulls θ towards 0, with a strength of 0.001: that is the local work's weight_decay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.belief import Weights
from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.held import together
from coterie.core.method import METHODS, first_of, handed_out
from coterie.core.net import SERVER, from_server
from coterie.core.options import bounded, check_options
from coterie.kernels.moreau import Moreau
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import kept, overshooting
from coterie.methods.server import fedavg
from coterie.methods.server.norms import norm_names


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief [1, ...], and each client's own [client, ...], at home."""

    beliefs: Held
    own: Held


@METHODS.register("pfedme")
@dataclass(frozen=True)
class PFedMe:
    """Personal models near a shared one, which steps along the envelope of their losses."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work on the personal model: sgd, adam or adamw."""
    pull: float = Moreau.pull
    """How strongly personal models are held near the shared one."""
    inner_steps: int = Moreau.inner_steps
    """Steps of the personal model on each batch."""
    outer_lr: float = Moreau.outer_lr
    """Learning rate of the shared model at the clients."""
    server_step: float = bounded(1.0, "be above 0 and finite", "try 1")
    """How far the server goes from its model to the clients' average; the paper also goes beyond, above 1."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    solved_by: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.kernel  # refuses what it cannot be

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return overshooting(self.local, self.pull)

    def init(self, start: Held, net: Net) -> State:
        return State(first_of(start), handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        hosts = fedavg.sample_clients(n, self.sample, key.at("sample"))
        replies = net.visit(self.kernel, state.beliefs, from_server(hosts), key)
        if len(replies) == 0:
            return state, fedavg.server_info(n, replies)
        shares = fedavg.averaging_weights(net.roster.sizes[replies.hosts], self.weighted)
        names, old = state.beliefs.names, state.beliefs
        if self.server_step == 1:
            shared = net.mix(shares.unsqueeze(0), replies.beliefs.only(names), SERVER)
        else:
            rows = together([replies.beliefs.only(names), old])
            shared = net.mix(server_weights(shares, self.server_step, names), rows, SERVER)
        own = kept(net, state.own, replies, key)
        return State(shared, own), fedavg.server_info(n, replies, shares)

    @property
    def kernel(self) -> Moreau:
        return Moreau(self.local, self.pull, self.inner_steps, self.outer_lr)

    def models(self, state: State) -> Models:
        return Models(state.own, of=torch.arange(len(state.own)), shared=state.beliefs)

    def reveals(self) -> Reveals:
        return fedavg.FedAvg(self.local).reveals()


def server_weights(shares: Tensor, step: float, names: Sequence[str]) -> Weights:
    """[1, reply + 1] of the replies and, last, of the server's own model: (β p, 1 - β). Batch norm's
    statistics, where there are any, take no such step: a variance could come out below 0.
    """
    weights = torch.cat([step * shares, torch.tensor([1 - step], dtype=shares.dtype)]).unsqueeze(0)
    norms = norm_names(names)
    if not norms:
        return weights
    plain = torch.cat([shares, torch.zeros(1, dtype=shares.dtype)]).unsqueeze(0)
    return {name: plain if name in norms else weights for name in names}
