"""The relay: knows who is here, passes on what it may, and survives whatever a party sends."""

import contextlib
import itertools
import json
import os
import queue
import random
import time

import msgspec
import pytest
from msgspec import MsgspecError, msgpack
from parties import Ward, until

from coterie.core.errors import BadInput
from coterie.federation.kits.authority import revoke
from coterie.federation.transport import connection
from coterie.federation.transport import relay as relays
from coterie.federation.transport.assembly import wrong
from coterie.federation.transport.connection import PART, PREFIX, Kind, frame_of
from coterie.federation.transport.line import Line
from coterie.federation.transport.relay import Relay
from coterie.federation.transport.tls import client_context, dial


@pytest.fixture
def ward(tmp_path):
    made = Ward(tmp_path / "ward")
    yield made
    made.close()


def test_who_is_here_is_told_to_all_who_watch(ward):
    told = queue.Queue()
    anna = ward.post("anna")
    anna.watch(lambda name, here: told.put((name, here)))
    a = ward.post("a", lambda card, header, body: body)
    assert told.get(timeout=5) == ("a", True)
    assert set(anna.members()) == set(a.members()) == {"anna", "a"}
    member = anna.members()["a"]
    assert (member.card.role, member.boot) == ("site", a.boot)
    assert abs(member.since - time.time()) < 60
    assert ward.relay.members["a"].address.startswith("127.0.0.1:")
    a.close()
    assert told.get(timeout=5) == ("a", False)
    assert ward.lines[:2] == [
        f"anna (viewer) is here, from {ward.relay.members['anna'].address}",
        next(line for line in ward.lines if line.startswith("a (site) is here")),
    ]
    until(lambda: "a has left" in ward.lines)
    written = (ward.folder / "coordinator" / "relay.log").read_text()
    assert [line.split(" ", 2)[2] for line in written.splitlines()] == ward.lines


def test_questions_and_letters_pass_and_a_viewer_sends_none(ward):
    a = ward.post("a", lambda card, header, body: card.name.encode() + body)
    b, taken = ward.post("b"), queue.Queue()
    b.on_peer_message(lambda card, header, body: taken.put((card.name, header, body)))
    lead = ward.post("lead")
    body = os.urandom(3 * PART)
    assert lead.ask({"a": body}, 10)["a"] == b"lead" + body
    a.send_to_peer("b", {"x": 1}, body, 10)
    assert taken.get(timeout=1) == ("a", {"x": 1}, body)
    anna = ward.post("anna")
    for header in ({"to": "a", "kind": "ask"}, {"to": "a", "kind": "answer"}, {"to": "", "kind": "secrets"}):
        anna._line.send(header)
    until(lambda: sum("of anna is dropped" in line for line in ward.lines) == 3)


def test_what_is_for_a_name_that_is_not_here_goes_nowhere(ward):
    got = queue.Queue()
    line = Line(ward.kits["lead"], lambda h, b: got.put((h, json.loads(b))), lambda c, w: got.put(c))
    line.start()
    first = [got.get(timeout=5), got.get(timeout=5)]
    assert True in first
    assert {"kind": "members", "from": "", "to": "lead"} in [one[0] for one in first if one is not True]
    line.send({"to": "c", "kind": "ask", "number": 7}, b"x")
    ward.post("b")
    header, member = got.get(timeout=5)
    assert (header["kind"], member["name"]) == ("arrived", "b")
    assert got.empty()
    line.close()


def test_of_two_with_one_kit_the_first_stays_while_it_is_alive(ward, monkeypatch):
    first, said = ward.post("a"), queue.Queue()
    second = ward.post("a", start=False, say=said.put)
    second._line.start()
    line = said.get(timeout=5)
    assert f"a is already connected from {ward.relay.members['a'].address}: end that one first" in line
    assert ward.relay.members["a"].boot == first.boot
    monkeypatch.setattr(relays, "PING", 0.2)
    ward.relay.hub._connections["a"].alive = lambda seconds: False
    until(lambda: ward.relay.members.get("a") and ward.relay.members["a"].boot == second.boot)
    assert sum("refused a from" in line for line in ward.lines) == 1, "said once"


def test_whoever_is_revoked_is_hung_up_on_and_stays_out(ward, monkeypatch):
    monkeypatch.setattr(relays, "LOOK", 0.05)
    ward.close()
    ward.lines.clear()
    ward.open()
    a, said = ward.post("a"), queue.Queue()
    a.say = said.put
    b = ward.post("b")
    (ward.folder / "coordinator" / "revoked.json").write_text("{}")
    until(lambda: any("cannot be read, the last one holds" in line for line in ward.lines))
    assert set(ward.relay.members) == {"a", "b"}
    revoke(ward.folder, "a")
    assert "the certificate of a is revoked" in said.get(timeout=5)
    until(lambda: b.presence.revoked.number == 1)
    assert ward.kits["a"].card.serial in b.presence.revoked.serials
    until(lambda: any(line.startswith("refused a from") for line in ward.lines))
    assert set(ward.relay.members) == {"b"}
    assert ward.post("c").presence.revoked.number == 1, "who comes later gets the list"


def test_a_screen_or_a_disk_that_takes_nothing_ends_no_connection(tmp_path):
    def screen(line):
        raise BrokenPipeError

    ward = Ward(tmp_path / "ward", relay=False)
    (ward.folder / "coordinator" / "relay.log").mkdir()
    ward.relay = Relay(ward.kits["coordinator"], screen, "127.0.0.1", 0)
    ward.relay.start()
    ward.port(ward.relay.address[1])
    assert set(ward.post("a", say=screen).members()) == {"a"}
    ward.close()


def test_a_list_of_revoked_certificates_that_cannot_be_read_lets_nobody_in(ward):
    (ward.folder / "coordinator" / "revoked.json").write_text("{}")
    with pytest.raises(Exception, match="not signed by the authority"):
        Relay(ward.kits["coordinator"], port=0)
    with pytest.raises(BadInput, match="is the kit of a site"):
        Relay(ward.kits["a"])


HEADERS = [
    ({"to": "a", "kind": "ask"}, ""),
    ({"to": "", "kind": "watch", "number": 3, "id": 1, "at": 0, "size": 5, "boot": "x", "mine": "y"}, ""),
    ({"to": "a"}, "missing required field `kind`"),
    ({"kind": "ask"}, "missing required field `to`"),
    ({"to": "a", "kind": "ask", "path": "/etc"}, "unknown field `path`"),
    ({"to": 3, "kind": "ask"}, "Expected `str`, got `int` - at `$.to`"),
    ({"to": "a" * 200, "kind": "ask"}, "Expected `str` of length <= 128"),
    ({"to": "a", "kind": ["ask"]}, "Expected `str`, got `array` - at `$.kind`"),
    ({"to": "a", "kind": "ask", "number": -1}, "Expected `int` >= 0 - at `$.number`"),
    ({"to": "a", "kind": "ask", "number": True}, "Expected `int`, got `bool` - at `$.number`"),
    ({"to": "a", "kind": "ask", "at": 1.5}, "Expected `int`, got `float` - at `$.at`"),
    ({"to": "a", "kind": "ask", "size": (2 << 30) + 1}, "of at most 2147483648"),
]


@pytest.mark.parametrize(("header", "why"), HEADERS)
def test_headers(header, why):
    assert why in wrong(header, 5)
    assert bool(wrong(header, 5)) == bool(why)


def fuzzed(seed):
    """Frames as a party gone wild may send them: most are frames, and their headers tables."""
    draw = random.Random(seed)
    values = [
        0,
        -1,
        1 << 70,
        2.5,
        "",
        "a",
        "b",
        "lead",
        "é" * 99,
        None,
        True,
        b"\xff",
        [],
        {"x": [1]},
        "\x1b[2J",
    ]
    keys = ["to", "from", "kind", "number", "id", "at", "size", "boot", "mine", "path", "\n"]
    kinds = ["ask", "letter", "answer", "refusal", "watch", "members", "revoked", "left"]
    while True:
        header = {key: draw.choice(values) for key in draw.sample(keys, draw.randrange(len(keys)))}
        if draw.random() < 0.7:
            header |= {"to": draw.choice(["", "a", "b", "zoe"]), "kind": draw.choice(kinds)}
        if draw.random() < 0.3:
            header |= {"id": draw.randrange(9), "at": draw.choice([0, 5]), "size": draw.choice([9, 1 << 30])}
        try:
            told = msgpack.encode(header)
        except OverflowError:
            continue
        if draw.random() < 0.002:
            told = draw.randbytes(len(told))
        body = draw.randbytes(draw.randrange(64))
        kind = draw.choices([Kind.DATA, Kind.PING, Kind.PONG, draw.randrange(256)], [90, 4, 4, 0.1])[0]
        length = 16 + len(told) + len(body) if draw.random() < 0.999 else draw.randrange(1 << 32)
        yield PREFIX.pack(length, len(told), kind, 0, 0, 17, 0, 0) + told + body


def test_who_pings_and_does_not_listen_fills_no_memory(ward, monkeypatch):
    monkeypatch.setattr(connection, "MOST_QUEUED", 1 << 16)
    sock, _ = dial(ward.kits["b"], client_context(ward.kits["b"]))
    sock.setblocking(True)
    sock.settimeout(0.5)
    hello = frame_of(Kind.HELLO, None, msgpack.encode({"endpoint_name": "b", "timestamp": 0.0}), app=0)[0]
    sock.sendall(hello)
    pings = frame_of(Kind.PING, None, app=0)[0] * 1000
    with contextlib.suppress(TimeoutError):
        for _ in range(1_000):
            sock.sendall(pings)
    assert ward.relay.hub._connections["b"]._queued < 1 << 17
    sock.close()


def memory():
    """Megabytes that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_thousands_of_strange_frames_leave_a_relay_and_the_others_as_they_were(ward):
    a = ward.post("a", lambda card, header, body: body)
    lead = ward.post("lead")
    frames, kit, context = fuzzed(1), ward.kits["b"], client_context(ward.kits["b"])
    hello = frame_of(Kind.HELLO, None, msgpack.encode({"endpoint_name": "b", "timestamp": 0.0}), app=0)[0]
    receive, got, lines, before = ward.relay.hub.receive, [0], 0, memory()

    def count(name, header, part):
        got[0] += name == "b"
        receive(name, header, part)

    ward.relay.hub.receive = count
    while got[0] < 4_000:
        sock, _ = dial(kit, context)
        sock.setblocking(True)
        sock.settimeout(5)
        lines += 1
        with contextlib.suppress(OSError):
            sock.sendall(hello)
            assert sock.recv(16), "it is greeted"
            for _ in range(100):
                sock.sendall(b"".join(next(frames) for _ in range(10)))
        sock.close()
        until(lambda: "b" not in ward.relay.members)
    assert lead.ask({"a": b"still here"}, 5)["a"] == b"still here"
    assert a.presence.turns == lead.presence.turns == 1, "nobody else has lost the line"
    assert len(ward.lines) < 3 * lines + 200, "and the screen is not flooded"
    assert memory() - before < 50


def test_thousands_of_strange_messages_leave_a_post_as_it_was(ward):
    """As a relay gone wild may send them."""
    asked, before = [], memory()
    a = ward.post("a", lambda card, header, body: asked.append(body) or body, say=lambda line: None)
    lead = ward.post("lead", say=lambda line: None)
    draw = random.Random(2)
    bodies = [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b'{"name": 3}',
        b"[" * 9999,
        b'[{"name": "b", "card": "x"}]',
        b"\xff",
    ]
    for frame in itertools.islice(fuzzed(2), 12_000):
        with contextlib.suppress(ValueError, MsgspecError):
            header = msgpack.decode(frame[16 : 16 + (frame[4] << 8 | frame[5])])
            header |= {"from": draw.choice(["", "", "lead", "a", "b"])} if draw.random() < 0.9 else {}
            ward.relay.hub.send("a", header, draw.choice([*bodies, frame]))
    assert a.presence.turns == 1
    assert asked == []
    here = [present.note() for present in ward.relay.members.values()]
    ward.relay._tell("a", "members", msgspec.json.encode(here))
    assert lead.ask({"a": b"still here"}, 5)["a"] == b"still here"
    assert memory() - before < 50
