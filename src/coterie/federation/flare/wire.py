"""One TLS connection that carries F3's frames: whole frames in, whole frames out, in the order of sending.

F3 hands frames to a pool of threads, so that they overtake each other and pile up if nobody takes them. Here
data is handled in the connection's own thread: while it is not taken, no more is read, and the sender waits.
What goes out waits in a queue of bounded size for a thread of its own, so that a slow receiver holds up
others only when its queue is full. OpenSSL wants one thread at a time in a connection, hence the lock around
each call; nobody waits for the network while holding it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.connection import Connection
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, PREFIX_STRUCT

from coterie.federation.certificates import Card
from coterie.federation.flare.tls import ready
from coterie.federation.headers import PART

log = logging.getLogger("coterie")

MOST_FRAME = PART + (1 << 17)
MOST_QUEUED = 32 << 20  # bytes that wait for one receiver
LIGHTEST = 4096  # bytes as which a smaller piece counts there, so that many small ones take no longer
MOST_GREETING = 8192
CHUNK = 1 << 16  # bytes for one call of OpenSSL
SMALL = 1 << 14  # bytes of a body that is sent in one piece with its header
STALL = 20.0  # seconds in which the other side must take something
CROWDED = 1.5  # times as many, in which it must take a part while others wait for room in its queue
APP = 17  # the number of this application in F3's frames

Piece = bytes | bytearray | memoryview


class Broken(Exception):
    """The connection cannot go on: it ended, or the other side does not keep to the protocol."""


def frame_of(kind: int, headers: Mapping[str, Any] | None, body: Piece = b"", app: int = APP) -> list[Piece]:
    """An F3 frame in pieces, so that a large body is not copied."""
    told = msgpack.packb(dict(headers)) if headers else b""
    length = PREFIX_LEN + len(told) + len(body)
    first = PREFIX_STRUCT.pack(length, len(told), kind, 0, 0, app, 0, 0) + told
    return [first + bytes(body)] if len(body) < SMALL else [first, body]


def greeting_of(frame: Piece) -> dict[str, Any]:
    """What a HELLO or a READY says: short texts and numbers by name."""
    if not PREFIX_LEN < len(frame) <= MOST_GREETING:
        raise Broken(f"a greeting of {len(frame)} bytes, of at most {MOST_GREETING}")
    told = unpacked(memoryview(frame)[PREFIX_LEN + (frame[4] << 8 | frame[5]) :])
    if not all(isinstance(v, str | int | float) for v in told.values()) or len(told) > 16:
        raise Broken("a greeting that is not one")
    return told


def unpacked(data: Piece) -> dict[str, Any]:
    try:
        found = msgpack.unpackb(data) if len(data) else {}
    except Exception:  # whatever a stranger's bytes make of it
        raise Broken("a header that cannot be read") from None
    if not isinstance(found, dict) or not all(isinstance(k, str) for k in found):
        raise Broken("a header that is no table")
    return found


def weight(size: int) -> int:
    """What is left of a piece, as it counts among what waits."""
    return max(size, LIGHTEST) if size else 0


class Wire(Connection):  # type: ignore[misc]
    """`take(header, body)` gets data, `greeted(frame)` a HELLO or READY; `run`'s thread calls both."""

    def __init__(
        self, sock: ssl.SSLSocket, connector: ConnectorInfo, card: Card, address: str, stall: float = STALL
    ) -> None:
        super().__init__(connector)
        sock.setblocking(False)
        self.sock, self.card, self.address, self.stall = sock, card, address, stall
        self.why = ""  # why it ended, in words
        self.error: BaseException | None = None
        self.take: Callable[[dict[str, Any], memoryview], None] = lambda header, body: None
        self.greeted: Callable[[bytearray], None] = lambda frame: None
        self.pinged = threading.Event()
        self._openssl = threading.Lock()
        self._room = threading.Condition()
        self._out: deque[Piece] = deque()
        self._queued = 0  # bytes
        self._written = 0  # bytes so far, of what had to wait
        self._writing = False
        self._ended = False
        self._writer = threading.Thread(target=self._write_all, name="coterie-wire", daemon=True)
        self._writer.start()

    # what F3 asks of a connection

    def get_conn_properties(self) -> dict[str, str]:
        """F3 compares the name in a greeting with the one that TLS has made sure of."""
        return {
            DriverParams.PEER_CN.value: self.card.name,
            DriverParams.PEER_ADDR.value: self.address,
            DriverParams.LOCAL_ADDR.value: "",
        }

    def send_frame(self, frame: Piece) -> None:
        self.put([frame], wait=False)

    def close(self) -> None:
        self.end("closed")

    # out

    def put(self, pieces: Sequence[Piece], wait: bool = True) -> None:
        """Sends one frame, or queues it; waits while the queue is full, unless it is a note that must not."""
        size = sum(weight(len(piece)) for piece in pieces)
        with self._room:
            while wait and self._queued and self._queued + size > MOST_QUEUED and not self._ended:
                self._wait_for_room(size)
            if self._ended:
                raise CommError(CommError.CLOSED, "the connection has ended")
            self._queued += size
            if self._writing or self._out or len(pieces) > 1:
                self._out.extend(pieces)
                self._room.notify_all()
                return
            self._writing = True
        self._write_at_once(memoryview(pieces[0]))

    def _wait_for_room(self, size: int) -> None:
        """One who takes a little now and then must not hold up those who send to others as well."""
        before, seconds = self._written, CROWDED * self.stall
        room = self._room.wait_for(
            lambda: self._ended or not self._queued or self._queued + size <= MOST_QUEUED, seconds
        )
        if not room and self._written - before < PART:
            self.end(f"it takes too little: {self._written - before} bytes within {seconds:g} s")

    def _write_at_once(self, view: memoryview) -> None:
        """A small frame goes out in the thread that has it, which saves a change of threads."""
        size, error = len(view), None
        with self._openssl:
            try:
                view = view[self.sock.send(view) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass
            except (OSError, ValueError) as problem:
                error = problem
        with self._room:
            self._writing = False
            self._queued -= weight(size) - weight(len(view))
            if view:
                self._out.appendleft(view)
            self._room.notify_all()
        if error is not None:
            self.end("the line broke", error)
            raise CommError(CommError.CLOSED, "the connection has ended")

    def _write_all(self) -> None:
        try:
            while True:
                with self._room:
                    while (self._writing or not self._out) and not self._ended:
                        self._room.wait()
                    if self._ended:
                        return
                    piece, self._writing = self._out.popleft(), True
                self._write(memoryview(piece))
                with self._room:
                    self._queued -= weight(len(piece))
                    self._written += weight(len(piece))
                    self._writing = False
                    self._room.notify_all()
        except (OSError, Broken, ValueError) as error:
            self.end("it takes nothing any more" if isinstance(error, Broken) else "the line broke", error)

    def _write(self, view: memoryview) -> None:
        while view:
            chunk, read = view[:CHUNK], False
            with self._openssl:
                try:
                    view = view[self.sock.send(chunk) :]
                    continue
                except ssl.SSLWantWriteError:
                    pass
                except ssl.SSLWantReadError:
                    read = True
            if not ready(self.sock, read, self.stall):
                raise Broken(f"nothing was taken for {self.stall:g} s")

    def room(self) -> None:
        """Waits while the queue is full."""
        with self._room:
            self._room.wait_for(lambda: self._ended or self._queued < MOST_QUEUED)

    def drain(self, seconds: float) -> None:
        """Waits until all that was queued is with the system."""
        with self._room:
            self._room.wait_for(lambda: self._ended or not self._queued, seconds)

    # in

    def run(self, until: float | None = None) -> None:
        """Reads frames to the end of the connection."""
        try:
            while not self._ended:
                self.handle(self.read(until))
                until = None
        except Broken as error:
            self.end(str(error))
        except (OSError, ValueError) as error:
            self.end("the line broke", error)
        except Exception as error:  # a mistake in what takes the data must not end in silence
            log.warning("a message could not be handled: %s", type(error).__name__, exc_info=True)
            self.end("a message could not be handled", error)

    def handle(self, frame: bytearray) -> None:
        kind = frame[6]
        if kind == Types.DATA:
            start = PREFIX_LEN + (frame[4] << 8 | frame[5])
            self.take(unpacked(memoryview(frame)[PREFIX_LEN:start]), memoryview(frame)[start:])
        elif kind == Types.PING:
            if self._queued <= MOST_QUEUED:  # it must not wait here, where what would make room is read
                self.put(frame_of(Types.PONG, None, app=0), wait=False)
        elif kind == Types.PONG:
            self.pinged.set()
        elif kind in (Types.HELLO, Types.READY):
            self.greeted(frame)
        else:
            raise Broken(f"a frame of an unknown kind, {kind}")

    def pass_on(self, frame: bytearray) -> None:
        """A greeting goes to F3, which answers it and keeps the endpoint."""
        super().process_frame(frame)

    def read(self, until: float | None = None) -> bytearray:
        first = bytearray(PREFIX_LEN)
        self._read_into(memoryview(first), until)
        length, header = PREFIX_STRUCT.unpack(first)[:2]
        if not PREFIX_LEN + header <= length <= MOST_FRAME:
            raise Broken(f"a frame of {length} bytes with a header of {header}")
        frame = bytearray(length)
        frame[:PREFIX_LEN] = first
        self._read_into(memoryview(frame)[PREFIX_LEN:], until)
        return frame

    def _read_into(self, view: memoryview, until: float | None) -> None:
        while view:
            read = True
            with self._openssl:
                try:
                    got = self.sock.recv_into(view)
                    if got == 0:
                        raise Broken("the connection ended")
                    view = view[got:]
                    continue
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLWantWriteError:
                    read = False
            if not ready(self.sock, read, None if until is None else until - time.monotonic()):
                raise Broken("no greeting in time")

    def alive(self, seconds: float) -> bool:
        """Whether the other side answers a ping."""
        self.pinged.clear()
        with contextlib.suppress(CommError):
            self.put(frame_of(Types.PING, None, app=0), wait=False)
            return self.pinged.wait(seconds)
        return False

    # the end

    def refuse(self, name: str, why: str) -> None:
        """Tells the other side why, and hangs up."""
        told = {HandshakeKeys.ENDPOINT_NAME: name, HandshakeKeys.TIMESTAMP: time.time(), "refused": why[:500]}
        with contextlib.suppress(CommError):
            self.put(frame_of(Types.READY, None, msgpack.packb(told), app=0), wait=False)
            self.drain(1.0)
        self.end(why)

    def end(self, why: str, error: BaseException | None = None) -> None:
        with self._room:
            if isinstance(error, ssl.SSLError) or self.error is None:
                self.error = error  # an alert says more than that nothing can be sent any more
            if self._ended:
                return
            self._ended, self.why = True, why
            self._out.clear()
            self._room.notify_all()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # SSLSocket's own would go on in the clear

    def finish(self) -> None:
        """Gives the socket back, once nobody uses it."""
        self.end("closed")
        self._writer.join(2.0)
        with contextlib.suppress(OSError):
            self.sock.close()
