"""Drivers for F3: how its connections are made.

F3's own TCP server makes each TLS handshake in its accept loop and waits for it without end, so that a
stranger who connects and says nothing keeps everybody out. Here each connection has a thread of its own and
a time in which it must show a certificate and greet; if too many strangers wait, the oldest is hung up on.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from nvflare.fuel.f3.drivers.base_driver import BaseDriver
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo
from nvflare.fuel.f3.drivers.driver_params import DriverCap
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types

from coterie.core.errors import CoterieError, Refused
from coterie.federation.flare.tls import (
    SHAKE,
    bound,
    client_context,
    dial,
    let_go,
    peer_card,
    rejection,
    server_context,
    shake,
    tend,
)
from coterie.federation.flare.wire import Broken, Wire, greeting_of
from coterie.federation.headers import printable
from coterie.federation.party import Kit

MOST = 256  # parties at once
MOST_WAITING = 64  # connections that have not greeted yet
GREET = 15.0  # seconds for the coordinator's greeting; it may ping an earlier connection first
STALL = 12.0  # seconds for a party to take something: fewer than parties give the relay, which waits for it
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0  # seconds between two attempts to connect
JITTER = random.SystemRandom()  # not the generator that a program may have seeded for its own purposes

About = dict[str, Any]


class _Driver(BaseDriver):  # type: ignore[misc]
    """What both sides have in common."""

    @staticmethod
    def supported_transports() -> list[str]:
        return ["coterie"]

    @staticmethod
    def capabilities() -> dict[str, Any]:
        return {DriverCap.SEND_HEARTBEAT.value: True, DriverCap.SUPPORT_SSL.value: True}

    @staticmethod
    def get_urls(scheme: str, resources: dict[str, Any]) -> tuple[str, str]:
        raise NotImplementedError  # F3 asks this of connections that it makes up by itself: there are none

    def listen(self, connector: ConnectorInfo) -> None:
        raise NotImplementedError

    def connect(self, connector: ConnectorInfo) -> None:
        raise NotImplementedError

    def hang_up(self) -> None:
        """`close_all` closes under a lock that a connection's end takes as well."""
        with self.conn_lock:
            wires = list(self.connections.values())
        for wire in wires:
            wire.close()


class ListeningDriver(_Driver):
    """The coordinator's side. `admit(card, address, about)` says why not, or ""; `serve(wire, about, go)` is
    called for each who is let in and must call `go`, which greets back and reads to the end.
    """

    def __init__(
        self,
        kit: Kit,
        host: str,
        port: int,
        admit: Callable[[Any, str, About], str],
        serve: Callable[[Wire, About, Callable[[], None]], None],
        turned_away: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self.kit, self.admit, self.serve, self.turned_away = kit, admit, serve, turned_away
        self.context = server_context(kit)
        self.socket = bound(host, port)
        self._lock = threading.Lock()
        self._waiting: dict[int, socket.socket] = {}
        self._numbers = iter(range(1 << 62))

    @property
    def address(self) -> tuple[str, int]:
        found: tuple[str, int] = self.socket.getsockname()[:2]
        return found

    def listen(self, connector: ConnectorInfo) -> None:
        while not connector.stopped.is_set():
            try:
                sock, address = self.socket.accept()
            except TimeoutError:
                continue
            except OSError:
                if connector.stopped.wait(0.2):  # closed, or no more files: strangers end by themselves
                    return
                continue
            place = f"{address[0]}:{address[1]}"
            threading.Thread(
                target=self._meet, args=(sock, place, connector), name="coterie-party", daemon=True
            ).start()

    def _meet(self, sock: socket.socket, place: str, connector: ConnectorInfo) -> None:
        number = self._wait_in_line(sock)
        try:
            tend(sock)
            wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError:
            sock.close()
            self._no_longer_waits(number)
            return
        try:
            with self._lock:
                if number in self._waiting:
                    self._waiting[number] = wrapped
            shake(wrapped)
            wire = Wire(wrapped, connector, peer_card(wrapped, self.kit.ca_pem), place, STALL)
        except (OSError, CoterieError, ValueError) as error:
            self.turned_away(place, _stranger(error))
            let_go(wrapped)
            self._no_longer_waits(number)
            return
        try:
            self._greet(wire, number)
        finally:
            wire.finish()

    def _greet(self, wire: Wire, number: int) -> None:
        try:
            frame = wire.read(time.monotonic() + SHAKE)
            about = greeting_of(frame)
            if frame[6] != Types.HELLO or about.pop(HandshakeKeys.ENDPOINT_NAME, None) != wire.card.name:
                raise Broken("it does not greet by the name in its certificate")
            about.pop(HandshakeKeys.TIMESTAMP, None)
            full = len(self.connections) >= MOST
            why = f"{MOST} parties are connected, no more can be" if full else ""
            why = why or self.admit(wire.card, wire.address, about)
        except (Broken, OSError, ValueError) as error:
            self.turned_away(wire.address, f"{wire.card.name}: {error}")
            return
        finally:
            self._no_longer_waits(number)
        if why:
            wire.refuse(self.kit.name, why)
            return

        def go() -> None:
            self.add_connection(wire)
            wire.greeted = _once_more
            wire.pass_on(frame)

        try:
            self.serve(wire, about, go)
        finally:
            wire.end("closed")
            self.close_connection(wire)

    def _wait_in_line(self, sock: socket.socket) -> int:
        with self._lock:
            number = next(self._numbers)
            if len(self._waiting) >= MOST_WAITING:
                oldest = self._waiting.pop(min(self._waiting))
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._waiting[number] = sock
            return number

    def _no_longer_waits(self, number: int) -> None:
        with self._lock:
            self._waiting.pop(number, None)

    def shutdown(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        with self._lock:
            waiting = list(self._waiting.values())
        for sock in waiting:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self.hang_up()


class CallingDriver(_Driver):
    """A party's side: one connection, made again whenever it ends.

    `prepare(wire)` sets what takes its data; `changed(connected, why)` hears of every attempt; `gap` is how
    many seconds the coordinator's clock is ahead of ours.
    """

    def __init__(
        self, kit: Kit, prepare: Callable[[Wire], None], changed: Callable[[bool, str], None]
    ) -> None:
        super().__init__()
        self.kit, self.prepare, self.changed = kit, prepare, changed
        self.context = client_context(kit)
        self.gap = 0.0

    def connect(self, connector: ConnectorInfo) -> None:
        wait = FIRST_WAIT
        while not connector.stopped.is_set():
            greeted, why = self._once(connector)
            if connector.stopped.is_set():
                return
            self.changed(False, why)
            wait = FIRST_WAIT if greeted else wait
            connector.stopped.wait(wait * JITTER.uniform(0.8, 1.2))  # not all at once, after a restart
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(self, connector: ConnectorInfo) -> tuple[bool, str]:
        """From connecting to hanging up: whether the coordinator let us in, and why it ended."""
        try:
            sock, card = dial(self.kit, self.context)
        except CoterieError as error:
            return False, str(error)
        wire = Wire(sock, connector, card, f"{self.kit.host}:{self.kit.port}")
        let_in = threading.Event()

        def greeted(frame: bytearray) -> None:
            told = greeting_of(frame)
            if frame[6] != Types.READY:
                raise Broken("the coordinator greets as a party does")
            if "refused" in told:
                raise Broken(f"the coordinator refuses: {printable(told['refused'])}")
            if let_in.is_set() or told.get(HandshakeKeys.ENDPOINT_NAME) != card.name:
                raise Broken("the coordinator greets twice, or by another name")
            self.gap = float(told.get(HandshakeKeys.TIMESTAMP, 0.0)) - time.time()
            wire.pass_on(frame)
            let_in.set()
            self.changed(True, "")

        wire.greeted = greeted
        self.prepare(wire)
        self.add_connection(wire)  # upon which F3 says HELLO
        try:
            wire.run(time.monotonic() + GREET)
        finally:
            self.close_connection(wire)
            wire.finish()
        return let_in.is_set(), rejection(self.kit, wire.error) or f"no line to the coordinator: {wire.why}"

    def shutdown(self) -> None:
        self.hang_up()


def _once_more(frame: bytearray) -> None:
    raise Broken("it greets twice")


def _stranger(error: BaseException) -> str:
    """Why somebody was turned away before we know who it is."""
    if isinstance(error, Refused | TimeoutError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not hold ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS as parties speak it ({(error.reason or 'unknown').lower().replace('_', ' ')})"
    return "it hung up during the handshake"
