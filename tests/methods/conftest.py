from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from coterie.core.method import survey
from coterie.core.seeds import Key
from coterie.nets import Absent


@pytest.fixture
def pull(client_of, net_of):
    """Clients with x = 1 and one target each, so that one full step at lr 0.25 takes w to (w + y) / 2."""

    def make(targets, sizes=None, clusters=None):
        sizes, clusters = sizes or [1] * len(targets), clusters or [None] * len(targets)
        clients = [
            client_of(torch.ones(n, 1), torch.full((n,), float(y)), name=f"c{i}", cluster=cluster)
            for i, (y, n, cluster) in enumerate(zip(targets, sizes, clusters, strict=True))
        ]
        return net_of(nn.Linear(1, 1, bias=False), clients)

    return make


@pytest.fixture
def crowd(client_of):
    """Ragged clients with three classes, to be changed one by one."""

    def make(sizes=(5, 9, 14), dtype=torch.float32, shift=()):
        clients = []
        for i, n in enumerate(sizes):
            generator = torch.Generator().manual_seed(i)
            x = torch.randn(n, 4, generator=generator, dtype=dtype) + dict(shift).get(i, 0)
            clients.append(client_of(x, torch.randint(3, (n,), generator=generator), name=f"c{i}"))
        return clients

    return make


@dataclass(frozen=True, eq=False)
class Gone(Absent):
    """A net in which the told clients do not answer: {round: clients}."""

    chance: float = 0.0
    who: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def present(self, key: Key) -> torch.Tensor:
        here = torch.ones(len(self.net.names), dtype=torch.bool)
        here[list(dict(self.who).get(key.round, ()))] = False
        return here


@pytest.fixture
def without():
    def make(net, who):
        return Gone(net, who=tuple(who.items()))

    return make


@pytest.fixture
def play():
    """Some rounds of a method: the states, from the first on, and the infos."""

    def run(method, net, beliefs, rounds, seed=0, total=None):
        clients, within = len(net.names), getattr(net, "net", net)
        method.check(net.names, total or rounds)
        survey(method, within.clients, Key(seed, rounds=total or rounds))
        states, infos = [method.init(beliefs, clients)], []
        for r in range(1, rounds + 1):
            state, info = method.round(states[-1], net, Key(seed).at_round(r, total or rounds))
            states.append(state)
            infos.append(info)
        return states, infos

    return run
