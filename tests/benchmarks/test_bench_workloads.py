"""The same work whoever does it: rows, steps and arithmetic of the benchmark's contenders."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from coterie.core import belief as tree
from coterie.core.errors import BadInput, UnknownName
from coterie.core.roster import roster_of
from coterie.core.seeds import Key
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.studies.bench.contenders import Lean, Plain, engines_to_run, prepare
from coterie.studies.bench.measure import training_loss
from coterie.studies.bench.workloads import (
    WORKLOADS,
    Gossip,
    clients_of,
    hosts_of,
    mixing,
    quick,
    rows_in_all,
    rows_per_visit,
)

KEY = Key(3, ("test",))


def in_order(workload):
    """Rows in order instead of shuffled: then all contenders see the same batches.

    In one round: steps in order go on from round to round, which the plain loops do not.
    """
    rounds = 1 if workload.local.steps else workload.rounds
    return replace(workload, local=replace(workload.local, shuffle=False), rounds=rounds)


def distance(a, b):
    """The Euclidean distance of all beliefs in a to those in b, which may be one for all."""
    return float(sum((a[name] - b[name]).double().square().sum() for name in a)) ** 0.5


@pytest.mark.parametrize("workload", WORKLOADS)
def test_same_beliefs_when_rows_come_in_order(workload):
    small = in_order(quick(WORKLOADS[workload]))
    clients = clients_of(small)
    first, plain = tree.stack([tree.belief_of(small.module())]), prepare("plain", small, clients)(KEY)
    moved = distance(plain, first)
    for name in ("lean", "auto"):
        found = prepare(name, small, clients)(KEY)
        assert {n: t.shape for n, t in found.items()} == {n: t.shape for n, t in plain.items()}, name
        # Adam divides gradients that are nearly 0 by their own size: rounding shows, in a few weights
        assert distance(found, plain) < 1e-3 * moved, name


@pytest.mark.parametrize(
    "workload", ["linear-1000", "titanic-4", pytest.param("pens-cnn-20", marks=pytest.mark.slow)]
)
def test_loops_on_shuffled_rows(workload):
    small = quick(WORKLOADS[workload])
    clients, due = clients_of(small), rows_in_all(small, KEY)
    first = training_loss(small, clients, tree.stack([tree.belief_of(small.module())]))
    losses = []
    for kind in (Plain, Lean):
        run = kind(small, clients)
        once, again = run(KEY), run(KEY)
        assert run.rows == due
        assert all(torch.equal(once[n], again[n]) for n in once)
        assert any(not torch.equal(once[n], t) for n, t in run(KEY.at("other")).items())
        losses.append(training_loss(small, clients, once))
    assert max(losses) < first
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_workloads_are_those_of_the_table():
    found = {n: (w.model, w.inputs, len(w.sizes), w.local.batch, w.sample) for n, w in WORKLOADS.items()}
    assert found == {
        "linear-100": ("logistic", (1, 28, 28), 100, 32, 1.0),
        "linear-1000": ("logistic", (1, 28, 28), 1000, 32, 0.1),
        "erosion-cnn-10": ("erosion-cnn", (1, 28, 28), 10, 32, 1.0),
        "pens-cnn-20": ("pens-cnn", (3, 32, 32), 20, 8, 1.0),
        "titanic-4": ("logistic", (9,), 4, 161, 1.0),
    }
    rows = {n: rows_in_all(replace(w, rounds=1), KEY) for n, w in WORKLOADS.items()}
    assert rows == {
        "linear-100": 100 * 600,
        "linear-1000": 100 * 50,
        "erosion-cnn-10": 10 * 600,
        "pens-cnn-20": 20 * 125 * 3,
        "titanic-4": 4 * 161,
    }
    assert WORKLOADS["linear-1000"].rounds == 20
    assert WORKLOADS["pens-cnn-20"].peers == 5


@pytest.mark.parametrize(("steps", "due"), [(1, 4), (3, 10), (4, 14), (7, 24)])
def test_rows_of_steps_go_round_the_data(steps, due):
    workload = replace(WORKLOADS["titanic-4"], sizes=(10,), local=SGD(batch=4, steps=steps))
    assert rows_per_visit(workload, 0) == due


def test_clients_are_seeded_views_of_one_tensor():
    small = quick(WORKLOADS["linear-1000"])
    clients, again = clients_of(small), clients_of(small)
    assert torch.equal(clients[3].train.x, again[3].train.x)
    assert not torch.equal(clients[3].train.x, clients[4].train.x)
    shared = {c.train.x.untyped_storage().data_ptr() for c in clients}
    assert len(shared) == 1
    assert len(hosts_of(small, KEY)) == 2


def test_mixing_is_oneself_and_so_many_others():
    weights = mixing(7, 3, KEY)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(7, dtype=torch.float64))
    assert (weights > 0).sum(dim=1).tolist() == [4] * 7
    assert (weights.diagonal() == 0.25).all()
    assert torch.equal(weights, mixing(7, 3, KEY))
    assert not torch.equal(weights, mixing(7, 3, KEY.at("other")))


def test_gossip_refuses_more_peers_than_there_are():
    roster = roster_of(clients_of(replace(WORKLOADS["titanic-4"], sizes=(3,) * 4)))
    assert Gossip(SGD(), peers=3).check(roster, {}, KEY) == ()
    with pytest.raises(BadInput, match="peers=4 must be at least 0 and below 4 clients: try 3"):
        Gossip(SGD(), peers=4).check(roster, {}, KEY)


def test_lean_refuses_what_it_cannot_do():
    small = quick(WORKLOADS["titanic-4"])
    for wrong in (
        replace(small, local=SGD(momentum=0.9)),
        replace(small, local=SGD(weight_decay=0.1)),
        replace(quick(WORKLOADS["pens-cnn-20"]), model="resnet18"),
    ):
        with pytest.raises(BadInput, match="the lean loop"):
            Lean(wrong, clients_of(wrong))


def test_contenders_by_name():
    small = quick(WORKLOADS["titanic-4"])
    with pytest.raises(UnknownName, match="did you mean plain"):
        prepare("plian", small, clients_of(small))
    assert engines_to_run(["loop"]) == ("loop",)
    assert engines_to_run([]) == (tuple(n for n in ENGINES if n != "loop") or ("loop",))
    with pytest.raises(UnknownName, match="did you mean loop"):
        engines_to_run(["lopp"])
