"""A site that works for one lead, or hangs, is named as such to another, who is not left without a word."""

import threading
import time
from types import SimpleNamespace

import pytest
from parties import Switch, Ward, until
from room import Room

from coterie.cli.federation import at_work_of
from coterie.core.errors import Several
from coterie.core.wire import pack, unpack
from coterie.federation.lead.net import Federated
from coterie.federation.lead.sites import Lines, Rule, meet
from coterie.federation.site import server
from coterie.federation.transport import inbox
from coterie.federation.transport import post as posts
from coterie.federation.transport.post import Missing

HELLO, PING, VISIT = (pack({"do": do}, {}) for do in ("hello", "ping", "visit"))
RULE = Rule(0.3, 0.0, 0, False)


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return Ward(tmp_path_factory.mktemp("busy") / "ward", relay=False).kits


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(inbox, "TICK", 0.02)
    monkeypatch.setattr(inbox, "MOMENT", 0.1)
    monkeypatch.setattr(inbox, "AGAIN", 0.2)


@pytest.fixture
def station(tmp_path):
    return Room(tmp_path).stations["a"]


class Wedged:
    """Site a of a real station, which does not come to the end of what `lead` asks; `mate` comes later."""

    def __init__(self, kits, station):
        self.go, self.begun, self.said, self.station = threading.Event(), threading.Event(), [], station
        answer = station._answer

        def slow(leader, message, body):
            if message["do"] == "visit":
                self.begun.set()
                self.go.wait(20)
                return pack({}, {})
            return answer(leader, message, body)

        station._answer = slow
        switch = Switch(kits)
        self.switch, self.site = switch, switch.post("a", station.answer)
        self.site.on_call(station.call, station.turns.busy)
        self.lead = switch.post("lead", None, self.said.append)
        self.mate = switch.post("mate", None, self.said.append)
        self.work = threading.Thread(target=self.lead.ask, args=({"a": VISIT}, 20), daemon=True)
        self.work.start()
        assert self.begun.wait(5)

    def close(self):
        self.go.set()
        for post in (self.site, self.lead, self.mate):
            post.close()


@pytest.fixture
def wedged(kits, station):
    made = Wedged(kits, station)
    yield made
    made.close()


def test_another_lead_hears_at_once_for_whom_a_site_works(wedged):
    found = wedged.mate.ask({"a": HELLO}, 1.0)["a"]
    assert found.why == "late"
    assert found.text.startswith("a has not answered in time: it is busy: a visit of lead since ")
    assert [line for line in wedged.said if line.startswith("a is busy: a visit of lead since")]
    assert len([line for line in wedged.said if "busy" in line]) == 1, "and not to whose work it is"


def test_a_question_that_waited_is_done_once_when_the_site_is_free(wedged):
    threading.Timer(0.5, wedged.go.set).start()
    answer, _ = unpack(wedged.mate.ask({"a": HELLO}, 10)["a"])
    assert "hello" in answer
    assert any("busy" in line for line in wedged.said)


def test_a_ping_is_answered_while_work_goes_on_to_both_leads(wedged, monkeypatch):
    monkeypatch.setattr(server, "MOMENT", 0.1)
    for post in (wedged.lead, wedged.mate):
        start = time.monotonic()
        answer, _ = unpack(post.call({"a": PING}, 5)["a"])
        assert answer["busy"].startswith("busy: a visit of lead since ")
        assert time.monotonic() - start < 2
    assert unpack(wedged.mate.ask({"a": PING}, 5)["a"])[0]["busy"]
    said = at_work_of(wedged.mate, ["a"])
    assert said["a"].startswith("; busy: a visit of lead since ")
    wedged.go.set()
    wedged.work.join(5)
    assert unpack(wedged.mate.call({"a": PING}, 5)["a"]) == ({}, {})
    assert at_work_of(wedged.mate, ["a"]) == {"a": ""}


def test_nothing_else_can_be_asked_past_the_work(wedged):
    found = wedged.mate.call({"a": HELLO}, 5)["a"]
    assert found.why == "refused"
    assert "only ping, cancel can be asked while work goes on" in found.text


def test_a_site_that_hangs_is_named_while_it_is_waited_for(kits, monkeypatch):
    """Its process is connected and says nothing at all."""
    monkeypatch.setattr(posts, "QUIET", 0.3)
    switch, said = Switch(kits), []
    switch.post("a", lambda card, header, body: body)
    lead = switch.post("lead", None, said.append)
    switch.tamper = lambda header, body: []
    waiting = threading.Thread(target=lead.ask, args=({"a": HELLO}, 1.5), daemon=True)
    waiting.start()
    until(lambda: said)
    assert waiting.is_alive()
    assert said[0].startswith("a is connected but has not answered for ")
    waiting.join()
    assert lead.ask({"a": HELLO}, 0.5)["a"].text.startswith("a is connected but has not answered for ")
    assert lead.ask({"a": HELLO}, 0.1)["a"] == Missing("a", "late", "a has not answered in time")


class Silent:
    """A room in which some say nothing, and why."""

    def __init__(self, room, why):
        self.room, self.why = room, why

    def members(self):
        return self.room.members()

    def ask(self, messages, deadline, patience=1.0, numbers=None, waits=None):
        there = {name: body for name, body in messages.items() if name not in self.why}
        gone = {n: Missing(n, "late", self.why[n]) for n in messages if n in self.why}
        return self.room.ask(there, deadline) | gone


def silent_lines(room, why):
    lines = Lines.__new__(Lines)
    lines.kit, lines.post = room.kits["lead"], Silent(room, why)
    return lines


def test_a_meeting_names_who_is_busy_and_goes_on_without_it(tmp_path):
    room, said = Room(tmp_path), []
    why = "c has not answered in time: it is busy: a visit of anna since 61 s"
    met = meet(silent_lines(room, {"c": why}), RULE, (), 2, 0.0, said.append)
    assert "c" not in met.roster.names
    assert f"site c: {why}; the run begins without it" in said
    assert f"site c: {why}" in met.notes
    named = meet(silent_lines(room, {"c": why}), RULE, room.names, 2, 0.0, said.append)
    assert f"site c: {why}: it joins when it comes" in named.notes
    everybody = dict.fromkeys(room.names, "busy: a visit of anna since 61 s")
    with pytest.raises(Several, match="site a: busy: a visit of anna since 61 s"):
        meet(silent_lines(room, everybody), RULE, (), 2, 0.0, said.append)


def test_a_run_does_not_wait_a_second_time_for_who_is_busy_for_another():
    asked = []

    def ask(messages, *seconds):
        asked.append(messages)
        return {"a": {}, "b": {"busy": "busy: a visit of anna since 9 s\x1b[2J"}}, {}

    net = Federated.__new__(Federated)
    net.met = SimpleNamespace(lines=SimpleNamespace(ask=ask))
    net.post = SimpleNamespace(silent={}, roster=SimpleNamespace(names=["a", "b"]))
    assert net._asleep([0, 1]) == {1}
    assert net.post.silent == {1: "busy: a visit of anna since 9 s [2J"}, "which is why it is away"
    assert asked == [{"a": {"do": "ping"}, "b": {"do": "ping"}}]
