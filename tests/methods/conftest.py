from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from coterie.core.held import handles_in
from coterie.core.seeds import Key
from coterie.features.absence.wrapper import Absent
from coterie.nets import Counting


@pytest.fixture(scope="session")
def pull(client_of, net_of):
    """Clients with x = 1 and one target each, so that one full step at lr 0.25 takes w to (w + y) / 2."""

    def make(targets, sizes=None, clusters=None, validation=None, engine="loop"):
        clients = []
        for i, y in enumerate(targets):
            n, one = (sizes[i] if sizes else 1), torch.ones(1, 1).double()
            held = (one, one[0] * validation[i]) if validation else None
            cluster = clusters[i] if clusters else None
            x = one.expand(n, 1)
            clients.append(client_of(x, x[:, 0] * y, name=f"c{i}", cluster=cluster, validation=held))
        return net_of(nn.Linear(1, 1, bias=False).double(), clients, engine)

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
        here = torch.ones(len(self.roster), dtype=torch.bool)
        here[list(dict(self.who).get(key.round, ()))] = False
        return here


@pytest.fixture(scope="session")
def without():
    def make(net, who):
        return Gone(net, who=tuple(who.items()))

    return make


@pytest.fixture(scope="session")
def play(start_of):
    """Some rounds of a method: the states, from the first on, and the infos."""

    def run(method, net, start, rounds, seed=0, total=None):
        start, total = start_of(start), total or rounds
        method.check(net.roster, start.tensors, Key(seed, rounds=total))
        states, infos = [method.init(start, net)], []
        net.keep(handles_in(states[0]), 0)
        for r in range(1, rounds + 1):
            state, info = method.round(states[-1], net, Key(seed).at_round(r, total))
            net.keep(handles_in(state), r)
            states.append(state)
            infos.append(info)
        return states, infos

    return run


@dataclass(frozen=True, eq=False)
class Listed(Counting):
    """Counts, and lists what passed before each round was over."""

    rounds: list = field(default_factory=list, init=False)

    def keep(self, live, round):
        self.rounds.append(self.book.read())
        super().keep(live, round)


@pytest.fixture(scope="session")
def passed(play):
    """What passes until a method has begun, then in each round: `Traffic`."""

    def run(method, net, start, rounds):
        listed = Listed(net)
        play(method, listed, start, rounds)
        return listed.rounds

    return run


@pytest.fixture(scope="session")
def closed():
    """A net on which no model is looked at, and no rows move."""

    @dataclass(frozen=True, eq=False)
    class Closed(Absent):
        chance: float = 0.0

        def open(self, beliefs):
            raise AssertionError("a model is looked at")

        def in_one_place(self, groups):
            raise AssertionError("rows move")

    return Closed
