"""SCAFFOLD: federated averaging with control variates against the drift of unlike clients.

Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, 2020, "SCAFFOLD: Stochastic controlled averaging for
federated learning" (ICML), algorithm 1 with option II.

    y_i  ← x;  K times  y_i ← y_i - η_l (g_i(y_i) - c_i + c)       for each client i of the round's sample S
    c_i⁺ ← c_i - c + (x - y_i) / (K η_l)
    x    ← x + η_g Σ_{i∈S} (y_i - x) / |S|
    c    ← c + Σ_{i∈S} (c_i⁺ - c_i) / N                             of all N clients

x is `beliefs`, c `control`, c_i `own`, η_g `server_step`; η_l and K are local work's, K whatever number of
steps a client takes. All c are 0 at first. The c_i stay at home; c_i⁺ - c_i goes to the server beside y_i, to
be summed there, so that a reply has twice the size of a model's and so has what is sent out.

With `weighted`, the sums over clients are weighed by their numbers of rows, 1/|S| becoming n_i / Σ_S n and
1/N becoming n_i / Σ n; c is then the weighed mean of all c_i, as else it is the plain one.

Deviations. With a schedule K η_l is the sum of the rates. Local work has to be SGD without momentum, or one
exact step of `newton` (`controlled.py`): x - y_i is no sum of gradients else. Batch norm's statistics are
averaged. A client that does not answer keeps its c_i. Option I, a second pass over the data at x, is left
out. Where FLamby's program (owkin/FLamby, flamby/strategies/scaffold.py) keeps c - c_i at clients, which
needs everybody in every round, its numbers are those of weighted=true here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.held import hold, together
from coterie.core.method import METHODS, first_of, handed_out
from coterie.core.net import SERVER, from_server
from coterie.core.options import bounded, check_options
from coterie.kernels import controlled
from coterie.kernels.around import numbers_of
from coterie.kernels.controlled import CONTROL, MINE, Controlled
from coterie.kernels.sgd import SGD
from coterie.methods.server.fedavg import averaging_weights, sample_clients, server_info
from coterie.methods.server.norms import models_of, trained_names


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief and control variate [1, ...], the clients' own variates [client, ...] at home."""

    beliefs: Held
    control: Held
    own: Held


@METHODS.register("scaffold")
@dataclass(frozen=True)
class Scaffold:
    """One model for all, trained by gradients that are corrected for what is peculiar to a client."""

    chooses: ClassVar[Partners] = Partners(shares="model")

    local: Trainer = SGD()
    """The work of a client in a round: SGD without momentum, or newton."""
    weighted: bool = False
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""
    server_step: float = bounded(1.0, "be above 0 and finite", "try 1")
    """How far to go from the old model to the average, above 0; beyond 1 goes past it."""

    small_steps: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        check_options(self)
        Controlled(self.local)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        return ()

    def init(self, start: Held, net: Net) -> State:
        first = first_of(start)
        zeros = {n: torch.zeros_like(first.like[n], device="cpu") for n in trained_names(first.like)}
        control = hold({CONTROL + n: t for n, t in zeros.items()}, SERVER)
        own = hold({MINE + n: t for n, t in zeros.items()}, SERVER)
        return State(first, control, handed_out(own, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, sizes = len(net.roster), net.roster.sizes
        hosts = sample_clients(n, self.sample, key.at("sample"))
        beside = {controlled.SERVER: state.control, controlled.OWN: state.own.rows(hosts)}
        replies = net.visit(Controlled(self.local), state.beliefs, from_server(hosts), key, beside=beside)
        if len(replies) == 0:
            return state, server_info(n, replies)
        here = replies.hosts
        shares = averaging_weights(sizes[here], self.weighted)
        of_all = averaging_weights(sizes, self.weighted)[here]
        sent = replies.beliefs.without(state.own.names)
        weights = {name: of_all if name in state.control.names else shares for name in sent.names}
        summed = net.mix({name: w.unsqueeze(0) for name, w in weights.items()}, sent, SERVER)
        moved = [summed.only(state.control.names), state.control]
        control = net.mix(torch.ones(1, 2, dtype=torch.float64), together(moved), SERVER)
        beliefs = self.stepped(summed.only(state.beliefs.names), state.beliefs, net)
        own = state.own.put(here, replies.beliefs.only(state.own.names))
        return State(beliefs, control, own), server_info(n, replies, shares)

    def stepped(self, mean: Held, old: Held, net: Net) -> Held:
        """x + η_g (mean - x); statistics and counters are the mean's."""
        s, trained = self.server_step, trained_names(old.like)
        if s == 1:
            return mean
        step, whole = (torch.tensor([row], dtype=torch.float64) for row in ([s, 1 - s], [1, 0]))
        weights = {name: step if name in trained else whole for name in old.names}
        return net.mix(weights, together([mean, old]), SERVER)

    def models(self, state: State) -> Models:
        return models_of(state.beliefs, None, len(state.own))

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=numbers_of(self.local))
