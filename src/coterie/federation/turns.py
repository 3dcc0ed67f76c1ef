"""Whose turn it is at a site: leads are several, the site is one, and who waits can hear for whom."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

MOMENT = 1.0  # seconds for which a site may be at work before it is busy


class Turns:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._now: tuple[str, str, float] | None = None  # for whom, what is done, and since when

    @contextlib.contextmanager
    def alone(self, leader: str, what: str) -> Iterator[None]:
        with self.lock:
            self._now = (leader, what[:20], time.monotonic())
            try:
                yield
            finally:
                self._now = None

    def busy(self) -> tuple[str, str]:
        """Whose question is worked at, and that in words; nothing if none is."""
        now = self._now
        if now is None:
            return "", ""
        leader, what, since = now
        return leader, f"busy: a {what} of {leader} since {time.monotonic() - since:.0f} s"

    def wait(self) -> str:
        """Nothing if it is free within a moment; else with what it is busy."""
        if self.lock.acquire(timeout=MOMENT):
            self.lock.release()
            return ""
        return self.busy()[1] or "busy"
