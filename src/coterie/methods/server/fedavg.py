"""Federated averaging (McMahan et al., 2017, "Communication-Efficient Learning of Deep Networks").

    w_k ← LocalWork(w)  for each client k of the round's sample S
    w   ← Σ_{k∈S} p_k w_k,   p_k = n_k / Σ_{j∈S} n_j,  or 1/|S| unweighted

w is `beliefs`, n_k are the roster's `sizes`, p_k comes from `averaging_weights`, S from `sample_clients`.
Deviation: clients that do not answer leave the sum, and the others' weights are normalised without them;
if nobody answers, w stays. With norm=local each client keeps its own batch norms: see `norms.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Key, Net, Partners, Replies, Roster, Trainer
from coterie.core.method import METHODS, Info, Models, Reveals, losses_of, scatter
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.server.norms import Norm, calls, check_has_norms, gathered, models_of, parted


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief [1, ...], the clients' own norms [client, ...], and how many clients there are."""

    beliefs: Held
    norms: Held | None
    clients: int


@METHODS.register("fedavg")
@dataclass(frozen=True)
class FedAvg:
    """One model for all: the average of what each client makes of it."""

    chooses: ClassVar[Partners] = Partners(
        shares="model",
        words={
            "en": "Everybody trains one common model; whoever has more rows counts more.",
            "fr": "Tous entraînent un modèle commun ; qui a plus de lignes compte davantage.",
            "de": "Alle trainieren ein gemeinsames Modell; wer mehr Zeilen hat, zählt mehr.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    weighted: bool = True
    """Weigh clients by their number of training samples, or all alike."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""
    norm: Norm = chosen("average", Norm)
    """Average batch norm like all else, or leave it local: each client keeps its own (FedBN)."""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def work(self) -> Trainer:
        """What the model does at a client."""
        return self.local

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_has_norms(self.norm, start)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(*parted(self.norm, start, net), len(net.roster))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, sizes = len(net.roster), net.roster.sizes
        hosts = sample_clients(n, self.sample, key.at("sample"))
        beliefs, edges = calls(state.beliefs, state.norms, hosts)
        replies = net.visit(self.work, beliefs, edges, key)
        if len(replies) == 0:
            return state, server_info(n, replies)
        shares = averaging_weights(sizes[replies.hosts], self.weighted)
        shared, norms = gathered(net, shares.unsqueeze(0), replies, state.norms)
        return State(shared, norms, n), server_info(n, replies, shares)

    def models(self, state: State) -> Models:
        return models_of(state.beliefs, state.norms, state.clients)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=numbers_of(self.local))


def sample_clients(n: int, share: float, key: Key) -> Tensor:
    """The clients of a round, in order: round(share · n) of them, at least one."""
    wanted = max(1, round(share * n))
    if wanted == n:
        return torch.arange(n)
    return torch.randperm(n, generator=key.torch())[:wanted].sort().values


def averaging_weights(sizes: Tensor, weighted: bool) -> Tensor:
    """p_k = n_k / Σ n_j, or 1/|S|: [sender], adding up to 1."""
    parts = sizes.double() if weighted else torch.ones(len(sizes), dtype=torch.float64)
    return parts / parts.sum()


def server_info(n: int, replies: Replies, shares: Tensor | None = None) -> Info:
    """Every client listens to those that answered, by these shares [reply]; None: nobody did."""
    everyone = scatter(torch.zeros(0) if shares is None else shares, replies.hosts, n, empty=0)
    weights = everyone.expand(n, n)  # all rows are the same one: thousands of clients cost nothing
    return Info(weights, losses_of(replies, n))
