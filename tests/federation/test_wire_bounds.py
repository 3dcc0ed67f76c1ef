"""Somebody with a genuine kit sends what is too much: a party holds no more of it than it said beforehand.

Each attack is played by a line of one's own making, over a real relay; what is counted is what the party
holds.
"""

import contextlib
import itertools
import os
import queue
import threading
import time

import pytest
from msgspec import msgpack
from parties import Ward, until

from coterie.federation.kits.authority import revoke
from coterie.federation.transport import assembly as assemblies
from coterie.federation.transport import connection
from coterie.federation.transport import inbox as inboxes
from coterie.federation.transport import line as drivers
from coterie.federation.transport import post as posts
from coterie.federation.transport import relay as relays
from coterie.federation.transport.assembly import (
    ENVELOPE,
    LATER,
    LEAST_TOGETHER,
    MOST_SHORT,
    TOGETHER,
    Quota,
    bound,
)
from coterie.federation.transport.connection import PART, Kind, frame_of
from coterie.federation.transport.encryption import decrypt, encrypt
from coterie.federation.transport.line import Line
from coterie.federation.transport.post import Post
from coterie.federation.transport.tls import Unreachable, client_context, dial

MOST = 1_000_000  # as a policy's max_bytes


class Attacker:
    """A genuine kit, and frames of one's own making for site a."""

    def __init__(self, ward, name="lead"):
        self.kit, self.site = ward.kits[name], ward.site
        self.got, self.ids = queue.Queue(), itertools.count(1)
        connected = threading.Event()
        about = {"boot": f"boot of {name}", "version": "1"}
        self.line = Line(self.kit, self.take, lambda on, why: connected.set(), about)
        self.line.start()
        assert connected.wait(5)
        until(lambda: name in ward.site.members())

    def take(self, header, body):
        if header.get("from") == "a":
            self.got.put((header, decrypt(self.kit, self.site.kit.card, bound(header), body).decode()))

    def header(self, kind="ask", **more):
        ends = {"from": self.kit.name, "to": "a", "boot": self.site.boot, "mine": f"boot of {self.kit.name}"}
        return {**ends, "kind": kind, "number": next(self.ids), **more}

    def begin(self, size, first=1000, kind="ask", **more):
        """The first part of a message that announces so many bytes; its header."""
        header = self.header(kind, **more)
        self.part({**header, "id": header["number"], "at": 0, "size": size}, bytes(first))
        return header

    def part(self, header, body):
        self.line._connection.put(frame_of(Kind.DATA, header, body))

    def ask(self, body, kind="ask"):
        header = self.header(kind)
        self.line.send(header, encrypt(self.kit, self.site.kit.card, bound(header), body))
        return header

    def refusal(self):
        header, text = self.got.get(timeout=5)
        assert header["kind"] == "refusal"
        return text

    def settled(self):
        """Returns when all that was sent before has arrived: a line goes in order."""
        self.line.send(self.header("ask", boot="of nobody"), b"x")
        assert "meant for an earlier start" in self.refusal()


@pytest.fixture
def ward(tmp_path, monkeypatch):
    monkeypatch.setattr(inboxes, "TICK", 0.05)
    made = Ward(tmp_path / "ward")
    made.go, made.done = threading.Event(), []

    def answer(card, header, body):
        made.done.append(len(body))
        made.go.wait(20)
        return b"done"

    made.site = Post(made.kits["a"], answer, made.lines.append, most=MOST)
    made.site.on_peer_message(lambda card, header, body: answer(card, header, body))
    made.stack.callback(made.site.close)
    made.site.start(10)
    yield made
    made.go.set()
    made.close()


@pytest.mark.parametrize(("kind", "who"), [("ask", "lead"), ("letter", "b")])
def test_what_announces_too_much_is_refused_at_its_first_frame(ward, kind, who):
    attacker = Attacker(ward, who)
    for size in (700 << 20, 2 << 30, MOST + ENVELOPE + 1):
        attacker.begin(size, PART, kind)
        assert f"{size} bytes in a message, of at most {MOST}" in attacker.refusal()
        assert ward.site.assembly.held == ward.site.inbox.quota.held == 0
    header = attacker.begin(700 << 20, PART, kind)
    for at in range(PART, 20 * PART, PART):  # and goes on, whatever it hears
        attacker.part({**header, "id": header["number"], "at": at, "size": 700 << 20}, bytes(PART))
    attacker.refusal()
    assert ward.site.assembly.held == 0


@pytest.mark.parametrize(("kind", "who"), [("ask", "lead"), ("letter", "b")])
def test_unfinished_messages_of_a_sender_stay_together_within_what_one_may_have(ward, kind, who):
    attacker = Attacker(ward, who)
    attacker.begin(900_000, 500_000, kind)
    attacker.begin(900_000, 500_000, kind)
    assert attacker.refusal().endswith(LATER)
    until(lambda: ward.site.assembly.held == 500_000)
    assert ward.site.inbox.quota.held == 900_000
    attacker.line.close()
    until(lambda: ward.site.inbox.quota.held == 0)
    assert ward.site.assembly.held == 0, "the sender has left"


def test_many_small_unfinished_messages_are_few(ward):
    attacker = Attacker(ward)
    for _ in range(500):
        attacker.begin(2_000, 1_000)
    until(lambda: len(ward.site.assembly.open) == assemblies.MOST_OPEN)
    attacker.settled()
    assert ward.site.assembly.held <= assemblies.MOST_OPEN * 1_000
    assert ward.site.inbox.quota.held <= assemblies.MOST_OPEN * 2_000


def test_a_message_that_grows_beyond_what_it_announced_is_dropped(ward):
    attacker = Attacker(ward)
    header = attacker.begin(MOST, 400_000)
    more = {**header, "id": header["number"], "size": MOST}
    attacker.part({**more, "at": 400_000}, bytes(700_000))
    attacker.settled()
    assert ward.site.assembly.held == ward.site.inbox.quota.held == 0


def test_a_message_that_drips_is_dropped_and_its_sender_is_told(ward, monkeypatch):
    monkeypatch.setattr(assemblies, "SLOW", 0.5)
    attacker = Attacker(ward)
    header = attacker.begin(900_000, 500_000)
    at = itertools.count(500_000)
    while attacker.got.empty():
        attacker.part({**header, "id": header["number"], "at": next(at), "size": 900_000}, b"x")
        time.sleep(0.05)
    assert "its parts come too slowly" in attacker.refusal()
    assert ward.site.assembly.held == ward.site.inbox.quota.held == 0


def test_questions_that_wait_count_as_well_and_go_with_their_sender(ward):
    attacker = Attacker(ward)
    attacker.ask(bytes(400_000))
    until(lambda: ward.done == [400_000])  # at work
    for _ in range(12):
        attacker.ask(bytes(400_000))
    assert attacker.refusal().endswith(LATER)
    assert 800_000 < ward.site.inbox.quota.held <= MOST + ENVELOPE
    attacker.line.close()
    until(lambda: ward.site.inbox.quota.held == 0)
    ward.go.set()
    mate = Attacker(ward, "mate")
    mate.ask(b"1")
    header, text = mate.got.get(timeout=5)
    assert (header["kind"], text, ward.done) == ("answer", "done", [400_000, 1]), "and no more of the first"


def test_whoever_is_revoked_holds_nothing(ward, monkeypatch):
    monkeypatch.setattr(relays, "LOOK", 0.05)
    attacker = Attacker(ward)
    attacker.ask(b"1")
    until(lambda: ward.done == [1])
    attacker.ask(bytes(300_000))
    attacker.begin(500_000, 200_000)
    until(lambda: ward.site.inbox.quota.held > 800_000)
    revoke(ward.folder, "lead")
    until(lambda: ward.site.inbox.quota.held == ward.site.assembly.held == 0)


def test_a_question_that_had_no_room_is_sent_again_and_done_once(ward, monkeypatch):
    monkeypatch.setattr(posts, "PAUSE", 0.1)
    ward.go.set()
    lead = ward.post("lead")
    ward.site.inbox.quota.take("lead", 900_000)  # as if something were on its way
    threading.Timer(0.5, ward.site.inbox.quota.give_back, ("lead", 900_000)).start()
    assert lead.ask({"a": bytes(500_000)}, 10)["a"] == b"done"
    assert ward.done == [500_000]
    ward.site.inbox.quota.take("lead", 900_000)
    found = lead.ask({"a": bytes(500_000)}, 0.5)["a"]
    assert found.why == "late"
    assert "it is full: 900000 bytes are unfinished or wait" in found.text


def test_an_honest_question_that_is_too_large_gets_a_line(ward):
    found = ward.post("lead").ask({"a": bytes(5 * PART)}, 10)["a"]
    assert found.why == "refused"
    assert found.lasting, "so that it is not sent again in every round"
    assert f"bytes in a message, of at most {MOST}: send less, or raise max_bytes there" in found.text
    assert ward.done == []


@pytest.mark.parametrize("kind", ["answer", "refusal", "note"])
def test_answers_to_nothing_are_not_put_together(ward, kind):
    attacker = Attacker(ward, "b")
    header = attacker.begin(MOST, 500_000, kind, boot=ward.site.boot)
    attacker.part({**header, "id": header["number"], "at": 500_000, "size": MOST}, bytes(100_000))
    attacker.line.close()
    until(lambda: "b" not in ward.site.members())
    assert ward.site.assembly.held == ward.site.reply_quota.held == 0


def test_an_answer_that_is_too_large_is_said_and_takes_no_memory(ward):
    """A site gets no long answers: what it sends is letters."""
    b = ward.post("b", say=lambda line: None)
    b.on_peer_message(lambda card, header, body: None)
    b.inbox.answers["letter"] = lambda card, header, body: bytes(2 * PART)
    with pytest.raises(Exception, match=f"its answer is not taken: .* of at most {MOST_SHORT}"):
        ward.site.send_to_peer("b", {}, b"x", 5)
    assert ward.site.assembly.held == 0


def test_a_call_is_short(ward):
    attacker = Attacker(ward)
    ward.site.on_call(lambda card, header, body: b"here", lambda: ("", ""))
    attacker.ask(bytes(MOST_SHORT + 1), "call")
    assert "bytes in a call" in attacker.refusal()
    attacker.begin(900_000, 1000, "call")
    assert "bytes in a call" in attacker.refusal()


def test_all_senders_together_are_bounded():
    quota = Quota(100 << 20)
    assert [quota.take(f"s{n}", 100 << 20) for n in range(TOGETHER)] == [""] * TOGETHER
    assert quota.take("one more", 1).endswith(LATER)
    assert quota.held == TOGETHER * (100 << 20) == quota.together
    quota.give_back("s3", 100 << 20)
    assert quota.take("one more", 1) == ""
    assert Quota(1000).together == LEAST_TOGETHER


def test_a_flood_of_refusals_keeps_nobody_else_from_an_answer(ward):
    attacker = Attacker(ward)
    ward.go.set()
    mate = ward.post("mate")
    stop = threading.Event()

    def flood():
        with contextlib.suppress(Unreachable):
            while not stop.is_set():
                attacker.begin(2 << 30, 10)

    threading.Thread(target=flood, daemon=True).start()
    try:
        until(lambda: attacker.got.qsize() > 20)
        for _ in range(5):
            assert mate.ask({"a": b"1"}, 5)["a"] == b"done"
    finally:
        stop.set()
    assert ward.site.assembly.held == 0


def test_many_small_frames_do_not_keep_a_receiver_s_queue_long(tmp_path, monkeypatch):
    """Each takes as long as one of some kilobytes: who comes after them must not wait for thousands."""
    monkeypatch.setattr(connection, "MOST_QUEUED", 1 << 20)
    ward = Ward(tmp_path / "ward")
    try:
        a, lead = ward.post("a", lambda card, header, body: body), ward.post("lead")
        until(lambda: "lead" in a.members())  # the relay's note of it must not be among what is not taken
        stop, take = threading.Event(), a._line._connection.take
        a._line._connection.take = lambda header, part: stop.wait(10)
        flood = {"to": "a", "kind": "refusal", "number": 1}

        def send():
            with contextlib.suppress(Unreachable):
                while not stop.is_set():
                    lead._line.send(flood, b"x")

        threading.Thread(target=send, daemon=True).start()
        held = ward.relay.hub._connections["a"]
        until(lambda: held._queued > 1 << 19)
        until(lambda: held._queued + connection.LIGHTEST > 1 << 20)
        assert len(held._out) <= (1 << 20) // connection.LIGHTEST
        a._line._connection.take = take
        stop.set()
        until(lambda: held._queued == 0)
        assert lead.ask({"a": b"still here"}, 5)["a"] == b"still here"
    finally:
        ward.close()


def test_who_reads_a_little_now_and_then_does_not_hold_up_others(tmp_path, monkeypatch):
    """A lead asks for much and takes it in drops: the site's line goes on, to others as well."""
    monkeypatch.setattr(drivers, "STALL", 1.0)
    monkeypatch.setattr(connection, "MOST_QUEUED", 2 * PART)
    ward = Ward(tmp_path / "ward")
    try:
        a, mate = ward.post("a", lambda card, header, body: body), ward.post("mate")
        sock, _ = dial(ward.kits["lead"], client_context(ward.kits["lead"]))
        sock.setblocking(True)
        hello = msgpack.encode({"endpoint_name": "lead", "timestamp": 0.0})
        sock.sendall(frame_of(Kind.HELLO, None, hello, app=0)[0])
        until(lambda: "lead" in ward.relay.members)
        stop = threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                while not stop.wait(0.05):
                    sock.recv(20_000)

        threading.Thread(target=drip, daemon=True).start()
        flood = {"to": "lead", "kind": "answer", "number": 1}

        def send():
            with contextlib.suppress(Unreachable):
                a._line.send(flood, os.urandom(40 * PART))

        threading.Thread(target=send, daemon=True).start()
        until(lambda: "lead" not in ward.relay.members, 15)
        assert mate.ask({"a": b"still here"}, 5)["a"] == b"still here"
        stop.set()
    finally:
        ward.close()
