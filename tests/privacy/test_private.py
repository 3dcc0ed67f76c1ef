"""Sites with budgets, simulated: which visits happen, what they are charged to, what of it survives."""

from __future__ import annotations

import pytest
import torch
from charged import SIGMA, Charged
from torch import nn

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.core.held import COORDINATOR, at_coordinator, hold
from coterie.core.net import EVALUATION, edges_of, from_server
from coterie.core.seeds import Key
from coterie.features.absence.wrapper import Absent
from coterie.features.privacy.wrapper import Private
from coterie.kernels import (
    SGD,
    Calibrate,
    Choice,
    Crowd,
    HeldOut,
    Here,
    Noisy,
    Proximal,
    Score,
    Slopes,
    Tallied,
)
from coterie.methods import METHODS
from coterie.nets import Wrapped
from coterie.nets.ground import admit, check_wraps, wrapped
from coterie.privacy.accounting import COARSE, epsilon, spent_on
from coterie.privacy.spending import EVERYBODY

pytest.importorskip("dp_accounting")
WORK = Charged(lr=0.25)
KEY = Key(0).at_round(1, 9)
ALL = from_server(torch.arange(4))


def eps(times: int) -> float:
    """A budget for so many visits and no more."""
    return epsilon([Charge(SIGMA, times=times)], 1e-5, COARSE)


@pytest.fixture
def net(client_of, net_of):
    draws = torch.Generator().manual_seed(0)
    clients = [
        client_of(torch.randn(20, 2, generator=draws), torch.arange(20) % 2, name=f"c{i}") for i in range(4)
    ]
    return net_of(nn.Linear(2, 2), clients)


@pytest.fixture
def start():
    return hold({"weight": torch.eye(2).unsqueeze(0), "bias": torch.zeros(1, 2)}, at_coordinator(1))


def at(round: int) -> Key:
    return Key(0).at_round(round, 9)


def spent(private, host):
    return private.book.ledger.account(host).spent


def test_a_host_answers_until_its_budget_is_spent(net, start):
    private = Private(net, epsilon=eps(2))
    edges = edges_of([(0, 0), (0, 1)])
    assert [len(private.visit(WORK, start, edges, at(r))) for r in (1, 2, 3, 4)] == [2, 2, 0, 0]
    assert private.away() == {
        name: f"out of budget for the coordinator: epsilon {eps(2):.3g} of {eps(2):g} is spent"
        for name in ("c0", "c1")
    }
    told = private.statement()
    assert [site.get("out") for site in told["sites"]] == [{"coordinator": 3}, {"coordinator": 3}, None, None]
    assert told["sites"][2]["epsilon"] == 0
    assert len(private.visit(WORK, start, ALL, at(5))) == 2  # c2 and c3 have spent nothing


def test_those_who_answer_do_so_as_ever_and_beside_stays_with_its_edge(net, start):
    two = hold({n: t.repeat_interleave(2, 0) + torch.arange(2.0).view(-1, *[1] * (t.dim() - 1))
                for n, t in start.tensors.items()}, at_coordinator(2))  # fmt: skip
    anchors = {
        "anchor": hold({n: torch.randn(3, *t.shape[1:]) for n, t in start.tensors.items()}, at_coordinator(3))
    }
    private = Private(net, epsilon=eps(1))
    private.visit(WORK, start, edges_of([(0, 1)]), KEY)
    edges = edges_of([(0, 0), (1, 1), (1, 2)])

    class Costly(Proximal):
        def charges(self, samples):
            return (Charge(SIGMA),)

    kernel = Costly(SGD(lr=0.25), strength=1.0)
    found = private.visit(kernel, two, edges, at(2), beside=anchors)
    clear = net.visit(kernel, two, edges, at(2), beside=anchors)
    assert found.edges.tolist() == [[0, 0], [1, 2]]
    for name, t in found.beliefs.tensors.items():
        assert torch.equal(t, clear.beliefs.tensors[name][[0, 2]])


def test_requesters_are_where_the_belief_lies(net, start):
    private = Private(net, epsilon=9.0)
    private.visit(WORK, start, edges_of([(0, 0)]), KEY)
    own = net.deliver(start, torch.zeros(4, dtype=torch.int64), torch.arange(4))
    private.visit(WORK, own, edges_of([(0, 0), (1, 0), (1, 2)]), KEY.at("x"))
    one = spent_on([Charge(SIGMA)])
    assert spent(private, 0) == {COORDINATOR: one, EVERYBODY: one, 1: one}
    assert spent(private, 2) == {1: one}
    private.visit(Noisy(Score("train", ("loss",))), own, edges_of([(1, 3)]), KEY)  # numbers are the lead's
    assert spent(private, 3) == {COORDINATOR: spent_on([Charge(20.0)])}


def test_a_smaller_budget_for_one_leaves_the_others(net, start):
    private = Private(net, epsilon=eps(8), per_requester=eps(2))
    own = net.deliver(start, torch.zeros(4, dtype=torch.int64), torch.arange(4))
    edges = edges_of([(1, 0), (2, 0)])
    private.visit(WORK, own, edges_of([(1, 0)]), at(1))
    assert private.visit(WORK, own, edges, at(2)).edges.tolist() == edges.tolist()
    assert private.visit(WORK, own, edges, at(3)).edges.tolist() == [[2, 0]]
    assert private.away()["c0"].startswith("out of budget for c1: ")


def test_the_same_visit_again_is_charged_once(net, start):
    private = Private(net, epsilon=eps(2))
    first = private.visit(WORK, start, ALL, KEY)
    for _ in range(4):
        again = private.visit(WORK, start, ALL, KEY)
    assert torch.equal(first.beliefs.tensors["weight"], again.beliefs.tensors["weight"])
    assert spent(private, 0) == {COORDINATOR: spent_on([Charge(SIGMA)])}
    private.visit(WORK, start, ALL, KEY.at("other"))
    assert spent(private, 0) == {COORDINATOR: spent_on([Charge(SIGMA, times=2)])}


def test_who_is_away_is_not_charged(net, start):
    private = Private(Absent(net, 1.0), epsilon=eps(2))
    assert len(private.visit(WORK, start, ALL, KEY)) == 0
    assert all(not spent(private, host) for host in range(4))


def test_what_is_kept_goes_on(net, start):
    first = Private(net, epsilon=eps(2))
    first.visit(WORK, start, ALL, at(1))
    first.visit(WORK, start, edges_of([(0, 1)]), at(2))
    kept = first.kept([], 2)
    first.visit(WORK, start, ALL, at(3))
    then = first.statement()
    second = Private(net, epsilon=eps(2))
    second.restore(kept, [], 2)
    assert len(second.visit(WORK, start, ALL, at(3))) == 3
    assert second.statement() == then
    assert second.away() == first.away()


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        (SGD(), 'sgd gives no bound: take --kernel "dp(sgd)"'),
        (
            Slopes(),
            "slopes(sgd) gives no bound: take --influence.estimate exact, or leave the wrapper private out",
        ),
        (Tallied("train"), "tallied gives no bound: choose another method, or leave the wrapper private out"),
    ],
    ids=["work", "slopes", "counts"],
)
def test_what_has_no_bound_is_refused(net, start, refused, kernel, line):
    private = Private(net)
    with refused(BadInput, line):
        private.visit(kernel, start, ALL, KEY)
    assert len(private.visit(Here(), start, ALL, KEY)) == 4  # asks nothing, costs nothing


def test_scores_of_methods_get_noise_and_are_charged(net, start):
    private = Private(net, scores="clear", sigma=5.0)
    clear = net.visit(Score("train"), start, ALL, KEY).numbers
    found = private.visit(Score("train"), start, ALL, KEY).numbers
    assert set(found) == {"loss", "accuracy", "samples"}
    assert not torch.equal(found["loss"], clear["loss"])
    assert spent(private, 0) == {COORDINATOR: spent_on([Charge(5.0, times=2)])}
    private.visit(HeldOut(5, 0), start, ALL, KEY)
    assert spent(private, 1) == {COORDINATOR: spent_on([Charge(5.0, times=3)])}
    told = private.visit(Choice(Score("train", ("loss",))), start, ALL, KEY)
    assert set(told.numbers) == {"chosen"}
    assert spent(private, 2) == {COORDINATOR: spent_on([Charge(5.0, times=4)])}


EVALUATE = KEY.at(EVALUATION)


def test_evaluation_in_the_clear_is_said_to_be_outside(net, start):
    private, clear = Private(net, scores="clear"), net.visit(Calibrate(), start, ALL, EVALUATE)
    found = private.visit(Calibrate(), start, ALL, EVALUATE)
    assert torch.equal(found.numbers["loss"], clear.numbers["loss"])
    told = private.statement()
    assert told["outside"] == {"evaluation": {"calibrate": 4}, "method": {}}
    assert told["scores"] == "clear"
    assert all(site["epsilon"] == 0 for site in told["sites"])


def test_evaluation_with_noise_and_without(net, start):
    noisy = Private(net, scores="noisy")
    assert set(noisy.visit(Calibrate(), start, ALL, EVALUATE).numbers) == {"loss", "accuracy", "samples"}
    assert len(noisy.visit(Tallied(), start, ALL, EVALUATE)) == 0
    assert spent(noisy, 0) == {COORDINATOR: spent_on([Charge(20.0, times=2)])}
    crowd = noisy.visit(Crowd(Calibrate()), start, edges_of([(0, 1), (0, 1)]), EVALUATE)
    assert len(crowd) == 1
    assert spent(noisy, 1) == {COORDINATOR: spent_on([Charge(20.0, times=4)])}
    assert noisy.statement()["outside"] == {"evaluation": {}, "method": {}}
    none = Private(net, scores="none")
    assert len(none.visit(Calibrate(), start, ALL, EVALUATE)) == 0
    with pytest.raises(BadInput, match="scores=none sends none: take scores=noisy"):
        none.visit(Score("train"), start, ALL, KEY)


def test_rows_do_not_move(net):
    with pytest.raises(BadInput, match="rows that move have no bound"):
        Private(net).in_one_place([[0, 1]])


@pytest.mark.parametrize(
    ("wraps", "line"),
    [
        (["private=0"], "epsilon=0.0 must lie above 0 and be finite: try 3"),
        (["private:delta=1"], "delta=1.0 must lie between 0 and 1, and below 1 / rows: try 1e-5"),
        (["private:per_requester=-1"], "per_requester=-1.0 must lie above 0 and be finite: try 3"),
        (["private", "private"], "wrapper private is there twice, and a site has one budget: leave one out"),
    ],
)
def test_budgets_that_cannot_be(refused, wraps, line):
    with refused(BadInput, line):
        check_wraps(wraps)


def test_private_is_inside_of_sealed(refused):
    check_wraps(["private=3", "sealed"])
    line = "private comes after sealed, and noise has to be added before replies are sealed: "
    with refused(BadInput, line + "write --wrap private sealed"):
        check_wraps(["sealed", "absent=0.1", "private=3"])


def test_methods_are_looked_at_before_anything_is_trained(net, refused):
    fedavg, roster = METHODS.make("fedavg", local=WORK), net.roster
    admit(["private=3"], fedavg, roster)
    with refused(BadInput, 'sgd gives no bound: take --kernel "dp(sgd)"'):
        admit(["private=3"], METHODS.make("fedavg"), roster)
    with pytest.raises(BadInput, match="moves rows"):
        admit(["private=3"], METHODS.make("central", local=WORK), roster)
    with pytest.raises(BadInput) as caught:
        admit(["private:delta=0.1"], fedavg, roster)
    assert "delta=0.1 is above 1/n = 0.025 for the 40 rows of 'c0': take delta=0.002 or less" in str(
        caught.value
    )


def test_wrappers_by_name(net):
    made = wrapped(net, ["private:epsilon=2,delta=1e-6,per_requester=1,scores=none"])
    assert isinstance(made, Private)
    assert (made.epsilon, made.delta, made.per_requester, made.scores) == (2, 1e-6, 1, "none")
    assert Wrapped(made).accounts
    assert not net.accounts
