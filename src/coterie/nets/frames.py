"""Messages on a socket: each behind eight bytes that say how long it is."""

from __future__ import annotations

import socket


def send(line: socket.socket, data: bytes) -> None:
    line.sendall(len(data).to_bytes(8, "big") + data)


def receive(line: socket.socket) -> bytes | None:
    """The next message; None if the other side has hung up."""
    head = _exactly(line, 8)
    return None if head is None else _exactly(line, int.from_bytes(head, "big"))


def _exactly(line: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        try:
            more = line.recv_into(view[got:])
        except ConnectionResetError:
            return None
        if not more:
            return None
        got += more
    return bytes(data)
