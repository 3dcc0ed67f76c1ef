"""Sites with limits are asked before their models are used in sums, and give none away for others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from room import HELPERS, Room, told_scores

from coterie.core.errors import Refused
from coterie.core.wire import pack
from coterie.federation.lead.orders import withdrawn
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_promised, objection_to
from coterie.nets.offers import Limits
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.settings import Settings

PEERS = {"method": "pens", "validation": 0.2}


def on_one_machine(room, wrap, **more):
    options = {"table": {"recipe": str(room.recipe)}, **more.pop("options", {})}
    more = {"kernel": "sgd", "engine": "loop", "rounds": 3, **more}
    settings = Settings(data="table", wrap=wrap, options=options, **more)
    return run(prepare(settings, None), None, "run").record


def told(record):
    return [m["extras"].get("withdrawals", []) for m in record.metrics]


@pytest.mark.parametrize(
    "more", [{"method": "fedavg"}, {"method": "weight-erosion"}, PEERS], ids=["server", "erosion", "peers"]
)
def test_a_policy_gives_the_numbers_of_the_wrapper(tmp_path, monkeypatch, more):
    """One site wants at most 0.24 of a sum, of four alike; nobody else is asked."""
    room = Room(tmp_path, {"b": Policy(share_at_most=0.24)})
    far = room.play(monkeypatch, **more)
    near = on_one_machine(room, ("ownership:share_at_most=0.24,sites=b",), **more)
    assert told(far) == told(near)
    assert any(told(far))
    assert {w["site"] for some in told(far) for w in some} == {"b"}
    for r, weights in near.weights.items():
        np.testing.assert_array_equal(far.weights[r], weights)
    for one, other in zip(far.metrics, near.metrics, strict=True):
        assert told_scores(one) == told_scores(other)
    assert room.asked("b", "offer")
    assert not room.asked("a", "offer")
    noted = [e["outcome"] for e in room.diary("b") if e["asked"].startswith("whether it stays")]
    assert any(line.startswith("withdrew from the sum of ") and "above 0.24" in line for line in noted)
    assert any("withdrew from the sum of" in line for line in room.said["b"])


def test_without_limits_nobody_is_asked(tmp_path, monkeypatch):
    room = Room(tmp_path)
    room.play(monkeypatch, rounds=1)
    assert not [m for _, m in room.seen if m.get("do") == "offer"]


def test_if_all_withdraw_models_stay_as_they_were(tmp_path, monkeypatch):
    room = Room(tmp_path, dict.fromkeys("abcd", Policy(others_at_least=4)))
    record = room.play(monkeypatch, rounds=2)
    assert [len(some) for some in told(record)] == [0, 4, 4]
    assert record.metrics[2]["scores"] == record.metrics[0]["scores"]
    assert not any(weights.any() for weights in record.weights.values())
    assert not any(room.asked(name, "give") for name in room.names)  # nothing left its site


def test_a_circle_is_told_to_all_in_it_and_whoever_withdraws_is_out(tmp_path, monkeypatch):
    room = Room(tmp_path, {"c": Policy(others_at_least=3)})
    all_in_all = {"folds": 3, "passes": 1, "best": 0, "threshold": 1e9, "bar": "none"}
    record = room.play(monkeypatch, method="ndoye", options={"ndoye": all_in_all})
    asked = {name: [m for m in room.asked(name, "offer") if m["circle"]] for name in room.names}
    again = {"a": 2, "b": 2, "c": 1, "d": 2}  # without c, the others are told once more
    assert {name: len(some) for name, some in asked.items()} == again
    assert {w["receiver"] for w in told(record)[1]} == {"a", "b", "d"}
    assert record.metrics[1]["extras"]["published"] == 4
    out = [w[:, 2] for w in record.weights.values()]
    assert all(column[[0, 1, 3]].sum() == 0 and column[2] > 0 for column in out)


def test_sealed_sums_lose_the_same_sites(tmp_path, monkeypatch):
    room = Room(tmp_path, {"b": Policy(share_at_most=0.24, others_at_least=1)}, helpers=HELPERS)
    far = room.play(monkeypatch, method="weight-erosion", wrap=("sealed=1",))
    near = on_one_machine(
        room, ("ownership:share_at_most=0.24,others_at_least=1,sites=b",), method="weight-erosion"
    )
    assert any(told(far))
    for one, other in zip(told(far), told(near), strict=True):
        assert [(w["site"], w["receiver"], w["others"]) for w in one] == [
            (w["site"], w["receiver"], w["others"]) for w in other
        ]
    for r, weights in near.weights.items():
        np.testing.assert_allclose(far.weights[r], weights, atol=1e-5)


NONSENSE = [
    {},
    {"withdraws": 3},
    {"withdraws": [[0]]},
    {"withdraws": [[7, "why"]]},
    {"withdraws": [[True, ""]]},
]


@pytest.mark.parametrize("answer", NONSENSE[-2:])
def test_a_site_that_answers_nonsense_is_away(tmp_path, monkeypatch, answer):
    room = Room(tmp_path, {"b": Policy(share_at_most=0.24)})
    room.change = lambda name, message, said: pack(answer, {}) if message.get("do") == "offer" else said
    record = room.play(monkeypatch, rounds=2)
    assert [sorted(m.get("away", {})) for m in record.metrics] == [[], ["b"], ["b"]]
    assert record.metrics[1]["away"]["b"] == "its answer is not to what it was asked"
    assert not any(told(record))
    assert record.weights[1][:, 1].sum() == 0


PLAIN = st.recursive(st.none() | st.booleans() | st.integers(-1, 4) | st.text(max_size=3), st.lists)


@given(PLAIN, st.integers(0, 3))
def test_whatever_a_site_says_is_read_or_is_nonsense(answer, offers):
    found = withdrawn({"withdraws": answer}, offers)
    assert found is None or all(0 <= i < offers for i in found)
    assert all(withdrawn(nonsense, 3) is None for nonsense in NONSENSE)


# the site holds to it, whoever asks


def test_a_model_leaves_for_no_sum_that_was_not_offered():
    limits, rows = Limits(share_at_most=0.5), [[[7, ["w"]]], [[8, ["w"]]]]
    check_promised(Limits(), set(), "a", rows, "mix")
    check_promised(limits, {("a", 7), ("a", 8)}, "a", rows, "mix")
    for why in ("visit", "distances", "open"):
        check_promised(limits, set(), "a", rows, why)
    for promised in (set(), {("a", 7)}, {("b", 7), ("b", 8)}):
        for why in ("mix", None, "whatever"):
            with pytest.raises(Refused, match="for a sum of a that this site was not offered, or withdrew"):
                check_promised(limits, promised, "a", rows, why)
    with pytest.raises(Refused, match="a whole model for a to keep"):
        check_promised(limits, {("a", 7), ("a", 8)}, "a", rows, "copy")
    check_promised(Limits(leverage=0.5, share_at_most=1.0), {("", 7), ("", 8)}, "", rows, "mix")


@pytest.mark.parametrize(
    "change",
    [
        {"share": float("nan")},
        {"share": -0.1},
        {"share": 1.5},
        {"share": "0"},
        {"others": -1},
        {"others": 1.5},
        {"leverage": None},
        {"others": True},
    ],
)
def test_figures_that_are_none_are_refused(change):
    told = {"share": 0.1, "others": 5, "leverage": 0.1}
    assert objection_to(Limits(0.5, 3, 0.5), told) == ""
    with pytest.raises(Refused, match="which is none"):
        objection_to(Limits(0.5, 3, 0.5), {**told, **change})


@pytest.mark.parametrize("what", ["not offered", "withdrew"])
@pytest.mark.parametrize("method", ["fedavg", "d-psgd"])
def test_a_lead_that_goes_on_without_asking_gets_nothing(tmp_path, monkeypatch, what, method):
    """It does not ask, or asks and does not care: the site refuses to give, and takes no part any more."""
    room = Room(tmp_path, {"b": Policy(share_at_most=0.01)})
    if what == "not offered":
        monkeypatch.setattr("coterie.federation.lead.orders.limited", lambda net: set())
        monkeypatch.setattr("coterie.federation.lead.net.limited", lambda net: set())
    else:
        nothing = pack({"withdraws": []}, {})
        room.change = lambda name, message, said: nothing if message.get("do") == "offer" else said
    record = room.play(monkeypatch, rounds=1, method=method)
    assert "that this site was not offered, or withdrew from" in record.metrics[1]["away"]["b"]
    assert record.weights[1][:, 1].sum() == 0
    assert any(e["outcome"].startswith("refused: a model for a sum of") for e in room.diary("b"))


def test_helpers_refuse_sums_with_too_few_others():
    from test_helper import PARTIES, SITES
    from test_helper import Room as Sealed

    from coterie.federation.sealing.site import SealedSite

    room = Sealed()
    room.sites["n"] = SealedSite("n", PARTIES, room.cards.get, Limits(others_at_least=2))
    names = room.seal({site: [1.0, 2.0, 3.0] for site in SITES})
    room.judged(names)
    both = room.mix(names, [[1, 1, 0]], op="x")
    assert all("with 1 others than n, whose policy wants 2" in answer["text"] for answer, _ in both)
    assert all("error" not in answer for answer, _ in room.mix(names, [[1, 1, 1]], op="y"))
    assert all("error" not in answer for answer, _ in room.mix(names, [[0, 1, 1]], op="z"))


def test_the_three_keys_of_a_policy():
    assert not Policy().limits
    assert Policy(share_at_most=0.5, others_at_least=3, leverage=0.4).limits == Limits(0.5, 3, 0.4)
    for key, value in (("share_at_most", 0.0), ("others_at_least", -1), ("leverage", 2.0)):
        with pytest.raises(Exception, match=f"{key}={value:g} must"):
            Policy(**{key: value})
