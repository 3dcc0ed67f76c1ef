"""How many bytes of others' messages a party holds at once, decided before memory is taken for them.

A message says in its first frame how large it is. What is on its way in and what waits to be done counts
against its sender, and all senders together against the party; what is above is refused, and takes no memory.
"""

from __future__ import annotations

import threading
from collections import Counter

MOST_MESSAGE = 2**30  # bytes of a question or a letter, where no policy says less or more
ENVELOPE = 64 << 10  # bytes around what a policy counts: a seal, and the header of a letter
MOST_SHORT = 64 << 10  # bytes of what is short by its nature: a refusal, a note, a call
MOST_RELAY_NOTE = 8 << 20  # bytes that the relay may tell at once: who is here, with all certificates
TOGETHER = 8  # senders that may use all that one may have
LEAST_TOGETHER = 256 << 20  # bytes of all senders, where one may have few
LATER = "; try again later"  # how a refusal ends that is over when others are done
TOO_LARGE = ": send less, or raise max_bytes there"  # and one that lasts


class Intake:
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

    def held_of(self, sender: str) -> int:
        with self._lock:
            return self._held[sender]

    def take(self, sender: str, size: int) -> str:
        """Counts a message, or says why it must not be taken."""
        most = self.most + self.spare
        if size > most:
            return f"{size} bytes in a message, of at most {self.most}{TOO_LARGE}"
        with self._lock:
            mine, others = self._held[sender], self._held.total()
            if mine + size > most:
                return (
                    f"full: {mine} bytes are unfinished or wait, and {size} more are above {self.most}{LATER}"
                )
            if others + size > self.together:
                return f"full: others hold {others} bytes, and {size} more are above {self.together}{LATER}"
            self._held[sender] += size
        return ""

    def give_back(self, sender: str, size: int) -> None:
        with self._lock:
            self._held[sender] -= size
            if self._held[sender] <= 0:
                del self._held[sender]
