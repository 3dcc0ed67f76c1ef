"""Frames become messages, within what their receiver is ready to hold.

A message says in its first frame how large it is. What is on its way in and what waits to be done counts
against its sender, and all senders together against the party, before memory is taken for it (`Quota`); what
is above is refused. Parts are put together as they come (`Assembly`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie.federation import messages
from coterie.federation.messages import printable

MOST_BODY = 2 << 30
PART = 1 << 20  # bytes of a body in one frame
BOUND = ("from", "to", "kind", "number", "boot", "mine")  # what a seal binds
PARTS = ("id", "at", "size")
MOST_MESSAGE = 2**30  # bytes of a question or a peer message, where no policy says less or more
ENVELOPE = 64 << 10  # bytes around what a policy counts: a seal, and the header of a peer message
MOST_SHORT = 64 << 10  # bytes of what is short by its nature: a refusal, a note, a call
MOST_RELAY_NOTE = 8 << 20  # bytes that the relay may tell at once: who is here, with all certificates
TOGETHER = 8  # senders that may use all that one may have
LEAST_TOGETHER = 256 << 20  # bytes of all senders, where one may have few
LATER = "; try again later"  # how a refusal ends that is over when others are done
TOO_LARGE = ": send less, or raise max_bytes there"  # and one that lasts
MOST_OPEN = 4  # messages of one sender that are put together at once
SLOW = 120.0  # seconds within which a message must grow by a part, or be whole

Header = dict[str, Any]
Admit = Callable[[Header, int], Callable[[], None] | None]
"""Gets the first header of a message and how large it will be, and gives back how to let go of it; None if it
is not taken.
"""


def wrong(header: Mapping[str, Any], size: int) -> str:
    """What is wrong with a frame's header, of a body of `size` bytes; "" if nothing is."""
    try:
        whole = msgspec.convert(header, messages.Header).size
    except (msgspec.ValidationError, ValueError) as error:
        return printable(error, 200)
    return f"{whole} bytes, of at most {MOST_BODY}" if max(whole, size) > MOST_BODY else ""


def bound(header: Mapping[str, Any]) -> dict[str, Any]:
    return {key: header[key] for key in BOUND if key in header}


class Quota:
    """`most` is for one message, and for all of one sender together; `spare` is for what goes around it."""

    def __init__(self, most: int, spare: int = 0) -> None:
        self.most, self.spare = most, spare
        self.together = max(TOGETHER * (most + spare), LEAST_TOGETHER)
        self._held = Counter[str]()
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes of all senders."""
        with self._lock:
            return self._held.total()

    def take(self, sender: str, size: int) -> str:
        """Counts a message, or says why it must not be taken."""
        most = self.most + self.spare
        if size > most:
            return f"{size} bytes in a message, of at most {self.most}{TOO_LARGE}"
        with self._lock:
            mine, others = self._held[sender], self._held.total()
            if mine + size > most:
                held = f"full: {mine} bytes are unfinished or wait"
                return f"{held}, and {size} more are above {self.most}{LATER}"
            if others + size > self.together:
                return f"full: others hold {others} bytes, and {size} more are above {self.together}{LATER}"
            self._held[sender] += size
        return ""

    def give_back(self, sender: str, size: int) -> None:
        with self._lock:
            self._held[sender] -= size
            if self._held[sender] <= 0:
                del self._held[sender]


@dataclass
class _Unfinished:
    header: Header
    size: int
    body: bytearray
    let_go: Callable[[], None]
    grew: tuple[float, int]  # when it was last a part longer, and how long it was

    def is_slow(self, now: float) -> bool:
        since, size = self.grew
        if len(self.body) - size >= PART:
            self.grew = (now, len(self.body))
            return False
        return now - since > SLOW


class Assembly:
    """What does not fit together is dropped, and so is what is not admitted, too slow, or of who has left."""

    def __init__(self, admit: Admit = lambda header, size: lambda: None) -> None:
        self.admit = admit
        self.open: dict[tuple[str, int], _Unfinished] = {}
        self._lock = threading.Lock()  # the line adds, others look for what is slow

    @property
    def held(self) -> int:
        with self._lock:
            return sum(len(one.body) for one in self.open.values())

    def add(self, header: Header, part: memoryview) -> tuple[Header, bytes] | None:
        """The message that this part completes, if it does."""
        if "id" not in header:
            return header, bytes(part)
        key, at, size = (header.get("from", ""), header["id"]), header.get("at"), header.get("size")
        with self._lock:
            if at == 0 and isinstance(size, int) and len(part) < size <= MOST_BODY:
                self._begin(key, header, size, part)
                return None
            one = self.open.get(key)
            if one is None:
                return None
            if at != len(one.body) or size != one.size or at + len(part) > size or not part:
                self._drop(key)
                return None
            one.body += part
            if len(one.body) < one.size:
                return None
            self._drop(key)
            return one.header, one.body  # type: ignore[return-value]  # bytes in all but name

    def _begin(self, key: tuple[str, int], header: Header, size: int, part: memoryview) -> None:
        self._drop(key)
        mine = [k for k in self.open if k[0] == key[0]]
        for old in mine[: max(0, len(mine) + 1 - MOST_OPEN)]:
            self._drop(old)
        kept = {k: v for k, v in header.items() if k not in PARTS}
        let_go = self.admit(kept, size)
        if let_go is not None:
            self.open[key] = _Unfinished(kept, size, bytearray(part), let_go, (time.monotonic(), 0))

    def _drop(self, key: tuple[str, int]) -> None:
        one = self.open.pop(key, None)
        if one is not None:
            one.let_go()

    def has_of(self, sender: str) -> bool:
        with self._lock:
            return any(key[0] == sender for key in self.open)

    def forget(self, here: Collection[str] = ()) -> None:
        """Halves of messages end with the connection of who sends them, and with our own."""
        with self._lock:
            for key in [k for k in self.open if k[0] not in here]:
                self._drop(key)

    def slow(self) -> list[Header]:
        """Drops what grows too slowly, and says of what messages that was."""
        now = time.monotonic()
        with self._lock:
            keys = [key for key, one in self.open.items() if one.is_slow(now)]
            found = [self.open[key].header for key in keys]
            for key in keys:
                self._drop(key)
        return found
