"""People at a site say no, or have to say yes, before its models are in circles and sums of others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from room import Room, told_scores
from test_asking import on_one_machine, told

from coterie.cli.main import main
from coterie.core.wire import pack
from coterie.federation.lead import connector
from coterie.federation.lead.sites import meet
from coterie.federation.policy.keys import Policy
from coterie.federation.site.consent import OFFERS, Consent
from coterie.runs.folder import read_record
from coterie.storage import decisions

ALL_IN_ALL = {"ndoye": {"folds": 2, "passes": 1, "best": 0, "threshold": 1e9, "bar": "none"}}
CIRCLES = {"method": "ndoye", "options": ALL_IN_ALL}


def say(room, site, requester, allow):
    line = decisions.add(room.states[site], site, "veto", {"requester": requester, "allow": allow}, by="ann")
    return f"a person at {site} said no (ann, {line['time']})"


def offers(room, site):
    path = room.states[site] / OFFERS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pairs(some):
    return {(w["site"], w["receiver"], w["why"]) for w in some}


def test_a_no_keeps_a_site_out_of_a_circle(tmp_path, monkeypatch):
    room = Room(tmp_path)
    why = say(room, "c", "a", allow=False)
    record = room.play(monkeypatch, rounds=2, **CIRCLES)
    assert [pairs(some) for some in told(record)] == [set(), {("c", "a", why)}, set()]
    for weights in record.weights.values():
        assert weights[0, 2] == 0
        assert weights[1, 2] > 0
    assert any(f"withdrew from the circle of a: {why}" in line for line in room.said["c"])
    found = {o["requester"]: o["outcome"] for o in offers(room, "c")}
    assert found == {"a": why, "b": "joined", "d": "joined"}


def test_with_ask_nobody_joins_before_a_person_said_yes(tmp_path, monkeypatch):
    room = Room(tmp_path, {"c": Policy(circles="ask")})
    say(room, "c", "b", allow=True)
    first = room.play(monkeypatch, rounds=1, **CIRCLES)
    waits = "nobody at c has said yes yet: it is on its page"
    assert pairs(told(first)[1]) == {("c", "a", waits), ("c", "d", waits)}
    noted = {o["requester"]: o for o in offers(room, "c")}
    assert {name: o["outcome"] for name, o in noted.items()} == {"a": waits, "b": "joined", "d": waits}
    assert noted["a"] | {"run": "", "first": "", "last": ""} == {
        "requester": "a", "run": "", "lead": "lead", "site": "c", "share": pytest.approx(0.25, abs=0.01),
        "others": 2, "leverage": pytest.approx(1 / 3, abs=0.01), "outcome": waits, "first": "", "last": "",
    }  # fmt: skip
    say(room, "c", "a", allow=True)  # no restart: the requester starts again
    second = room.play(monkeypatch, rounds=2, **CIRCLES)
    assert pairs(told(second)[1]) == {("c", "d", waits)}
    assert second.weights[2][0, 2] > 0
    assert len(offers(room, "c")) == 6  # of two runs, however often it was asked in each
    say(room, "c", "a", allow=False)
    assert {w["receiver"] for w in told(room.play(monkeypatch, rounds=1, **CIRCLES))[1]} == {"a", "d"}


def test_a_no_holds_for_sums_of_methods_without_circles(tmp_path, monkeypatch):
    room = Room(tmp_path)
    why = say(room, "b", "a", allow=False)
    far = room.play(monkeypatch, method="d-psgd")
    near = on_one_machine(room, ("circle:of=a,without=b",), method="d-psgd")
    assert [pairs(some) for some in told(far)] == [set(), *[{("b", "a", why)}] * 3]
    for r, weights in near.weights.items():
        np.testing.assert_array_equal(far.weights[r], weights)
    assert [told_scores(m) for m in far.metrics] == [told_scores(m) for m in near.metrics]
    assert room.asked("b", "offer")
    assert not room.asked("c", "offer")
    assert [o["requester"] for o in offers(room, "b")] == ["a"]


def test_what_goes_to_a_server_is_not_for_any_requester(tmp_path, monkeypatch):
    room = Room(tmp_path, {"b": Policy(circles="ask")})
    assert not any(told(room.play(monkeypatch, rounds=1)))


@pytest.mark.parametrize("what", ["does not ask", "does not care"])
def test_a_lead_that_goes_on_all_the_same_gets_nothing(tmp_path, monkeypatch, what):
    room = Room(tmp_path)
    why = say(room, "b", "a", allow=False)
    if what == "does not ask":
        monkeypatch.setattr("coterie.federation.lead.net.limited", lambda net: set())
        monkeypatch.setattr("coterie.federation.lead.orders.limited", lambda net: set())
    else:
        room.change = lambda name, message, said: (
            pack({"withdraws": []}, {}) if message.get("do") == "offer" else said
        )
    record = room.play(monkeypatch, rounds=1, method="d-psgd")
    assert f"a model for a: {why}" in record.metrics[1]["away"]["b"]
    assert record.weights[1][:, 1].sum() == 0


def test_a_damaged_file_is_a_no_to_all(tmp_path):
    consent = Consent(tmp_path, "c")
    assert not consent.vetoes()
    assert consent.objection("a") == ""
    (tmp_path / decisions.FILE).write_text("{\n")
    assert consent.vetoes()
    assert consent.objection("a").startswith("nobody knows what people at c decided: line 1 of ")
    line = {"time": "2026-03-01T09:30:00+01:00", "by": "", "client": "", "kind": "veto", "requester": "a"}
    (tmp_path / decisions.FILE).write_text(json.dumps(line))
    assert "said no" in consent.objection("a")  # whatever is no yes
    assert consent.objection("b") == consent.objection("") == ""


def test_offers_do_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.federation.site.consent.MOST", 2)
    consent, figures = Consent(tmp_path, "c"), {"share": 0.5, "others": 1, "leverage": 1.0}
    for run in ("x", "y", "z", "y"):
        consent.note(run, "lead", [({"to": "a", **figures}, "")], again=True)
    assert [json.loads(line)["run"] for line in (tmp_path / OFFERS).read_text().splitlines()] == ["z", "y"]


def test_again_over_a_federation_asks_the_sites_that_are_left(tmp_path, monkeypatch, capsys):
    room, run, new = Room(tmp_path), tmp_path / "run", tmp_path / "new"
    room.play(monkeypatch, run, rounds=1, method="d-psgd")
    assert read_record(run).about["columns"] == ["age", "pulse", "weight"]
    monkeypatch.setattr(
        connector.Federation, "meet", lambda net, rule: meet(room.lines, rule, net.sites, 1, 0.0, print)
    )
    decided = ["--leave-out", "d", "--circle", "b", "--forbid", "pulse"]
    assert main(["decide", str(run), "--client", "a", *decided]) == 0
    assert main(["again", str(run), "--client", "a", "--out", str(new)]) == 0
    record = read_record(new)
    assert record.clients == ["a", "b", "c"]
    assert record.about["features"] == ["age", "weight"]
    assert record.config["wrap"] == ["circle:of=a,among=a+b"]
    assert (record.weights[1][0] > 0).tolist() == [True, True, False]
    assert main(["decide", str(run), "--client", "a", "--threshold", "yes=0.3"]) == 2
    assert "use the model at a site" in capsys.readouterr().err


def test_a_person_answers_by_the_kit_of_the_site(tmp_path, capsys):
    room = Room(tmp_path)
    kit = room.kits["b"].folder
    assert main(["decide", str(kit), "--refuse", "a", "--by", "ann"]) == 0
    assert capsys.readouterr().out == "b is in no circle of a\n"
    assert "said no (ann" in Consent(kit / "state", "b").objection("a")
    assert main(["decide", str(kit / "state"), "--allow", "a"]) == 0
    assert Consent(kit / "state", "b", "ask").objection("a") == ""
    for words, said in (
        (["--leave-out", "a"], "a partner is decided of a run: name the folder of one"),
        (["--refuse", "b"], "requester 'b' is the client itself"),
        (["--refuse", "no such name!"], "must be 1 to 63 letters"),
        (["--client", "a", "--refuse", "c"], "unknown client 'a'"),
    ):
        assert main(["decide", str(kit), *words]) == 2
        assert said in capsys.readouterr().err
    assert main(["decide", str(room.kits["lead"].folder), "--refuse", "a"]) == 2
    assert "is the kit of a lead: give that of a site" in capsys.readouterr().err
