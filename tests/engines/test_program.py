"""Recorded operations against what was recorded: the same bits, for any number of edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import vmap

import coterie
from coterie.core import belief as tree
from coterie.core.kernel import Tick
from coterie.core.learner import Batch, Learner
from coterie.engines import replay
from coterie.engines.program import Unrecordable, program
from coterie.kernels import SGD, Adam
from coterie.nets import InProcess, ground

GEN = torch.Generator().manual_seed(1)


def steps_of(module, kernel, edges, rows=6):
    """A kernel's step as a function of a list of tensors, and such tensors."""
    learner = Learner(module, "classification")
    belief = tree.belief_of(module)
    carry = kernel.start(belief, kernel.fresh(learner, belief), {})
    flat, spec = torch.utils._pytree.tree_flatten(carry)
    stacked = [t.expand(edges, *t.shape) + torch.zeros(edges, *t.shape).to(t) for t in flat]
    x, y = torch.randn(edges, rows, 4, generator=GEN), torch.randint(0, 3, (edges, rows), generator=GEN)
    rest = [x, y, torch.ones(edges, rows), torch.ones(edges).double(), torch.arange(edges)]

    def one(tensors):
        mine = torch.utils._pytree.tree_unflatten(list(tensors[:-5]), spec)
        return kernel.step(learner, mine, Batch(*tensors[-5:-2]), Tick(*tensors[-2:]))

    return vmap(one), [*stacked, *rest]


MODULES = {
    "linear": lambda: nn.Linear(4, 3),
    "deep": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)),
    "normed": lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("kernel", [SGD(momentum=0.9, weight_decay=0.1), Adam()])
@pytest.mark.parametrize("module", MODULES)
def test_recorded_once_for_any_number_of_edges(module, kernel):
    made = MODULES[module]()
    recorded = program(*steps_of(made, kernel, edges=4))
    for edges in (1, 2, 5, 33):
        function, flat = steps_of(made, kernel, edges)
        with torch.no_grad():
            expected, spec = torch.utils._pytree.tree_flatten(function(flat))
            found = recorded(flat)
        assert recorded.spec == spec
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_sizes_are_so_many_times_the_edges(edges, rows, columns):
    def function(flat):
        (x,) = flat
        wide = x.reshape(len(x) * rows, columns).sum(dim=1).view(len(x), rows)
        return {"wide": wide, "zeros": x.new_zeros(2 * len(x) + 1), "own": x.flatten(1)}

    recorded = program(function, [torch.randn(3, rows, columns, generator=GEN)])
    x = torch.randn(edges, rows, columns, generator=GEN)
    expected = torch.utils._pytree.tree_leaves(function([x]))
    assert all(torch.equal(a, b) for a, b in zip(recorded([x]), expected, strict=True))


def test_memory_that_outputs_share_is_shared_again():
    def function(flat):
        (x,) = flat
        return [x * 1, x.clone(), x, x.view(len(x), -1)]

    x = torch.randn(3, 2, generator=GEN)
    found = program(function, [x])([x])
    assert [t.data_ptr() == x.data_ptr() for t in found] == [False, False, True, True]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda flat: flat[0] * len(flat[0]) ** 0.5, "1.41.* for 2 edges and 1.73.* for 3"),
        (lambda flat: flat[0] if len(flat[0]) < 3 else flat[0] + 1, "other operations"),
        (lambda flat: flat[0] + torch.tensor(len(flat[0])), "a constant that depends on the number"),
        (lambda flat: torch.arange(len(flat[0]) ** 2), "replaying gives other numbers"),  # 4 and 9: 5 n - 6?
    ],
)
def test_what_depends_on_the_number_of_edges_otherwise_is_not_recorded(function, reason):
    with pytest.raises(Unrecordable, match=reason):
        program(function, [torch.ones(4)])


def test_a_second_run_of_the_same_model_records_nothing(monkeypatch):
    recorded = []
    monkeypatch.setattr(replay, "program", lambda *given: recorded.append(given) or program(*given))
    monkeypatch.setattr(ground, "SPARE", {})
    clients = [
        coterie.Client.from_arrays(torch.randn(40, 5, generator=GEN), torch.arange(40) % 2, name=f"c{i}")
        for i in range(3)
    ]
    first, second, other = (
        coterie.train("logistic", clients, method, kernel="sgd", rounds=4, seed=seed)
        for method, seed in (("fedavg", 0), ("fedavg", 1), ("local", 1))
    )
    assert len(recorded) == 4  # start, step, finish, predictions
    assert first.record.done == second.record.done == other.record.done == 4


def test_a_net_that_is_closed_twice_hands_its_learner_on_once(monkeypatch):
    monkeypatch.setattr(ground, "SPARE", {})
    closed = []
    monkeypatch.setattr(InProcess, "close", lambda net: closed.append(net) or net.done())
    client = coterie.Client.from_arrays(torch.randn(20, 3, generator=GEN), torch.arange(20) % 2, name="c")
    coterie.train("logistic", [client], "local", rounds=1)
    assert len(ground.SPARE) == len(closed) == 1
    ground.SPARE.clear()  # as when the next net takes it
    closed[0].done()
    assert ground.SPARE == {}
