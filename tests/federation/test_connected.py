"""`min_sites` counts certificates that are connected: names of a lead's own making lead nowhere."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from planned import plan_for
from room import Room

from coterie.core.errors import BadRun, Refused
from coterie.core.wire import pack, unpack
from coterie.federation.kits.authority import found_federation
from coterie.federation.kits.certificates import card_of, issue
from coterie.federation.kits.kit import read_key
from coterie.federation.plans.plan import signed_plan
from coterie.federation.policy.keys import Policy
from coterie.federation.site.connected_sites import ConnectedSites

GHOSTS = ("east", "north", "south", "west")
RUN = "f" * 32


class Attack:
    """A lead with a genuine kit, after an honest run of a, b and c: it begins one more at a as it likes."""

    def __init__(self, folder, monkeypatch, policy) -> None:
        self.room = Room(folder, {"a": policy}, names=("a", "b", "c"), helpers=("ada", "ben", "tom"), rows=40)
        self.bodies, station = [], self.room.stations["a"]
        plain = station.answer

        def heard(sender, header, body):
            self.bodies.append(bytes(body))
            return plain(sender, header, body)

        monkeypatch.setattr(station, "answer", heard)
        self.record = self.room.play(monkeypatch, rounds=1)
        monkeypatch.setattr(station, "answer", plain)
        self.station = station

    def message(self, do):
        """The first of a kind, as the honest lead sent it."""
        return next((m, t) for m, t in map(unpack, self.bodies) if m.get("do") == do)

    def asks(self, message, tensors=None) -> str:
        """What a says of it, if it refuses."""
        answer, _ = unpack(self.station.answer(self.room.kits["lead"].card, {}, pack(message, tensors or {})))
        return answer.get("text", "") if "error" in answer else ""

    def begins(self, sites, run=RUN) -> str:
        begin = self.message("begin")[0]
        work = {**begin["work"], "sites": len(set(sites) | {"a"})}
        told = {**begin, "run": run, "sites": list(sites), "work": work}
        told["plan"] = signed_plan(self.room.kits["lead"], run, plan_for(told))
        return self.asks(told)

    def does(self, do) -> str:
        message, tensors = self.message(do)
        return self.asks({**message, "run": RUN}, tensors)


@pytest.fixture
def attack(tmp_path, monkeypatch):
    return lambda least=2: Attack(tmp_path, monkeypatch, Policy(min_sites=least))


def few(here, named, least):
    return (
        f"{here} of the {named} sites that this run names are connected, below the policy's {least}: wait "
        "for more, or lower min_sites"
    )


def test_an_honest_run_is_taken_and_one_that_waits_for_somebody_too(attack):
    lead = attack(least=3)
    assert not lead.record.metrics[1].get("away")
    assert lead.begins(["a", "b", "c"]) == ""
    lead.asks({"do": "end", "run": RUN})
    assert lead.begins(["a", "b", "c", "late"], "e" * 32) == ""


@pytest.mark.parametrize(
    "sites", [("a", *GHOSTS), ("a", "b", *GHOSTS), ("a", "b", "c\u200b"), ("a", "B\u0301", "b")]
)
def test_sites_that_do_not_exist_do_not_count(attack, sites):
    lead = attack(least=3)
    assert lead.begins(sites) == few(2 if "b" in sites else 1, len(sites), 3)
    assert lead.station.session is None


@pytest.mark.parametrize(
    ("sites", "says"),
    [
        (("a", "b", "ada"), "'ada' is a helper, and this run has it among its sites"),
        (("a", "b", "lead"), "'lead' is a lead, and this run has it among its sites"),
        (("a", "b", "coordinator"), "'coordinator' is a coordinator"),
        (("a", "b", "B"), "a run that names a site twice"),
        (("a", "A", "b"), "a run that names a site twice"),
        (("a", "b", "b"), "a run that names a site twice"),
        (("b", "c", "d"), "a run that does not name 'a'"),
    ],
)
def test_who_is_no_site_is_not_named_as_one(attack, sites, says):
    assert says in attack().begins(sites)


def test_who_leaves_right_after_the_beginning_counts_no_more(attack):
    lead = attack(least=3)
    assert lead.begins(["a", "b", "c"]) == ""
    lead.room.gone = {"c"}
    for do in ("visit", "give"):
        assert lead.does(do) == few(2, 3, 3)
    lead.room.gone = set()
    assert lead.does("visit") == ""


def test_a_run_that_ends_and_begins_again_has_had_its_visits(attack):
    lead = attack()
    lead.begins(["a", "b", "c"])
    assert lead.does("visit") == ""
    had = lead.station.session.visits
    assert had > 0
    lead.asks({"do": "end", "run": RUN})
    lead.begins(["a", "b", "c"])
    assert lead.station.session.visits == had


def test_a_letter_goes_to_no_person(attack):
    """One who was away when the run began, and is a lead by now."""
    lead = attack()
    assert lead.begins(["a", "b", "mate"]) == ""
    lead.room.kits["mate"] = replace(lead.room.kits["lead"])
    order = {"to": "mate", "rows": [], "new": [], "why": "mix"}
    asked = {"do": "letters", "orders": [order], "run": RUN, "deadline": 1.0, "patience": 1.0}
    assert "'mate' is a lead" in lead.asks(asked)


def test_cards_count_once_and_of_this_federation_alone(tmp_path):
    kits = {kit.name: kit for kit in found_federation(tmp_path / "ward", ("a", "b", "c"))}
    far = {kit.name: kit for kit in found_federation(tmp_path / "far", ("d",))}
    cards = {name: kit.card for name, kit in (kits | far).items()}
    cards["twin"] = cards["b"]
    cards["self"] = cards["a"]
    sites = ["a", "b", "twin", "self", "d", "late"]
    company = ConnectedSites("a", sites, cards.get, kits["a"])
    assert company.here() == {"b"}
    company.check(2)
    with pytest.raises(BadRun, match="2 of the 6 sites"):
        company.check(3)
    for sites in ("abc", [["a"], "b"], None, {"a": 1}):
        with pytest.raises(Refused, match="no list of names"):
            ConnectedSites("a", sites, cards.get, kits["a"])


def test_a_key_that_has_two_certificates_is_one_site(tmp_path):
    kits = {kit.name: kit for kit in found_federation(tmp_path / "ward", ("a", "b", "c"))}
    cards = {name: kit.card for name, kit in kits.items()}
    authority = tmp_path / "ward" / "authority"
    pem, key = (authority / "ca.crt").read_bytes(), read_key(authority / "ca.key")
    cards["c"] = card_of(issue(pem, key, "c", "site", cards["b"].public_key), pem)
    assert cards["c"].serial != cards["b"].serial
    assert len(ConnectedSites("a", ["a", "b", "c"], cards.get, kits["a"]).here()) == 1


def test_an_offer_counts_nobody_who_was_never_here(tmp_path):
    """`others` of an offer is a number that a lead writes, too."""
    kits = {kit.name: kit for kit in found_federation(tmp_path / "ward", ("a", "b", "c"))}
    cards = {name: kit.card for name, kit in kits.items()}
    company = ConnectedSites("a", ["a", "b", "c", *GHOSTS], cards.get, kits["a"])
    offer = {"to": "", "ids": [], "share": 0.1, "others": 6, "leverage": 0.1}
    assert company.bounded(offer)["others"] == 2
    assert company.bounded({**offer, "to": "b"})["others"] == 1
    assert company.bounded({**offer, "others": 1})["others"] == 1
    del cards["c"]  # its model may still be in a sum
    assert company.bounded(offer)["others"] == 2


def test_a_run_waits_for_who_is_away_for_a_moment_and_goes_on(tmp_path, monkeypatch, caplog):
    """All three are needed: nothing is done without one of them, and the figures are those of a calm run."""
    records = {}
    for place in ("calm", "between rounds", "within one"):
        (tmp_path / place).mkdir()
        strict = dict.fromkeys(("a", "b", "c"), Policy(min_sites=3))
        room = Room(tmp_path / place, strict, names=("a", "b", "c"), rows=40)
        left = []

        def leave(room=room, left=left):
            if not left:
                left.append(room.gone.update({"c"}))
                threading.Timer(0.5, room.gone.clear).start()

        def within(name, message, answer, leave=leave):
            if (name, message.get("do")) == ("a", "visit") and message["key"]["round"] == 2:
                leave()
            return answer

        def between(record, leave=leave):
            if record.done == 1:
                leave()

        room.change = within if place == "within one" else room.change
        least = 3 if place == "within one" else 1  # who breaks a round rests, and so does who refuses in it
        federation = {"kit": str(room.kits["lead"].folder), "wait": 30.0, "least": least, "squeeze": "none"}
        more = {"watch": between} if place == "between rounds" else {}
        caplog.clear()
        found = room.play(monkeypatch, rounds=3, options={"federation": federation}, **more)
        records[place] = [(line["scores"], line.get("train_loss")) for line in found.metrics]
        assert ("waiting for sites (" in caplog.text) == bool(left) == (place != "calm")
    assert records["calm"] == records["between rounds"] == records["within one"]
    assert any("below the policy's 3" in line for line in room.said["b"])
