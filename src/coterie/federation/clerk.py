"""What a party says at once, whatever its workers are at: refusals, and that somebody has to wait."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable

log = logging.getLogger("coterie")

TICK = 1.0  # seconds between two looks at who waits
MOST_SAID = 8  # things that one sender is told between two looks


class Clerk:
    """A thread of its own; `look` is called about every second."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._counts = Counter[str]()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="coterie-clerk", daemon=True)
        self._thread.start()

    def soon(self, sender: str, do: Callable[[], None]) -> bool:
        """Is done by the clerk; not if this sender has had its share, so that nobody is kept from theirs."""
        with self._lock:
            if self._counts[sender] >= MOST_SAID:
                return False
            self._counts[sender] += 1
        self._todo.put(do)
        return True

    def close(self) -> None:
        self._todo.put(None)

    def _run(self) -> None:
        due = time.monotonic() + TICK
        while True:
            try:
                do = self._todo.get(timeout=max(0.0, due - time.monotonic()))
                if do is None:
                    return
                self._safely(do)
            except queue.Empty:
                with self._lock:
                    self._counts.clear()
                self._safely(self.look)
                due = time.monotonic() + TICK

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:  # a clerk that ends would leave everybody without a word
            log.warning("something could not be said", exc_info=True)
