"""Slopes of the loss towards other beliefs, against torch.autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coterie.core.belief import belief_of, row
from coterie.core.held import at_coordinator, hold
from coterie.core.net import edges_of
from coterie.core.seeds import Key
from coterie.kernels import SGD, Fold, Slopes
from coterie.kernels.fold import fold_rows

EDGES = edges_of([(0, 1), (1, 0), (1, 2)])


@pytest.fixture(scope="module")
def case(client_of):
    torch.manual_seed(3)
    clients = [client_of(torch.randn(n, 4).double(), torch.randint(3, (n,)), name=str(n)) for n in (5, 9, 40)]
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3)).double()
    module[2].bias.requires_grad_(False)

    def some(n):
        tensors = {name: torch.randn(n, *t.shape).double() for name, t in belief_of(module).items()}
        return hold(tensors, at_coordinator(n))

    return module, clients, some(2), {"near": some(1), "far": some(3)}


def by_autograd(module, belief, other, x, y):
    """⟨∇L(w), w - v⟩ over what is trained."""
    leaves = {n: t.clone().requires_grad_(n != "2.bias") for n, t in belief.items()}
    F.cross_entropy(torch.func.functional_call(module, leaves, (x,)), y).backward()
    return sum(float((t.grad * (belief[n] - other[n])).sum()) for n, t in leaves.items() if n != "2.bias")


@pytest.mark.parametrize("engine", ["loop", "stacked", "pool", "auto"])
def test_as_autograd(engine, case, net_of):
    module, clients, beliefs, beside = case
    replies = net_of(module, clients, engine).visit(Slopes(), beliefs, EDGES, Key(0), beside=beside)
    assert set(replies.numbers) == {"loss", "samples", "slope/near", "slope/far"}
    assert replies.numbers["samples"].tolist() == [9, 5, 40]
    for e, (guest, host) in enumerate(EDGES.tolist()):
        data, mine = clients[host].train, row(beliefs.tensors, guest)
        loss = F.cross_entropy(torch.func.functional_call(module, mine, (data.x,)), data.y)
        assert float(replies.numbers["loss"][e]) == pytest.approx(float(loss), rel=1e-9)
        for name, edge in (("near", 0), ("far", e)):
            wanted = by_autograd(module, mine, row(beside[name].tensors, edge), data.x, data.y)
            assert float(replies.numbers[f"slope/{name}"][e]) == pytest.approx(wanted, rel=1e-9)
        assert all(torch.equal(t[e], mine[n]) for n, t in replies.beliefs.tensors.items())


def test_on_the_rows_of_the_work_inside(case, net_of):
    module, clients, beliefs, beside = case
    work = Slopes(Fold(SGD(batch=2**31, shuffle=False), folds=3, fold=1, inside=True))
    replies = net_of(module, clients).visit(work, beliefs, EDGES[:1], Key(0), beside={"near": beside["near"]})
    rows = fold_rows(9, 3, 1, 0)
    data, mine, other = clients[1].train, row(beliefs.tensors, 0), row(beside["near"].tensors, 0)
    wanted = by_autograd(module, mine, other, data.x[rows], data.y[rows])
    assert replies.numbers["samples"].tolist() == [3]
    assert replies.numbers["slope/near"].tolist() == [pytest.approx(wanted, rel=1e-9)]
