"""Both ends of the line: `Line` at a site or with a person, `Hub` at the coordinator.

A message is a small header and a body. A large body goes in parts, each a frame of its own with the same id;
the hub passes parts on as they come and the line at the other end puts them together (`assembly.py`). The
hub writes into every header whom it is from, by the certificate of the connection that it came on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.sfm.constants import Types

from coterie.core.errors import BadInput
from coterie.federation.assembly import MOST_OPEN, Assembly, Header
from coterie.federation.certificates import Card
from coterie.federation.flare.driver import CallingDriver, ListeningDriver
from coterie.federation.flare.layer import communicator
from coterie.federation.flare.tls import Unreachable
from coterie.federation.flare.wire import Broken, Piece, Wire, frame_of
from coterie.federation.headers import MOST_BODY, PART, wrong
from coterie.federation.party import Kit

__all__ = ["MOST_BODY", "MOST_OPEN", "Assembly", "Hub", "Line", "Unreachable"]


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
    """A party's side; `receive(header, body)` and `changed(connected, why)` are called by its own thread."""

    def __init__(
        self,
        kit: Kit,
        receive: Callable[[Header, bytes], None],
        changed: Callable[[bool, str], None],
        about: Mapping[str, str] | None = None,
        assembly: Assembly | None = None,
    ) -> None:
        self.kit, self.receive, self.changed = kit, receive, changed
        self.assembly = assembly or Assembly()
        self._wire: Wire | None = None
        self._why = "not started"
        self._ids = itertools.count(1)
        self._driver = CallingDriver(kit, self._prepare, self._turned)
        self._flare: Communicator = communicator(kit.name, about or {}, self._driver, Mode.ACTIVE)

    def start(self) -> None:
        self._flare.start()

    @property
    def gap(self) -> float:
        """How many seconds the coordinator's clock is ahead of ours, as it greeted."""
        return self._driver.gap

    def send(self, header: Mapping[str, Any], body: Piece = b"") -> None:
        wire = self._wire
        if wire is None:
            raise Unreachable(self._why)
        try:
            for head, part in parts(header, body, next(self._ids)):
                wire.put(frame_of(Types.DATA, head, part))
        except CommError:
            raise Unreachable(wire.why or self._why) from None

    def close(self) -> None:
        self._wire, self._why = None, "closed"
        self._flare.stop()

    def _prepare(self, wire: Wire) -> None:
        self.assembly.forget()  # halves of messages end with the connection

        def take(header: Header, part: memoryview) -> None:
            whole = None if wrong(header, len(part)) else self.assembly.add(header, part)
            if whole is not None:
                self.receive(*whole)

        wire.take = take
        self._next = wire

    def _turned(self, connected: bool, why: str) -> None:
        self._wire, self._why = (self._next, "") if connected else (None, why)
        if not connected:
            self.assembly.forget()
        self.changed(connected, why)


class Hub:
    """The relay's side: `receive(name, header, part)` gets every frame, from whom is certain."""

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
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.receive, self.arrived, self.left = receive, arrived, left
        self._wires: dict[str, Wire] = {}
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._driver = ListeningDriver(
            kit, host or kit.listen, kit.port if port is None else port, admit, self._serve, turned_away
        )
        self._flare: Communicator = communicator(kit.name, about or {}, self._driver, Mode.PASSIVE)

    @property
    def address(self) -> tuple[str, int]:
        return self._driver.address

    def start(self) -> None:
        self._flare.start()

    def send(self, name: str, header: Mapping[str, Any], body: Piece = b"", wait: bool = True) -> None:
        """To one who is connected; waits while its queue is full, unless told not to. Else Unreachable."""
        wire = self._wires.get(name)
        if wire is None:
            raise Unreachable(f"{name} is not connected")
        try:
            for head, part in [(header, body)] if len(body) <= PART else parts(header, body, next(self._ids)):
                wire.put(frame_of(Types.DATA, head, part), wait)
        except CommError:
            raise Unreachable(f"{name} is not connected") from None

    def room(self, name: str) -> None:
        """Waits while the queue of one who is connected is full."""
        wire = self._wires.get(name)
        if wire is not None:
            wire.room()

    def alive(self, name: str, seconds: float) -> bool:
        wire = self._wires.get(name)
        return wire is not None and wire.alive(seconds)

    def drop(self, name: str, why: str) -> None:
        with self._lock:
            wire = self._wires.pop(name, None)
        if wire is not None:
            wire.refuse(self._flare.local_endpoint.name, why)
            self.left(name)

    def close(self) -> None:
        self._flare.stop()

    def _serve(self, wire: Wire, about: Header, go: Callable[[], None]) -> None:
        name = wire.card.name

        def take(header: Header, part: memoryview) -> None:
            if self._wires.get(name) is not wire:
                raise Broken("another connection has taken its place")
            header["from"] = name
            self.receive(name, header, part)

        wire.take = take
        with self._lock:
            self._wires[name] = wire
        try:
            go()
            self.arrived(name, about)
            wire.run()
        finally:
            with self._lock:
                mine = self._wires.get(name) is wire
                if mine:
                    del self._wires[name]
            if mine:
                self.left(name)
