"""APFL (Deng, Kamani and Mahdavi, 2020, "Adaptive personalized federated learning", Algorithm 1): each client
uses a mixture of a model of its own and the shared one, and may learn how much of each.

    w_k ← w_k - η ∇L_k(w_k)                    from w_k = w
    v_k ← v_k - η α_k ∇L_k(v̄_k),               v̄_k = α_k v_k + (1 - α_k) w_k
    α_k ← α_k - η_α ⟨v_k - w_k, ∇L_k(v̄_k)⟩
    w ← Σ p_k w_k

The first three lines, for each batch, are the kernel `mixture.py`, by which w_k and v_k are trained with the
local work. α_k is `alpha` at first and η_α `alpha_lr`, 0 leaving it fixed; p_k are FedAvg's weights (the
paper's are equal: weighted=false). A client's model is its last v̄_k; v_k and v̄_k stay at home, α_k is told.

The model interpolation, MAPPER, of Mansour, Mohri, Ro and Suresh, 2020, "Three approaches for personalization
with applications to federated learning", is the same idea: there λ, our α, is chosen among a few values for
each client instead of learnt, and v is trained from the shared model after that is.

Where the authors' program (FedTorch) differs from their text: it mixes the outputs of the two models and not
their weights, which is the same for one linear layer. It learns α at the first step of a round alone, by
⟨v - w, α ∇_v + (1 - α) ∇_w⟩ of the mixture's loss (for one linear layer α² + (1 - α)² times the slope above),
plus 0.02 α. Here it is as in the text, at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.held import hold
from coterie.core.method import METHODS, first_of, handed_out, scatter
from coterie.core.net import SERVER, from_server
from coterie.core.options import bounded, check_options
from coterie.kernels.mixture import ALPHA, MIXED, Mixture
from coterie.kernels.sgd import SGD
from coterie.methods.personal.at_home import kept
from coterie.methods.server import fedavg


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief w [1, ...]; at home, of each client [client, ...] v, α and v̄."""

    beliefs: Held
    own: Held
    alpha: Held
    mixed: Held


@METHODS.register("apfl")
@dataclass(frozen=True)
class APFL:
    """Each client mixes its own model with the shared one, and learns how much of each."""

    chooses: ClassVar[Partners] = Partners(shares="part")

    local: Trainer = SGD()
    """The work of a client in a round, on both models: sgd, adam or adamw."""
    alpha: float = bounded(0.5, "lie between 0 and 1", "try 0.5")
    """The weight of the own model in the mixture, at first: 0 is the shared model alone, 1 the own."""
    alpha_lr: float = 0.1
    """Learning rate of that weight; 0 leaves it as it is."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    solved_by: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.kernel  # refuses what it cannot be

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return ()

    def init(self, start: Held, net: Net) -> State:
        first = hold({ALPHA: torch.full((1,), self.alpha, dtype=torch.float64)}, SERVER)
        own = handed_out(start, net)
        return State(first_of(start), own, handed_out(first, net), own)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        hosts = fedavg.sample_clients(n, self.sample, key.at("sample"))
        beside = {"own": state.own.rows(hosts), "alpha": state.alpha.rows(hosts)}
        replies = net.visit(self.kernel, state.beliefs, from_server(hosts), key, beside=beside)
        if len(replies) == 0:
            return state, fedavg.server_info(n, replies)
        shares = fedavg.averaging_weights(net.roster.sizes[replies.hosts], self.weighted)
        shared = net.mix(shares.unsqueeze(0), replies.beliefs.only(state.beliefs.names), SERVER)
        alpha = state.alpha.put(replies.hosts, replies.beliefs.only((ALPHA,)))
        own, mixed = kept(net, state.own, replies, key), kept(net, state.mixed, replies, key, MIXED)
        by_client = scatter(replies.numbers["alpha"], replies.hosts, n).tolist()
        told = {name: a for name, a in zip(net.roster.names, by_client, strict=True) if a == a}
        info = fedavg.server_info(n, replies, shares)
        return State(shared, own, alpha, mixed), replace(info, extras={"alpha": told})

    @property
    def kernel(self) -> Mixture:
        return Mixture(self.local, self.alpha_lr)

    def models(self, state: State) -> Models:
        return Models(state.mixed, of=torch.arange(len(state.mixed)), shared=state.beliefs)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=self.kernel.numbers)
