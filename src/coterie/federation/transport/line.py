"""Both ends of the line: `Line` at a site or with a person, `Hub` at the relay.

A message is a small header and a body. A large body goes in parts, each a frame of its own with the same id;
the hub passes parts on as they come and the line at the other end puts them together (`assembly.py`). The
hub writes into every header whom it is from, by the certificate of the connection that it came on.

The hub gives each connection a thread of its own and a time in which it must show a certificate and greet, so
that a stranger who connects and says nothing keeps nobody out; if too many strangers wait, the oldest is hung
up on. A line is made again whenever it ends.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coterie.core.errors import BadInput, CoterieError, Refused
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit
from coterie.federation.messages import SCHEMA, printable, unknown_schema
from coterie.federation.transport import tls
from coterie.federation.transport.assembly import MOST_BODY, PART, Assembly, Header, wrong
from coterie.federation.transport.connection import (
    NAME,
    TIME,
    VERSION,
    Broken,
    Connection,
    Kind,
    Piece,
    frame_of,
    greeting_of,
)
from coterie.federation.transport.tls import Unreachable

log = logging.getLogger("coterie")

MOST = 256  # parties at once
MOST_WAITING = 64  # connections that have not greeted yet
GREET = 15.0  # seconds for the relay's greeting; it may ping an earlier connection first
STALL = 12.0  # seconds for a party to take something: fewer than parties give the relay, which waits for it
WAIT, CLOCKS = 20.0, 60.0  # seconds for a connection that is tried, and by which two clocks may differ
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0  # seconds between two attempts to connect
JITTER = random.SystemRandom()  # not the generator that a program may have seeded for its own purposes


def parts(header: Mapping[str, Any], body: Piece, id: int) -> Iterator[tuple[Header, Piece]]:
    """A message as frames: the first has the whole header, the others what is needed to pass them on."""
    if len(body) > MOST_BODY:
        raise BadInput(
            f"a message of {len(body)} bytes is too large, of at most {MOST_BODY}: take a smaller model"
        )
    if len(body) <= PART:
        yield dict(header), body
        return
    view, size = memoryview(body), len(body)
    short = {key: header[key] for key in ("to", "kind") if key in header}
    for at in range(0, size, PART):
        yield {**(header if at == 0 else short), "id": id, "at": at, "size": size}, view[at : at + PART]


class Line:
    """A party's side; `receive(header, body)` and `changed(connected, why)` are called by its own thread.

    `gap` is how many seconds the relay's clock is ahead of ours, as it greeted.
    """

    def __init__(
        self,
        kit: Kit,
        receive: Callable[[Header, bytes], None],
        changed: Callable[[bool, str], None],
        about: Mapping[str, str] | None = None,
        assembly: Assembly | None = None,
    ) -> None:
        self.kit, self.receive, self.changed, self.about = kit, receive, changed, dict(about or {})
        self.assembly = assembly or Assembly()
        self.gap = 0.0
        self._context = tls.client_context(kit)
        self._connection: Connection | None = None  # once the relay has greeted
        self._dialled: Connection | None = None
        self._why = "not started"
        self._ids = itertools.count(1)
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._keep, name="coterie-line", daemon=True).start()

    def send(self, header: Mapping[str, Any], body: Piece = b"") -> None:
        connection = self._connection
        if connection is None:
            raise Unreachable(self._why)
        try:
            for head, part in parts(header, body, next(self._ids)):
                connection.put(frame_of(Kind.DATA, head, part))
        except Unreachable:
            raise Unreachable(connection.why or self._why) from None

    def close(self) -> None:
        self._over.set()
        self._connection, self._why = None, "closed"
        if self._dialled is not None:
            self._dialled.end("closed")

    def _keep(self) -> None:
        """Connects again and again, not all parties at once after the relay was started anew."""
        wait = FIRST_WAIT
        while not self._over.is_set():
            try:
                greeted, why = self._connect()
                if not self._over.is_set():
                    self._turned(None, why)
                wait = FIRST_WAIT if greeted else wait
            except Exception:  # a line that is not made again would be a silence that nobody notices
                log.warning("the line ended with a mistake; it is made again", exc_info=True)
            self._over.wait(wait * JITTER.uniform(0.8, 1.2))
            wait = min(2 * wait, LONGEST_WAIT)

    def _connect(self) -> tuple[bool, str]:
        """From connecting to hanging up: whether the relay let us in, and why it ended."""
        try:
            sock, card = tls.dial(self.kit, self._context)
        except CoterieError as error:
            return False, str(error)
        self.assembly.forget()  # halves of messages end with the connection
        connection = self._dialled = Connection(sock, card, f"{self.kit.host}:{self.kit.port}")
        let_in = threading.Event()

        def take(header: Header, part: memoryview) -> None:
            whole = None if wrong(header, len(part)) else self.assembly.add(header, part)
            if whole is not None:
                self.receive(*whole)

        def greeted(frame: bytearray) -> None:
            told = greeting_of(frame)
            if frame[6] != Kind.READY:
                raise Broken("the relay greets as a party does")
            if "refused" in told:
                raise Broken(f"the relay refuses: {printable(told['refused'])}")
            if let_in.is_set() or told.get(NAME) != card.name:
                raise Broken("the relay greets twice, or by another name")
            self.gap = float(told.get(TIME, 0.0)) - time.time()
            if why := unknown_schema(told.get(VERSION, SCHEMA)):
                raise Broken(f"the relay has {why}")
            let_in.set()
            self._turned(connection, "")

        connection.take, connection.greeted = take, greeted
        if self._over.is_set():
            connection.end("closed")
        try:
            with contextlib.suppress(Unreachable):
                connection.greet(Kind.HELLO, self.kit.name, self.about)
            connection.run(time.monotonic() + GREET)
        finally:
            connection.finish()
        why = tls.rejection(self.kit, connection.error) or f"no line to the relay: {connection.why}"
        return let_in.is_set(), why

    def _turned(self, connection: Connection | None, why: str) -> None:
        if self._over.is_set():
            return
        self._connection, self._why = connection, why
        if connection is None:
            self.assembly.forget()
        self.changed(connection is not None, why)


class Hub:
    """The relay's side: `receive(name, header, part)` gets every frame, from whom is certain.

    `admit(card, address, about)` says why somebody is not let in, or ""; `arrived(name, about)`, `left(name)`
    and `turned_away(address, why)` hear of who comes and goes.
    """

    def __init__(
        self,
        kit: Kit,
        admit: Callable[[Card, str, Header], str],
        receive: Callable[[str, Header, memoryview], None],
        arrived: Callable[[str, Header], None],
        left: Callable[[str], None],
        turned_away: Callable[[str, str], None] = lambda address, why: None,
        host: str = "",
        port: int | None = None,
    ) -> None:
        self.kit, self.admit, self.receive = kit, admit, receive
        self.arrived, self.left, self.turned_away = arrived, left, turned_away
        self._connections: dict[str, Connection] = {}
        self._all: set[Connection] = set()  # also those that another has followed
        self._strangers: dict[int, socket.socket] = {}  # who have not greeted yet
        self._numbers, self._ids = itertools.count(), itertools.count(1)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._context = tls.server_context(kit)
        self._socket = tls.bound(host or kit.listen, kit.port if port is None else port)

    @property
    def address(self) -> tuple[str, int]:
        found: tuple[str, int] = self._socket.getsockname()[:2]
        return found

    def start(self) -> None:
        threading.Thread(target=self._accept, name="coterie-line", daemon=True).start()

    def send(self, name: str, header: Mapping[str, Any], body: Piece = b"", wait: bool = True) -> None:
        """To one who is connected; waits while its queue is full, unless told not to. Else Unreachable."""
        connection = self._connections.get(name)
        try:
            if connection is None:
                raise Unreachable
            for head, part in [(header, body)] if len(body) <= PART else parts(header, body, next(self._ids)):
                connection.put(frame_of(Kind.DATA, head, part), wait)
        except Unreachable:
            raise Unreachable(f"{name} is not connected") from None

    def alive(self, name: str, seconds: float) -> bool:
        connection = self._connections.get(name)
        return connection is not None and connection.alive(seconds)

    def drop(self, name: str, why: str) -> None:
        with self._lock:
            connection = self._connections.pop(name, None)
        if connection is not None:
            connection.refuse(self.kit.name, why)
            self.left(name)

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            strangers, connections = list(self._strangers.values()), list(self._all)
        for sock in strangers:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for connection in connections:
            connection.end("closed")

    # who connects

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                sock, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._over.wait(0.2):  # closed, or no more files: strangers end by themselves
                    return
                continue
            args = (sock, f"{address[0]}:{address[1]}")
            try:
                threading.Thread(target=self._meet, args=args, name="coterie-party", daemon=True).start()
            except RuntimeError:  # no more threads: others are still served
                sock.close()
                self._over.wait(0.2)

    def _meet(self, sock: socket.socket, place: str) -> None:
        """One connection, from its handshake to its end."""
        with self._lock:
            number = next(self._numbers)
            if len(self._strangers) >= MOST_WAITING:
                oldest = self._strangers.pop(min(self._strangers))
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._strangers[number] = sock
        try:
            tls.tend(sock)
            wrapped = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError:
            sock.close()
            self._no_longer_waits(number)
            return
        try:
            with self._lock:
                if number in self._strangers:
                    self._strangers[number] = wrapped
            tls.shake(wrapped)
            connection = Connection(wrapped, tls.peer_card(wrapped, self.kit.ca_pem), place, STALL)
        except (OSError, CoterieError, ValueError) as error:
            self.turned_away(place, tls.why_turned_away(error))
            tls.let_go(wrapped)
            self._no_longer_waits(number)
            return
        with self._lock:
            self._all.add(connection)
        try:
            self._greet(connection, number)
        finally:
            connection.finish()
            with self._lock:
                self._all.discard(connection)

    def _greet(self, connection: Connection, number: int) -> None:
        try:
            frame = connection.read(time.monotonic() + tls.SHAKE)
            about = greeting_of(frame)
            if frame[6] != Kind.HELLO or about.pop(NAME, None) != connection.card.name:
                raise Broken("it does not greet by the name in its certificate")
            about.pop(TIME, None)
            why = unknown_schema(about.pop(VERSION, SCHEMA))
            if why:
                self.turned_away(connection.address, f"{connection.card.name}: {why}")
            elif len(self._connections) >= MOST:
                why = f"{MOST} parties are connected, no more can be"
            else:
                why = self.admit(connection.card, connection.address, about)
        except (Broken, OSError, ValueError) as error:
            self.turned_away(connection.address, f"{connection.card.name}: {error}")
            return
        finally:
            self._no_longer_waits(number)
        if why:
            connection.refuse(self.kit.name, why)
        else:
            self._serve(connection, about)

    def _serve(self, connection: Connection, about: Header) -> None:
        """Greets one who is let in, and reads what it sends to the end."""
        name = connection.card.name

        def take(header: Header, part: memoryview) -> None:
            if self._connections.get(name) is not connection:
                raise Broken("another connection has taken its place")
            header["from"] = name
            self.receive(name, header, part)

        connection.take = take
        with self._lock:
            self._connections[name] = connection
        try:
            with contextlib.suppress(Unreachable):
                connection.greet(Kind.READY, self.kit.name)
            self.arrived(name, about)
            connection.run()
        finally:
            connection.end("closed")
            with self._lock:
                mine = self._connections.get(name) is connection
                if mine:
                    del self._connections[name]
            if mine:
                self.left(name)

    def _no_longer_waits(self, number: int) -> None:
        with self._lock:
            self._strangers.pop(number, None)


def connection_problems(kit: Kit) -> list[str]:
    """What keeps this kit from connecting, or that all is well; it connects for a moment to find out.

    The first that fails of: its certificate, the name's address, the port, TLS, what the relay says.
    """
    try:
        _ = kit.card
    except Refused as error:
        return [str(error)]
    greeted = queue.SimpleQueue[str]()  # why not, or ""
    line = Line(kit, lambda header, body: None, lambda connected, why: greeted.put(why))
    try:
        line.start()
        why = greeted.get(timeout=WAIT)
    except queue.Empty:
        why = f"the relay does not greet within {WAIT:g} s: try again"
    finally:
        line.close()
    lines = [why, *_clocks(line.gap)] if why else _clocks(line.gap)
    return lines or [f"all is well: {kit.host}:{kit.port} lets {kit.name} in"]


def _clocks(gap: float) -> list[str]:
    if abs(gap) <= CLOCKS:
        return []
    ahead = "ahead of" if gap > 0 else "behind"
    return [f"the relay's clock is {abs(gap):.0f} s {ahead} this machine's: set whichever is wrong"]
