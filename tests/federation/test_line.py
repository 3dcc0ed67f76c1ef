"""The line: whole messages arrive, in order, from whom the certificate says, and halves of them nowhere."""

import contextlib
import dataclasses
import queue
import threading

import pytest
from parties import Ward, until

from coterie.core.errors import BadInput
from coterie.federation.transport import assembly as assemblies
from coterie.federation.transport import connection
from coterie.federation.transport import line as drivers
from coterie.federation.transport.assembly import MOST_BODY, Assembly
from coterie.federation.transport.connection import PART, Broken, Kind, greeting_of
from coterie.federation.transport.line import Hub, Line, parts
from coterie.federation.transport.tls import Unreachable


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    return Ward(tmp_path_factory.mktemp("line") / "ward", relay=False)


class Exchange:
    """A hub that passes everything on, and lines to it."""

    def __init__(self, ward, admit=lambda card, address, about: ""):
        self.came, self.went, self.opened = queue.Queue(), queue.Queue(), []
        self.away = queue.Queue()
        self.hub = Hub(
            ward.kits["coordinator"],
            admit,
            self.receive,
            lambda name, about: self.came.put((name, about)),
            self.went.put,
            lambda address, why: self.away.put(why),
            "127.0.0.1",
            0,
        )
        self.hub.start()
        self.kits = {n: dataclasses.replace(k, port=self.hub.address[1]) for n, k in ward.kits.items()}

    def receive(self, name, header, part):
        with contextlib.suppress(Unreachable):
            self.hub.send(header["to"], header, part)

    def line(self, name, about=None):
        got, turns = queue.Queue(), queue.Queue()
        line = Line(self.kits[name], lambda h, b: got.put((h, b)), lambda c, w: turns.put((c, w)), about)
        line.start()
        self.opened.append(line)
        return line, got, turns

    def close(self):
        for line in self.opened:
            line.close()
        self.hub.close()


@pytest.fixture
def exchange(ward):
    made = Exchange(ward)
    yield made
    made.close()


SIZES = [0, 1, PART - 1, PART, PART + 1, 3 * PART + 7]


def test_messages_of_any_size_arrive_whole_and_in_order(exchange):
    a, _, turns = exchange.line("a", {"boot": "one", "version": "2"})
    _, got, also = exchange.line("b")
    assert turns.get(timeout=5) == also.get(timeout=5) == (True, "")
    assert ("a", {"boot": "one", "version": "2"}) in [exchange.came.get(timeout=5) for _ in range(2)]
    bodies = [bytes([n]) * size for n, size in enumerate(SIZES)]
    for number, body in enumerate(bodies):
        a.send({"to": "b", "kind": "x", "number": number, "from": "lead"}, body)
    for number, body in enumerate(bodies):
        header, found = got.get(timeout=5)
        assert header == {"to": "b", "kind": "x", "number": number, "from": "a"}, "whoever it says it is"
        assert found == body
    for number in range(500):
        a.send({"to": "b", "kind": "x", "number": number})
    assert [got.get(timeout=5)[0]["number"] for _ in range(500)] == list(range(500))
    assert abs(a.gap) < 5
    a.close()
    assert exchange.went.get(timeout=5) == "a"
    with pytest.raises(Unreachable, match="closed"):
        a.send({"to": "b"})
    with pytest.raises(Unreachable, match="a is not connected"):
        exchange.hub.send("a", {})


def test_two_threads_may_send_large_messages_at_once(exchange):
    a, _, turns = exchange.line("a")
    _, got, also = exchange.line("b")
    assert turns.get(timeout=5)[0]
    assert also.get(timeout=5)[0]
    bodies = [bytes([n]) * (5 * PART + n) for n in range(3)]
    threads = [threading.Thread(target=a.send, args=({"to": "b", "kind": "x"}, body)) for body in bodies]
    for thread in threads:
        thread.start()
    assert sorted(bytes(got.get(timeout=10)[1]) for _ in bodies) == sorted(bodies)


def test_a_refused_party_is_told_why_and_tries_again(ward):
    refusals = iter(["not today: come tomorrow"])
    exchange = Exchange(ward, lambda card, address, about: next(refusals, ""))
    _, _, turns = exchange.line("a")
    assert turns.get(timeout=5) == (
        False,
        "no line to the relay: the relay refuses: not today: come tomorrow",
    )
    assert turns.get(timeout=5) == (True, "")
    exchange.came.get(timeout=5)
    exchange.hub.drop("a", "revoked")
    assert exchange.went.get(timeout=5) == "a"
    assert turns.get(timeout=5) == (False, "no line to the relay: the relay refuses: revoked")
    exchange.close()


def test_who_has_messages_of_another_schema_is_told_so(ward, monkeypatch):
    """Either end says which schema it met, and what to do; none is that of earlier versions."""
    exchange = Exchange(ward)
    _, _, turns = exchange.line("b", {"schema": 2})
    must = "messages of schema 2, and 1 is known here: install the same version of Coterie everywhere"
    connected, why = turns.get(timeout=5)
    assert not connected
    assert why.startswith(f"no line to the relay: the relay refuses: {must}")
    assert exchange.away.get(timeout=5).startswith(f"b: {must}")
    greet = connection.Connection.greet
    monkeypatch.setattr(
        connection.Connection,
        "greet",
        lambda self, kind, name, about=None: greet(
            self, kind, name, {**(about or {}), **({"schema": 2} if kind == Kind.READY else {})}
        ),
    )
    _, _, turns = exchange.line("c")
    connected, why = turns.get(timeout=5)
    assert not connected
    assert why.startswith(f"no line to the relay: the relay has {must}")
    exchange.close()


def test_a_line_comes_back_by_itself(ward):
    exchange = Exchange(ward)
    a, _, turns = exchange.line("a")
    assert turns.get(timeout=5)[0]
    port = exchange.hub.address[1]
    exchange.hub.close()
    assert turns.get(timeout=5)[0] is False
    with pytest.raises(Unreachable):
        until(lambda: a.send({"to": "b"}), 2)
    assert "nothing listens at" in turns.get(timeout=5)[1]
    came = queue.Queue()
    again = Hub(
        ward.kits["coordinator"],
        lambda *about: "",
        lambda *message: None,
        lambda *one: came.put(one),
        lambda name: None,
        host="127.0.0.1",
        port=port,
    )
    again.start()
    assert came.get(timeout=10)[0] == "a"
    a.close()
    again.close()


def test_a_receiver_that_takes_nothing_is_dropped_and_holds_up_nobody_for_long(ward, monkeypatch):
    monkeypatch.setattr(drivers, "STALL", 0.5)
    monkeypatch.setattr(connection, "MOST_QUEUED", 2 * PART)
    exchange = Exchange(ward)
    a, _, turns = exchange.line("a")
    b, _, also = exchange.line("b")
    assert turns.get(timeout=5)[0]
    assert also.get(timeout=5)[0]
    _, got, more = exchange.line("c")
    assert more.get(timeout=5)[0]
    stop = threading.Event()
    b._connection.take = lambda header, part: stop.wait(20)
    sender = threading.Thread(target=a.send, args=({"to": "b", "kind": "x"}, bytes(40 * PART)), daemon=True)
    sender.start()
    assert exchange.went.get(timeout=10) == "b"
    a.send({"to": "c", "kind": "x"}, b"for another")
    assert got.get(timeout=5)[1] == b"for another"
    until(lambda: not sender.is_alive())
    stop.set()
    exchange.close()


def test_parts():
    body = bytes(range(256)) * 8192 + b"end"
    whole = list(parts({"to": "b", "kind": "ask", "number": 7}, body, 5))
    assert [set(head) for head, _ in whole] == [
        {"to", "kind", "number", "id", "at", "size"},
        {"to", "kind", "id", "at", "size"},
        {"to", "kind", "id", "at", "size"},
    ]
    assembly = Assembly()
    got = [assembly.add({**head, "from": "a"}, memoryview(part)) for head, part in whole]
    assert got == [None, None, ({"to": "b", "kind": "ask", "number": 7, "from": "a"}, body)]
    assert assembly.open == {}


class Huge:
    def __len__(self):
        return MOST_BODY + 1


def test_a_body_that_is_too_large_is_refused():
    with pytest.raises(BadInput, match="too large, of at most 2147483648"):
        list(parts({}, Huge(), 1))


def part(id=1, at=0, size=10, body=b"12345", sender="a"):
    return {"from": sender, "id": id, "at": at, "size": size}, memoryview(body)


HALVES = {
    "the end first": [part(at=5)],
    "a gap": [part(), part(at=6)],
    "twice the first": [part(), part(), part(at=5, body=b"x" * 6)],
    "more than was said": [part(), part(at=5, body=b"123456")],
    "another size": [part(), part(at=5, size=11)],
    "nothing in it": [part(), part(at=5, body=b"")],
    "of another": [part(), part(at=5, sender="b")],
    "too large": [part(size=MOST_BODY + 1), part(at=5, size=MOST_BODY + 1)],
    "no size": [part(size=None), part(at=5)],
}


@pytest.mark.parametrize("case", HALVES)
def test_halves_that_do_not_fit_are_dropped(case):
    assembly = Assembly()
    assert [assembly.add(*one) for one in HALVES[case]] == [None] * len(HALVES[case])
    assert len(assembly.open) <= 1


def test_a_sender_keeps_few_messages_open():
    assembly = Assembly()
    for id in range(1000):
        assembly.add(*part(id=id))
    assert len(assembly.open) == assemblies.MOST_OPEN
    assert assembly.add(*part(id=999, at=5)) == ({"from": "a"}, b"1234512345")
    assert assembly.add(*part(id=998, at=5)) is not None
    assert assembly.add(*part(id=1, at=5)) is None


@pytest.mark.parametrize(
    "frame", [b"", b"\0" * 16, b"\0" * 16 + b"\xc1", b"\0" * 16 + b"\x93\1\2\3", b"x" * 9000]
)
def test_greetings_of_strangers(frame):
    with pytest.raises(Broken):
        greeting_of(bytearray(frame))
