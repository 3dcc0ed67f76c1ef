"""Messages on a socket: each behind eight bytes that say how long it is. Memory grows with what has come, not
with what was said.
"""

from __future__ import annotations

import socket

AT_ONCE = 64 << 20  # bytes for which memory is taken before they are there


def send(line: socket.socket, data: bytes) -> None:
    line.sendall(len(data).to_bytes(8, "big") + data)


def receive(line: socket.socket) -> bytes | None:
    """The next message; None if the other side has hung up."""
    head = _exactly(line, 8)
    return None if head is None else _exactly(line, int.from_bytes(head, "big"))


def _exactly(line: socket.socket, size: int) -> bytes | None:
    data, got = bytearray(min(size, AT_ONCE)), 0
    while got < size:
        if got == len(data):
            data += bytes(min(size - got, got))
        try:
            with memoryview(data) as view:
                more = line.recv_into(view[got:])
        except ConnectionResetError:
            return None
        if not more:
            return None
        got += more
    return bytes(data)
