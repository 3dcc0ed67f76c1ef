"""One TLS connection that carries frames: whole frames in, whole frames out, in the order of sending.

    frame  = length of the frame (4 bytes), length of the header (2), kind (1), 0 (1), 0 (2), application (2),
             0 (4); the header, a table in MessagePack; the body

Data is handled in the connection's own thread: while it is not taken, no more is read, and the sender waits.
What goes out waits in a queue of bounded size for a thread of its own, so that a slow receiver holds up
others only when its queue is full. OpenSSL wants one thread at a time in a connection, hence the lock around
each call; nobody waits for the network while holding it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import MsgspecError, msgpack

from coterie.federation.kits.certificates import Card
from coterie.federation.messages import SCHEMA
from coterie.federation.transport.assembly import PART
from coterie.federation.transport.tls import Unreachable, ready

log = logging.getLogger("coterie")

PREFIX = struct.Struct(">IHBBHHHH")
MOST_FRAME = PART + (1 << 17)
MOST_QUEUED = 32 << 20  # bytes that wait for one receiver
LIGHTEST = 4096  # bytes as which a smaller piece counts there, so that many small ones take no longer
MOST_GREETING = 8192
CHUNK = 1 << 16  # bytes for one call of OpenSSL
SMALL = 1 << 14  # bytes of a body that is sent in one piece with its header
STALL = 20.0  # seconds in which the other side must take something
CROWDED = 1.5  # times as many, in which it must take a part while others wait for room in its queue
BEAT = 60.0  # seconds without a word after which one is sent, so that nothing in between forgets the line
APP = 17  # the number of this application in frames
NAME, TIME, VERSION = "endpoint_name", "timestamp", "schema"  # of a greeting

Piece = bytes | bytearray | memoryview
Greeting = dict[str, str | int | float]


class Kind(enum.IntEnum):
    """Of a frame; the numbers are those of NVFlare's F3 layer, which earlier versions used."""

    DATA = 1
    HELLO = 4  # who connects, greets
    READY = 5  # and is greeted, or told why not
    PING = 6
    PONG = 7


class Broken(Exception):
    """The connection cannot go on: it ended, or the other side does not keep to the protocol."""


def frame_of(kind: int, headers: Mapping[str, Any] | None, body: Piece = b"", app: int = APP) -> list[Piece]:
    """A frame in pieces, so that a large body is not copied."""
    told = msgpack.encode(dict(headers)) if headers else b""
    length = PREFIX.size + len(told) + len(body)
    first = PREFIX.pack(length, len(told), kind, 0, 0, app, 0, 0) + told
    return [first + bytes(body)] if len(body) < SMALL else [first, body]


PING, PONG = frame_of(Kind.PING, None, app=0), frame_of(Kind.PONG, None, app=0)


def greeting_of(frame: Piece) -> Greeting:
    """What a HELLO or a READY says: short texts and numbers by name."""
    if not PREFIX.size < len(frame) <= MOST_GREETING:
        raise Broken(f"a greeting of {len(frame)} bytes, of at most {MOST_GREETING}")
    try:
        told = msgpack.decode(memoryview(frame)[PREFIX.size + (frame[4] << 8 | frame[5]) :], type=Greeting)
    except MsgspecError:
        raise Broken("a greeting that is not one") from None
    if len(told) > 16:
        raise Broken("a greeting that is not one")
    return told


def _weight(size: int) -> int:
    """What is left of a piece, as it counts among what waits."""
    return max(size, LIGHTEST) if size else 0


class Connection:
    """`take(header, body)` gets data, `greeted(frame)` a HELLO or READY; `run`'s thread calls both."""

    def __init__(self, sock: ssl.SSLSocket, card: Card, address: str, stall: float = STALL) -> None:
        sock.setblocking(False)
        self.sock, self.card, self.address, self.stall = sock, card, address, stall
        self.why = ""  # why it ended, in words
        self.error: BaseException | None = None
        self.take: Callable[[dict[str, Any], memoryview], None] = lambda header, body: None
        self.greeted: Callable[[bytearray], None] | None = None
        self.pinged = threading.Event()
        self._openssl = threading.Lock()
        self._room = threading.Condition()
        self._out: deque[Piece] = deque()
        self._queued, self._written = 0, 0  # bytes that wait, and that had to wait and are gone
        self._writing = self._ended = False
        self._writer = threading.Thread(target=self._write_all, name="coterie-connection", daemon=True)
        self._writer.start()

    # out

    def put(self, pieces: Sequence[Piece], wait: bool = True) -> None:
        """Sends one frame, or queues it; waits while the queue is full, unless it is a note that must not."""
        size = sum(_weight(len(piece)) for piece in pieces)
        with self._room:
            while wait and self._queued and self._queued + size > MOST_QUEUED and not self._ended:
                # one who takes a little now and then must not hold up those who send to others as well
                before, seconds = self._written, CROWDED * self.stall
                room = self._room.wait_for(
                    lambda: self._ended or not self._queued or self._queued + size <= MOST_QUEUED, seconds
                )
                if not room and (taken := self._written - before) < PART:
                    self.end(f"it takes too little: {taken} bytes within {seconds:g} s")
            if self._ended:
                raise Unreachable("the connection has ended")
            self._queued += size
            if self._writing or self._out or len(pieces) > 1:
                self._out.extend(pieces)
                self._room.notify_all()
                return
            self._writing = True
        self._write_at_once(memoryview(pieces[0]))

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
            self._queued -= _weight(size) - _weight(len(view))
            if view:
                self._out.appendleft(view)
            self._room.notify_all()
        if error is not None:
            self.end("the line broke", error)
            raise Unreachable("the connection has ended")

    def _write_all(self) -> None:
        try:
            while True:
                with self._room:
                    while (self._writing or not self._out) and not self._ended:
                        if not self._room.wait(BEAT) and not self._writing:
                            self._out.extend(PING)
                            self._queued += _weight(len(PING[0]))
                    if self._ended:
                        return
                    piece, self._writing = self._out.popleft(), True
                self._write(memoryview(piece))
                with self._room:
                    self._queued -= _weight(len(piece))
                    self._written += _weight(len(piece))
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
        if kind == Kind.DATA:
            start = PREFIX.size + (frame[4] << 8 | frame[5])
            told = memoryview(frame)[PREFIX.size : start]
            try:
                header = msgpack.decode(told, type=dict[str, Any]) if told else {}
            except (MsgspecError, RecursionError, ValueError):
                raise Broken("a header that cannot be read, or is no table") from None
            self.take(header, memoryview(frame)[start:])
        elif kind == Kind.PING:
            if self._queued <= MOST_QUEUED:  # it must not wait here, where what would make room is read
                self.put(PONG, wait=False)
        elif kind == Kind.PONG:
            self.pinged.set()
        elif kind in (Kind.HELLO, Kind.READY):
            if self.greeted is None:
                raise Broken("it greets twice")
            self.greeted(frame)
        else:
            raise Broken(f"a frame of an unknown kind, {kind}")

    def read(self, until: float | None = None) -> bytearray:
        first = bytearray(PREFIX.size)
        self._read_into(memoryview(first), until)
        length, header = PREFIX.unpack(first)[:2]
        if not PREFIX.size + header <= length <= MOST_FRAME:
            raise Broken(f"a frame of {length} bytes with a header of {header}")
        frame = bytearray(length)
        frame[: PREFIX.size] = first
        self._read_into(memoryview(frame)[PREFIX.size :], until)
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
        with contextlib.suppress(Unreachable):
            self.put(PING, wait=False)
            return self.pinged.wait(seconds)
        return False

    # the end

    def greet(self, kind: Kind, name: str, about: Mapping[str, Any] | None = None) -> None:
        """By one's name, with one's clock and what others may hear of one."""
        told = msgpack.encode({NAME: name, TIME: time.time(), VERSION: SCHEMA, **(about or {})})
        self.put(frame_of(kind, None, told, app=0), wait=False)

    def refuse(self, name: str, why: str) -> None:
        """Tells the other side why, and hangs up."""
        with contextlib.suppress(Unreachable):
            self.greet(Kind.READY, name, {"refused": why[:500]})
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
