"""Parts of messages become messages, within what their receiver is ready to hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from coterie.federation.headers import MOST_BODY, PART, PARTS

MOST_OPEN = 4  # messages of one sender that are put together at once
SLOW = 120.0  # seconds within which a message must grow by a part, or be whole

Header = dict[str, Any]
Admit = Callable[[Header, int], Callable[[], None] | None]
"""Gets the first header of a message and how large it will be, and gives back how to let go of it; None if it
is not taken.
"""


@dataclass
class Unfinished:
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


def anything(header: Header, size: int) -> Callable[[], None]:
    return lambda: None


class Assembly:
    """What does not fit together is dropped, and so is what is not admitted, too slow, or of who has left."""

    def __init__(self, admit: Admit = anything) -> None:
        self.admit = admit
        self.open: dict[tuple[str, int], Unfinished] = {}
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
            self.open[key] = Unfinished(kept, size, bytearray(part), let_go, (time.monotonic(), 0))

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
