"""Who withdraws from which sum, what is summed without it, and what the record says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sums import FULL, KEY, at_sites, flat, table

from coterie.core.belief import everybody, without
from coterie.core.errors import BadInput, Refused, UnknownName, lines_of
from coterie.core.held import COORDINATOR, at_coordinator, handles_in, hold
from coterie.core.net import SERVER, Net, from_server, to_own
from coterie.core.seeds import Key
from coterie.features.ownership.shown import withdrawals
from coterie.features.ownership.wrapper import Ownership, really
from coterie.methods import FedAvg, Ndoye
from coterie.nets.ground import check_wraps
from coterie.nets.guard import Guard
from coterie.nets.offers import Limits, Sums, chosen, written
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.record import Record
from coterie.runs.settings import Settings

# figures, worked out by hand


def offers(weights, at, of=None, guard=None):
    found = Sums(weights, torch.tensor(at), of).offers(guard or Guard(1.0))
    return [(o.site, o.receiver, round(o.share, 6), o.others, round(o.leverage, 6)) for o in found]


def test_a_server_has_no_reply_of_its_own():
    # leverage: w_i² / Σ w² = 0.25, 0.09 and 0.04 of 0.38
    assert offers(table([0.5, 0.3, 0.2]), [COORDINATOR]) == [
        (0, -1, 0.5, 2, 0.657895),
        (1, -1, 0.3, 2, 0.236842),
        (2, -1, 0.2, 2, 0.105263),
    ]


def test_the_receiver_is_none_of_the_others_and_hides_nothing():
    assert offers(table([0.5, 0.3, 0.2]), [0]) == [(1, 0, 0.3, 1, 0.692308), (2, 0, 0.2, 1, 0.307692)]
    assert offers(table([0.5, 0.5, 0.0]), [0]) == [(1, 0, 0.5, 0, 1.0)]
    assert offers(table([1.0, 0.0, 0.0]), [0]) == []


def test_of_several_sums_at_a_place_the_worst_counts():
    ways = table([0.25, 0.25, 0.25, 0.25], [0.0, 1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0, 0.0])
    found = {site: rest for site, _, *rest in offers(ways, [3, 3, 3])}
    assert {site: rest[:2] for site, rest in found.items()} == {
        0: [0.5, 1],
        1: [0.5, 1],
        2: [pytest.approx(1 / 3), 1],
    }
    assert all(lever == pytest.approx(1.0) for _, _, lever in found.values())  # three sums of three unknowns


def test_the_worst_of_all_tensors_counts_and_signs_do_not():
    by_name = {"a": table([0.25, 0.25, 0.5]), "b": table([-0.5, 0.5, 0.0])}
    held = hold({"a": torch.zeros(3, 1), "b": torch.zeros(3, 1)}, torch.arange(3))
    assert [row[:4] for row in offers(by_name, [COORDINATOR], held)] == [
        (0, -1, 0.5, 1),
        (1, -1, 0.5, 1),
        (2, -1, 0.5, 2),
    ]


def test_what_a_receiver_got_before_counts_too():
    held, guard = at_sites(1.0, 2.0, 3.0), Guard(1.0)
    sums = Sums(table([0.5, 0.5, 0.0]), SERVER, held)
    assert sums.offers(guard)[0].leverage == pytest.approx(0.5)
    sums.note(guard)
    again = Sums(table([0.0, 1.0, 0.0]), SERVER, held).offers(guard)
    assert [(o.site, o.leverage) for o in again] == [(1, pytest.approx(1.0))]


def test_a_site_with_two_rows_is_one_site():
    held = hold({"weight": torch.zeros(3, 1, 1)}, torch.tensor([0, 0, 1]))
    assert [row[:4] for row in offers(table([0.25, 0.25, 0.5]), [COORDINATOR], held)] == [
        (0, -1, 0.5, 1),
        (1, -1, 0.5, 1),
    ]


def test_an_objection_says_all_at_once():
    limits = Limits(0.5, 3, 0.4)
    assert limits.objection(0.5, 3, 0.4) == ""
    assert limits.objection(0.62, 1, 1.0) == "share 0.62 above 0.5, 1 others, below 3, leverage 1 above 0.4"


# what is summed without who withdrew


def test_an_average_stays_one_and_a_sum_loses_a_term():
    stays = torch.tensor([[True, False, True]])
    assert without(table([0.5, 0.3, 0.2]), stays).tolist() == [pytest.approx([5 / 7, 0, 2 / 7])]
    assert without(table([1.0, 1.0, 1.0]), stays).tolist() == [[1, 0, 1]]
    assert without(table([1.0, 0.0, 0.0]), ~stays).tolist() == [[0, 0, 0]]


def test_those_who_are_left_are_asked_again(pull):
    """0.6 is above the bound; without it 0.25 / 0.4 is; then the last would be alone: nobody is left."""
    net = Ownership(pull(0, 0, 0), share_at_most=0.61, sites="c1+c2")
    assert net.offer(table([0.6, 0.25, 0.15]), SERVER, at_sites(1, 2, 3)).all()
    net = Ownership(pull(0, 0, 0), share_at_most=0.5)
    assert not net.offer(table([0.6, 0.25, 0.15]), SERVER, at_sites(1, 2, 3)).any()
    told = net.figures()["withdrawals"]
    assert [(t["site"], t["receiver"], round(t["share"], 3), t["others"], t["why"]) for t in told] == [
        ("c0", "coordinator", 0.6, 2, "share 0.6 above 0.5"),
        ("c1", "coordinator", 0.625, 1, "share 0.625 above 0.5"),
        ("c2", "coordinator", 1.0, 0, "share 1 above 0.5"),
    ]
    assert net.figures() == {}  # told once


def test_a_sum_by_hand_and_one_of_nobody(pull):
    net = Ownership(pull(2, 4, 8), share_at_most=0.5)
    start = hold({"weight": table([1.0]).reshape(1, 1, 1)}, at_coordinator(1))
    replies = net.visit(FULL, start, from_server(torch.arange(3)), KEY)  # 1.5, 2.5 and 4.5
    assert flat(net.mix(table([0.6, 0.2, 0.2]), replies.beliefs, SERVER)) == [pytest.approx(3.5)]
    both = net.mix(table([0.4, 0.3, 0.3], [0.6, 0.25, 0.15]), replies.beliefs, torch.tensor([-1, -1]))
    assert (
        flat(both) == [pytest.approx(1.0)] * 2
    )  # in one of the two each counts too much: what went out stays
    assert both.places.tolist() == [-1, -1]


def test_the_receivers_own_stays_alone(pull):
    net = Ownership(pull(0, 0, 0), others_at_least=2)
    mixed = net.mix(
        table([0.2, 0.4, 0.4], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]), at_sites(1, 2, 4), torch.arange(3)
    )
    assert flat(mixed) == [1, 2, 4]
    assert len(net.figures()["withdrawals"]) == 4


def test_sums_in_turn_are_offered_one_by_one(pull):
    """c1 withdraws from c0's sum, which stays 1; c1's has c0 and itself: (1 + 2) / 2."""
    net = Ownership(pull(0, 0), share_at_most=0.6)
    mixed = net.mix(table([0.3, 0.7], [0.5, 0.5]), at_sites(1, 2), torch.arange(2), in_turn=True)
    assert flat(mixed) == [1, 1.5]


def test_if_all_others_withdraw_a_receiver_has_its_own_or_nothing(pull):
    """Never what another had sent out: c0 and c1 trained models of their own."""
    net = Ownership(pull(2, 4, 8), others_at_least=5)
    replies = net.visit(FULL, at_sites(1, 2, 4), to_own(3), KEY)  # 1.5, 3 and 6
    assert flat(net.mix(table([0.5, 0.5, 0.0]), replies.beliefs, torch.tensor([2]))) == [6]
    with pytest.raises(Refused, match="all sites withdrew from a sum of c2, which has no model"):
        net.mix(table([0.5, 0.5]), replies.beliefs.rows(torch.arange(2)), torch.tensor([2]))


def test_a_whole_model_is_a_share_of_one(pull):
    net = Ownership(pull(0, 0), share_at_most=0.9, sites="c1")
    held = at_sites(1, 2)
    net.deliver(held, torch.tensor([0]), torch.tensor([1]))
    net.deliver(held, torch.tensor([1]), torch.tensor([1]))
    with pytest.raises(Refused, match=r"c1 would hand its whole model to c0.*share 1 above 0.9"):
        net.share(held, torch.tensor([0]))


@settings(max_examples=25)
@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n),
            st.floats(0.05, 1.0),
            st.integers(0, 4),
            st.floats(0.05, 1.0),
        )
    )
)
def test_in_the_end_nobody_objects_and_nobody_left_without_need(drawn):
    """Whoever stays may; whoever left objects to the sum in which it would be again, or to an earlier one."""
    rows, share, others, leverage = drawn
    n, limits = len(rows), Limits(share, others, leverage)
    raw = table(*rows) + torch.eye(n)
    weights, held = raw / raw.sum(dim=1, keepdim=True), at_sites(*range(n))

    class Nobody(Net):
        roster = type("R", (), {"names": [f"c{i}" for i in range(n)]})()

    net = Ownership(Nobody(), share, others, leverage)
    stays = net.offer(weights, torch.arange(n), held)
    assert bool(stays.diagonal().all())
    left = without(weights, stays)
    torch.testing.assert_close(left.sum(dim=1), torch.ones(n).double())
    for offer in Sums(left, torch.arange(n), held).offers(Guard(1.0)):
        assert not limits.objection(offer.share, offer.others, offer.leverage)
    told = net.figures().get("withdrawals", []) if limits else []
    assert len(told) == int((~stays).sum()) == len({(t["site"], t["receiver"]) for t in told})
    assert all(limits.objection(t["share"], t["others"], t["leverage"]) == t["why"] for t in told)


# what a record says


def test_the_weights_that_were_mixed():
    plan = table([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.0, 0.0, 1.0])
    gone = {COORDINATOR: (table(0, 0.5, 0.3, 0.2).flatten(), table(0, 0.5, 0.0, 0.2).flatten())}
    expected = [[5 / 7, 0, 2 / 7], [5 / 7, 0, 2 / 7], [0, 0, 1]]
    assert really(plan, gone).tolist() == [pytest.approx(row) for row in expected]
    at_c1 = {1: (table(0, 1.0, 0.6).flatten(), table(0, 0.5, 0.6).flatten())}  # c0 stayed in one of two sums
    assert really(plan, at_c1)[1].tolist() == pytest.approx([0.25 / 0.75, 0.3 / 0.75, 0.2 / 0.75])
    assert really(plan, at_c1)[0].tolist() == plan[0].tolist()


def test_a_round_of_fedavg_says_what_it_mixed(pull, start_of):
    net = Ownership(pull(2, 4, 8), leverage=0.4, sites="c2")
    method, start = FedAvg(FULL), start_of({"weight": torch.zeros(1, 1, 1).double()})
    state = method.init(start, net)
    after, info = method.round(state, net, KEY)
    assert flat(after.beliefs) == [pytest.approx((1 + 2 + 4) / 3)]
    net = Ownership(pull(2, 4, 8), leverage=0.3, sites="c2")
    after, info = method.round(method.init(start, net), net, KEY)
    assert flat(after.beliefs) == [1.5]
    assert net.as_mixed(info.weights, info.mixed).tolist() == [[0.5, 0.5, 0.0]] * 3
    assert net.as_mixed(info.weights, True) is info.weights  # of the next round nothing is known yet
    net.regroup([*handles_in(after)], 1)
    assert net.figures() == {}  # a round that is done again begins anew


def test_who_withdraws_from_a_published_circle_is_out_of_it(pull, start_of):
    """All are alike, so that each is in each circle with a third; c2 wants 3 others."""
    net = Ownership(pull(1, 1, 1), others_at_least=3, sites="c2")
    method, start = (
        Ndoye(FULL, folds=0, best=0, threshold=1e9, bar="none"),
        start_of({"weight": torch.zeros(1, 1, 1).double()}),
    )
    clients = [type(c)(**{**vars(c), "validation": c.train}) for c in net.net.clients]
    net = Ownership(
        type(net.net)(net.net.engine, net.net.learner, tuple(clients)), others_at_least=3, sites="c2"
    )
    ranked, info = method.round(method.init(start, net), net, KEY)
    assert info.extras["published"] == 3
    told = net.figures()["withdrawals"]
    assert [(t["site"], t["receiver"], t["others"], t["of"]) for t in told] == [
        ("c2", "c0", 1, "circle"),
        ("c2", "c1", 1, "circle"),
    ]
    circles = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [pytest.approx(1 / 3)] * 3]
    assert net.as_mixed(info.weights, info.mixed).tolist() == circles
    _, trained = method.round(ranked, net, Key(0).at_round(2, 3))
    assert trained.weights.tolist() == circles
    assert "withdrawals" not in net.figures()  # it is not in these sums any more


# runs


def played(wrap, method="fedavg", **more):
    asked = Settings(data="digits", clients=4, method=method, rounds=3, wrap=wrap, **more)
    experiment = prepare(asked, None)
    outcome = run(experiment, None, method)
    return experiment.net.peek(outcome.models.beliefs), outcome.record


def test_sealed_and_clear_sums_lose_the_same_sites():
    wrap = "ownership:share_at_most=0.27"
    clear, one = played(("absent=0.3", wrap))
    sealed, other = played(("absent=0.3", "sealed=1", wrap))
    told = [[m["extras"].get("withdrawals", []) for m in r.metrics] for r in (one, other)]
    assert told[0] == told[1]
    assert any(told[0])
    for r in one.weights:
        np.testing.assert_allclose(one.weights[r], other.weights[r])
    for name, t in clear.items():
        torch.testing.assert_close(sealed[name], t, rtol=0, atol=1e-5)


def test_a_line_for_each_who_withdrew():
    def told(site, of="sum"):
        return {
            "site": site,
            "receiver": "c1",
            "share": 0.6,
            "others": 1,
            "leverage": 1,
            "why": "why",
            "of": of,
        }

    metrics = [
        {"round": 0, "extras": {}},
        {"round": 1, "extras": {"withdrawals": [told("c0", "circle"), told("c0"), told("c2")]}},
        {"round": 2, "extras": {"withdrawals": [told("c0")]}},
    ]
    record = Record("x", {}, {"clients": []}, metrics)
    assert withdrawals(record) == [
        "c0 withdrew from 1 circle and 2 sums in 2 of 2 rounds (1 to 2): why",
        "c2 withdrew from 1 sum in 1 of 2 rounds (1): why",
    ]
    metrics[2]["extras"]["withdrawals"] = [told(f"s{i}") for i in range(20)]
    assert withdrawals(record)[-1] == "14 more sites withdrew: see metrics.jsonl"


# mistakes


@pytest.mark.parametrize(
    ("wraps", "words"),
    [
        (["ownership"], ["ownership without a bound lets everything pass"]),
        (["ownership:share_at_most=0,leverage=2"], ["share_at_most=0 must lie", "leverage=2 must lie"]),
        (["ownership:others_at_least=-1"], ["others_at_least=-1 must be at least 0"]),
        (["ownership=0.5", "sealed"], ["write --wrap sealed ownership"]),
    ],
)
def test_mistakes_are_said_before_anything_runs(wraps, words):
    with pytest.raises(BadInput) as caught:
        check_wraps(wraps)
    assert len(lines_of(caught.value)) == len(words)
    assert all(word in line for word, line in zip(words, lines_of(caught.value), strict=True))


def test_names_are_known_and_may_be_odd(pull):
    with pytest.raises(UnknownName, match="unknown client 'x'"):
        Ownership(pull(0, 0), share_at_most=0.5, sites="c0+x")
    names = ["a+b", "c, d", "7", "é"]
    assert chosen(names, written(["7", "a+b", "é", "c, d"])) == frozenset(range(4))


def test_nothing_is_asked_of_a_net_without_limits(pull):
    net, weights = pull(0, 0), table([0.5, 0.5])
    assert torch.equal(net.offer(weights, SERVER, at_sites(1, 2)), everybody(weights))
    assert not Ownership(net).asks
