"""Kernels that mark some of their steps: every engine marks these edges after these steps, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coterie.core.held import hold
from coterie.core.net import SERVER, from_server
from coterie.core.seeds import Key
from coterie.engines import ENGINES, replay
from coterie.engines import stacked as stacked_module
from coterie.kernels import SGD

SIZES = (3, 1, 4)


def only(belief):
    (weight,) = belief.values()
    return weight


@dataclass(frozen=True)
class Diary(SGD):
    """SGD that writes down its weight at marks: how often, the sum, and the last two, newest first."""

    lr: float = 0.25
    batch: int = 1
    told: tuple[tuple[bool, ...], ...] = ()

    def plan(self, samples, key):
        mine = self.told[SIZES.index(samples)]
        return replace(super().plan(samples, key), marks=torch.tensor(mine))

    def start(self, belief, memory, beside):
        book = {n: torch.zeros_like(only(belief)) for n in ("times", "sum", "last", "former")}
        return {**super().start(belief, memory, beside), "book": book}

    def mark(self, carry):
        book, weight = carry["book"], only(carry["belief"])
        times, total = book["times"] + 1, book["sum"] + weight
        return carry | {"book": {"times": times, "sum": total, "last": weight, "former": book["last"]}}

    def finish(self, carry):
        reply = super().finish(carry)
        written = {n: t.sum() for n, t in carry["book"].items()}
        return reply._replace(numbers={**reply.numbers, **written})


@pytest.fixture(scope="module")
def written(client_of, net_of):
    """What each client has in its diary: rows (1, 2) all, on which each step halves the way from 0 to 2."""
    clients = [
        client_of(torch.ones(n, 1).double(), torch.full((n,), 2.0).double(), name=str(n)) for n in SIZES
    ]
    nets = {e: net_of(nn.Linear(1, 1, bias=False).double(), clients, e) for e in ENGINES}

    def visit(engine, told):
        start = hold({"weight": torch.zeros(1, 1, 1, dtype=torch.float64)}, SERVER)
        replies = nets[engine].visit(Diary(told=told), start, from_server(torch.arange(3)), Key(0))
        return [[float(replies.numbers[n][i]) for n in ("times", "sum", "last", "former")] for i in range(3)]

    return visit


def diary(marks):
    states = [2 - 2 / 2 ** (s + 1) for s, marked in enumerate(marks) if marked]
    last, former = ([0, 0, *states][-k] for k in (1, 2))
    return [len(states), sum(states), last, former]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_some_all_and_none_by_hand(written, engine):
    # after step 1 the first and the second, after step 2 the third, after step 3 both that are left
    told = ((True, False, True), (True,), (False, True, True, False))
    assert written(engine, told) == [[2, 1 + 1.75, 1.75, 1], [1, 1, 1, 0], [2, 1.5 + 1.75, 1.75, 1.5]]


@settings(max_examples=15)
@given(told=st.tuples(*(st.tuples(*[st.booleans()] * n) for n in SIZES)))
@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "auto"])
def test_any_marks(written, engine, told):
    assert written(engine, told) == [diary(marks) for marks in told]


@pytest.mark.parametrize(("at_once", "patience"), [(1, 0), (2, 1), (256, 0)])
def test_traced_and_in_chunks(written, monkeypatch, at_once, patience):
    monkeypatch.setattr(replay, "PATIENCE", patience)
    monkeypatch.setattr(stacked_module, "LOCKSTEP", at_once)
    told = ((True, False, True), (True,), (False, True, True, True))
    for _ in range(2):
        assert written("stacked", told) == [diary(marks) for marks in told]


def test_work_without_marks_needs_none():
    assert SGD().plan(5, Key(0)).marks is None
    assert not hasattr(SGD(), "mark")
