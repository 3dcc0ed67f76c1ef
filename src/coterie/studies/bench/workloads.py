"""What is run side by side, as data: shapes, model, local work, rounds. Tensors are synthetic and seeded.

A workload is either FedAvg (one belief visits a sample of the clients) or, with `peers`, local training of
own beliefs that are then averaged with random peers. Whoever runs it draws clients and peers from the same
keys (`hosts_of`, `mixing`), so all contenders do the same work on the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from coterie.core.belief import Beliefs
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput
from coterie.core.held import Held
from coterie.core.kernel import Trainer
from coterie.core.method import Info, Method, Models, Reveals, handed_out, losses_of
from coterie.core.net import Net, to_own
from coterie.core.partners import WEIGHTS, Partners
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.kernels import SGD, Adam
from coterie.methods.server.fedavg import FedAvg, sample_clients
from coterie.models import MODELS


@dataclass(frozen=True, eq=False)
class _State:
    """Each client's own belief [client, ...], at home."""

    beliefs: Held


@dataclass(frozen=True)
class Gossip:
    """Everyone trains alone, then averages with a few random peers. Only here to be timed: not registered, as
    it is no method of anyone's paper. All clients must answer.

        w_k ← LocalWork(w_k);   w_k ← (w_k + Σ_{j∈P_k} w_j) / (1 + |P_k|)

    P_k are `peers` others, drawn anew each round by `mixing`.
    """

    chooses: ClassVar[Partners] = Partners({WEIGHTS: "high"}, shares="model")

    local: Trainer
    peers: int = 5

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        clients = len(roster)
        if not 0 <= self.peers < clients:
            raise BadInput(
                f"peers={self.peers} must be at least 0 and below {clients} clients: try {clients - 1}"
            )
        return ()

    def init(self, start: Held, net: Net) -> _State:
        return _State(handed_out(start, net))

    def round(self, state: _State, net: Net, key: Key) -> tuple[_State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, to_own(n), key)
        weights = mixing(n, self.peers, key)
        mixed = net.mix(weights, replies.beliefs, torch.arange(n))
        return _State(mixed), Info(weights, losses_of(replies, n))

    def models(self, state: _State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True)


def mixing(n: int, peers: int, key: Key) -> Tensor:
    """[receiver, sender]: 1 / (1 + peers) for oneself and for each of so many others, drawn at random."""
    scores = torch.rand(n, n, generator=key.at("peers").torch(), dtype=torch.float64)
    scores.fill_diagonal_(2)  # oneself is always among the chosen
    chosen = scores.topk(peers + 1, dim=1).indices
    return torch.zeros(n, n, dtype=torch.float64).scatter_(1, chosen, 1 / (peers + 1))


@dataclass(frozen=True)
class Workload:
    """`sizes` are the clients' training rows; `sample` is FedAvg's, `peers` replaces FedAvg by gossip."""

    name: str
    about: str
    model: str
    inputs: tuple[int, ...]
    classes: int
    sizes: tuple[int, ...]
    local: SGD | Adam
    rounds: int
    sample: float = 1.0
    peers: int = 0

    @property
    def method(self) -> Method:
        if self.peers:
            return Gossip(self.local, self.peers)
        return FedAvg(self.local, sample=self.sample)

    def module(self) -> nn.Module:
        return MODELS.make(self.model).build(self.inputs, self.classes, seed=0)


WORKLOADS = {
    w.name: w
    for w in (
        Workload(
            "linear-100",
            "100 clients x 600, linear 784-10, FedAvg, one epoch, batch 32, SGD",
            "logistic", (1, 28, 28), 10, (600,) * 100, SGD(lr=0.05, batch=32), rounds=2
        ),
        Workload(
            "linear-1000",
            "1,000 clients x 50, 10 % sampled each round, linear 784-10, FedAvg, one epoch, batch 32, SGD",
            "logistic", (1, 28, 28), 10, (50,) * 1000, SGD(lr=0.05, batch=32), rounds=20, sample=0.1
        ),
        Workload(
            "erosion-cnn-10",
            "10 clients x 600 of 1x28x28, the Weight Erosion CNN, FedAvg, one epoch, batch 32, SGD",
            "erosion-cnn", (1, 28, 28), 10, (600,) * 10, SGD(lr=0.05, batch=32), rounds=1
        ),
        Workload(
            "pens-cnn-20",
            "20 clients x 125 of 3x32x32, the PENS CNN, 3 epochs, batch 8, Adam, averaging with 5 peers",
            "pens-cnn", (3, 32, 32), 10, (125,) * 20, Adam(epochs=3, batch=8), rounds=1, peers=5
        ),
        Workload(
            # the four age clients of Titanic with 30 % set aside; 1,000 rounds are the same 200 five times
            "titanic-4",
            "4 clients of 174 to 333 rows, linear 9-2, FedAvg, rounds of one batch of 161, SGD",
            "logistic", (9,), 2, (174, 333, 225, 184), SGD(lr=0.1, batch=161, steps=1), rounds=200,
        ),
    )
}  # fmt: skip


def quick(workload: Workload) -> Workload:
    """A small version: a few clients, a few batches with a short last one, the same model."""
    few = workload.sizes[: 20 if workload.sample < 1 else max(4, workload.peers + 1)]
    most = 2 * workload.local.batch + 3 if workload.local.steps == 0 else max(few)
    return replace(
        workload,
        sizes=tuple(min(size, most) for size in few),
        local=replace(workload.local, epochs=min(workload.local.epochs, 2)),
        rounds=min(workload.rounds, 3),
    )


def clients_of(workload: Workload, seed: int = 0) -> tuple[Client, ...]:
    """Normal inputs, labels by a random linear map with noise; all clients are views of one tensor."""
    generator = Key(seed, ("bench", workload.name)).torch()
    total, features = sum(workload.sizes), math.prod(workload.inputs)
    x = torch.randn(total, *workload.inputs, generator=generator)
    truth = torch.randn(features, workload.classes, generator=generator) / math.sqrt(features)
    noise = 0.1 * torch.randn(total, workload.classes, generator=generator)
    y = (x.reshape(total, features) @ truth + noise).argmax(dim=1)
    parts = zip(*(torch.split(t, list(workload.sizes)) for t in (x, y)), strict=True)
    return tuple(
        Client(f"c{i}", train=Samples(a, b), test=Samples(a[:1], b[:1]), validation=Samples(a[:0], b[:0]))
        for i, (a, b) in enumerate(parts)
    )


def own_clients(workload: Workload) -> tuple[Client, ...]:
    """Clients whose tensors are nobody else's: made one by one."""
    return tuple(
        replace(clients_of(replace(workload, sizes=(size,)), seed=i)[0], name=f"c{i}")
        for i, size in enumerate(workload.sizes)
    )


def hosts_of(workload: Workload, key: Key) -> list[int]:
    """The clients of one FedAvg round, as FedAvg draws them from the round's key."""
    hosts: Tensor = sample_clients(len(workload.sizes), workload.sample, key.at("sample"))
    return [int(host) for host in hosts]


def rows_per_visit(workload: Workload, host: int) -> int:
    """Training rows that pass through the model in one visit to a client, repeats counted."""
    size, local = workload.sizes[host], workload.local
    if not local.steps:
        return local.epochs * size
    batch = min(local.batch, size)
    whole, rest = divmod(local.steps, math.ceil(size / batch))
    return whole * size + min(rest * batch, size)


def rows_in_all(workload: Workload, key: Key) -> int:
    """Training rows of a run with this key, the unit of samples per second."""
    return sum(
        rows_per_visit(workload, host)
        for r in range(1, workload.rounds + 1)
        for host in hosts_of(workload, key.at_round(r, workload.rounds))
    )
