"""What SWAG and the samplers bring home is the same on every engine; batch norm is renewed by `Refresh`."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadInput
from coterie.core.held import at_coordinator, hold
from coterie.core.net import edges_of, from_server, to_own
from coterie.core.seeds import Key
from coterie.kernels import HMC, PSGLD, SGD, SGLD, SWAG, Gather, Refresh
from coterie.kernels.fold import Fold, moved
from coterie.kernels.posterior import collected

WORK = {
    "swag": SWAG(lr=0.05, batch=4, epochs=3, momentum=0.9, every=2, burn=1, rank=3),
    "swag by epoch": SWAG(lr=0.05, batch=4, epochs=3, per="epoch", rank=3),
    "sgld": SGLD(lr=0.05, batch=4, epochs=3, every=2, rank=3, schedule="cosine"),
    "sgld by epoch": SGLD(lr=0.05, batch=4, epochs=5, per="epoch", every=2, rank=1),
    "psgld": PSGLD(lr=0.01, batch=4, epochs=3, burn=2, rank=3),
    "hmc": HMC(steps=9, adapt=4, burn=4, leaps=3, rank=3),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
ONE = edges_of([(0, 0)])
SIZES = (9, 14, 6)  # ragged, with short last batches


@pytest.fixture(scope="module")
def federation(client_of):
    def make(dtype):
        generator = torch.Generator().manual_seed(5)
        clients = []
        for i, n in enumerate(SIZES):
            x = torch.randn(n, 4, generator=generator, dtype=torch.float64).to(dtype)
            clients.append(client_of(x, torch.randint(3, (n,), generator=generator), name=str(i)))
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
        return module, clients

    return make


def held(*beliefs):
    return hold(stack(beliefs), at_coordinator(len(beliefs)))


def played(net, module, work):
    """Two rounds: the same belief to all, then each with what came of it."""
    everyone = torch.arange(len(SIZES))
    first = net.visit(work, held(belief_of(module)), from_server(everyone), Key(0).at_round(1, 2))
    plain = first.beliefs.only(module.state_dict())
    second = net.visit(work, plain, to_own(len(SIZES)), Key(0).at_round(2, 2))
    return second.beliefs.tensors, second.numbers, net.slots.tensors()


@pytest.mark.parametrize(
    ("name", "keep", "dtype"),
    [
        *((name, True, torch.float64) for name in WORK),
        ("swag", False, torch.float32),
        ("hmc", False, torch.float32),
    ],
    ids=lambda value: {True: "kept", False: "fresh"}.get(value) if isinstance(value, bool) else None,
)
def test_engines_agree(name, keep, dtype, federation, net_of):
    module, clients = federation(dtype)
    work = Gather(replace(WORK[name], keep=keep))
    wanted = played(net_of(module, clients, "loop"), module, work)
    assert int(wanted[0]["count"].min()) >= 2
    assert bool(wanted[2]) == keep
    for engine in ("stacked", "pool"):
        found = played(net_of(module, clients, engine), module, work)
        for theirs, ours in zip(found, wanted, strict=True):
            assert theirs.keys() == ours.keys()
            for n in ours:
                torch.testing.assert_close(
                    theirs[n], ours[n], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], msg=n
                )


@pytest.mark.parametrize("name", WORK)
def test_a_reply_without_gather_is_a_model_like_any(name, federation, net_of):
    module, clients = federation(torch.float64)
    server = held(belief_of(module)), from_server(torch.arange(len(SIZES))), Key(0).at_round(1, 1)
    net = net_of(module, clients)
    plain, gathered = (net.visit(w, *server).beliefs.tensors for w in (WORK[name], Gather(WORK[name])))
    assert plain.keys() == module.state_dict().keys()
    assert all(torch.equal(plain[n], gathered[n]) for n in plain)


def test_collecting_goes_on_in_a_fold(federation, net_of):
    # the rows of a fold, their number too, are the sampler's client
    module, clients = federation(torch.float64)
    net = net_of(module, clients[:1])
    work = Fold(inner=WORK["sgld"], folds=3, fold=1)
    plan = work.plan(9, Key(0))
    assert plan.rates[:, 1].tolist() == [6.0] * len(plan)
    averaged, last = (
        net.visit(replace(work, inner=inner), held(belief_of(module)), ONE, Key(0)).beliefs.tensors
        for inner in (work.inner, replace(work.inner, average=False))
    )
    assert averaged.keys() == module.state_dict().keys()
    assert not torch.equal(averaged["0.weight"], last["0.weight"])


class TestMarksInAFold:
    def test_a_step_that_is_left_out_leaves_its_mark(self):
        marks = torch.tensor([True, False, True, False, True, True])
        stay = torch.tensor([False, True, False, True, True, False])
        # the first has nowhere to go; the third goes to the second, the sixth to the fifth, marked already
        assert moved(marks, stay).tolist() == [True, False, True]

    def test_epochs_still_end(self):
        # 5 of 10 rows in batches of 4: the fifth would be alone, so the first batch ends the epoch
        plan = Fold(SWAG(batch=4, epochs=3, per="epoch"), folds=2).plan(10, Key(0))
        assert (len(plan), plan.marks.tolist()) == (3, [True] * 3)

    def test_each_pass_is_planned_by_itself(self):
        plan = Fold(SWAG(batch=4, steps=3, every=2), passes=2).plan(10, Key(0))
        assert plan.marks.tolist() == [False, True, False] * 2

    def test_work_without_marks_has_none(self):
        assert Fold(SGD(), folds=2, passes=2).plan(10, Key(0)).marks is None


class TestRefresh:
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = torch.tensor([0, 1] * 5 + [0])

    def module(self, momentum=0.1):
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=momentum), nn.Linear(4, 2)).double()

    def visited(self, client_of, net_of, module, batch, engine="loop"):
        net = net_of(module, [client_of(self.x, self.y)], engine)
        return self.after(net, Refresh(batch), belief_of(module))

    def after(self, net, kernel, belief):
        return row(net.visit(kernel, held(belief), ONE, Key(0)).beliefs.tensors, 0)

    @pytest.mark.parametrize(("engine", "momentum"), [("loop", 0.7), ("pool", 0.1), ("pool", None)])
    def test_one_batch_gives_the_statistics_of_the_data(self, client_of, net_of, engine, momentum):
        module = self.module(momentum)
        module[1].running_mean += 5.0  # of other weights, and so forgotten
        found, hidden = self.visited(client_of, net_of, module, 11, engine), module[0](self.x).detach()
        torch.testing.assert_close(found["1.running_mean"], hidden.mean(0))
        torch.testing.assert_close(found["1.running_var"], hidden.var(0))
        assert all(torch.equal(found[n], p.detach()) for n, p in module.named_parameters())

    def test_batches_count_by_their_rows(self, client_of, net_of):
        module = self.module()
        found, hidden = self.visited(client_of, net_of, module, 4), module[0](self.x).detach()
        torch.testing.assert_close(found["1.running_mean"], hidden.mean(0))

    def test_a_model_without_batch_norm_stays(self, client_of, net_of):
        module = nn.Linear(3, 2).double()
        found = self.visited(client_of, net_of, module, 4, "stacked")
        assert all(torch.equal(found[n], p.detach()) for n, p in module.named_parameters())

    def test_an_average_predicts_by_statistics_of_its_own(self, client_of, net_of):
        module = self.module()
        net = net_of(module, [client_of(self.x, self.y)])
        work = Gather(SWAG(lr=0.5, batch=11, steps=6, rank=2))
        mean = collected(self.after(net, work, belief_of(module))).mean
        fresh = self.after(net, Refresh(11), mean)
        by_hand = copy.deepcopy(module)
        by_hand.load_state_dict(dict(mean))
        hidden = by_hand[0](self.x).detach()
        torch.testing.assert_close(fresh["1.running_mean"], hidden.mean(0))
        assert not torch.allclose(mean["1.running_mean"], hidden.mean(0))

    def test_a_bad_batch(self, refused):
        with refused(BadInput, "batch=0 must be at least 1: try 32"):
            Refresh(0)
