"""Cyclic weight transfer: one model that goes from client to client.

Chang, Balachandar, Lam, Yi, Brown, Beers, Rosen, Rubin and Kalpathy-Cramer, 2018, "Distributed deep learning
networks among institutions for medical imaging" (JAMIA 25 (8)), the heuristic "cyclical weight transfer".

    w ← LocalWork_k(w)     for one client k of the round after the other

A round is a cycle through all clients, or through the round's sample. `order` is that of the clients, fixed,
or drawn anew in each round. Nothing is averaged and there is no server: each client hands the model to the
next, and in the end of a round it rests with the last. So the coordinator sees no model at all, but each
client sees what one other made of it: a model that was trained on that client's rows last.

Info's weights are equal for all that trained in the round; who came last counts more in fact.

Deviations. Who is away is passed over; while the client is away that has the model, everything waits. With
norm=local each client keeps its own batch norms (`norms.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, loss_by_reply, scatter
from coterie.core.net import settle
from coterie.core.options import bounded, check_options, chosen
from coterie.core.partners import NOBODY
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.server.fedavg import sample_clients
from coterie.methods.server.norms import Norm, calls, check_has_norms, models_of, parted

Order = Literal["drawn", "fixed"]


@dataclass(frozen=True, eq=False)
class State:
    """The model [1, ...], with the client that had it last; the clients' own norms [client, ...]; how many
    clients there are.
    """

    beliefs: Held
    norms: Held | None
    clients: int


@METHODS.register("cyclic")
@dataclass(frozen=True)
class Cyclic:
    """One model for all, trained by one client after the other."""

    chooses: ClassVar[Partners] = NOBODY

    local: Trainer = SGD()
    """The work of a client when it has the model."""
    order: Order = chosen("drawn", Order)
    """Clients in an order that is drawn anew in each round, or in their own."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""
    norm: Norm = chosen("average", Norm)
    """Hand batch norm on like all else, or leave it local: each client keeps its own (FedBN)."""

    common: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_has_norms(self.norm, start)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(*parted(self.norm, start, net), len(net.roster))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        losses, trained = torch.full((n,), torch.nan, dtype=torch.float64), list[int]()
        for host in ordered(sample_clients(n, self.sample, key.at("sample")), self.order, key.at("order")):
            beliefs, edges = calls(state.beliefs, state.norms, host.unsqueeze(0))
            replies = net.visit(self.local, beliefs, edges, key)
            if len(replies):
                trained.append(int(host))
                losses[host] = loss_by_reply(replies)[0]
                norms = None if state.norms is None else settle(net, state.norms, replies)
                state = replace(state, beliefs=replies.beliefs.only(state.beliefs.names), norms=norms)
        shares = torch.full((len(trained),), 1 / max(1, len(trained)), dtype=torch.float64)
        weights = scatter(shares, torch.tensor(trained, dtype=torch.int64), n, empty=0).expand(n, n)
        return state, Info(weights, losses, mixed=False)

    def models(self, state: State) -> Models:
        return models_of(state.beliefs, state.norms, state.clients)

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=numbers_of(self.local))


def ordered(clients: Tensor, order: Order, key: Key) -> Tensor:
    """The clients of a round in the order in which they have the model."""
    if order == "fixed":
        return clients
    return clients[torch.randperm(len(clients), generator=key.torch())]
