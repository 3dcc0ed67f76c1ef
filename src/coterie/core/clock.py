"""What the time goes into, by part: a second counts for the innermost part that it was spent in.

One clock for the process, as its parts (importing, recording steps, writing) belong to no single run. Whoever
wants to know what a stretch of work took reads it before and after.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

PARTS = ("start-up", "data", "tracing", "training", "scoring", "writing", "report")


class Clock:
    """Seconds by part, of the thread that made it; what other threads do counts for where it waits.

    The usual parts are always there; others from when they were first entered.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now, self._last = now, now()
        self._inside: list[str] = []
        self._thread = threading.get_ident()
        self._spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)

    def read(self) -> dict[str, float]:
        """Seconds so far."""
        self._count()
        return dict(self._spent)

    def since(self, before: Mapping[str, float]) -> dict[str, float]:
        """What each part has taken since it was read; of the unusual ones, those that took any time."""
        spent = {name: seconds - before.get(name, 0.0) for name, seconds in self.read().items()}
        return {name: seconds for name, seconds in spent.items() if name in PARTS or seconds > 0}

    def add(self, seconds: Mapping[str, float]) -> None:
        """What another process spent for this one."""
        for name, more in seconds.items():
            self._spent[name] = self._spent.get(name, 0.0) + more

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Inside, seconds count for this part."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._count()
        self._inside.append(name)
        try:
            yield
        finally:
            self._count()
            self._inside.pop()

    def _count(self) -> None:
        now = self._now()
        if self._inside:
            name = self._inside[-1]
            self._spent[name] = self._spent.get(name, 0.0) + now - self._last
        self._last = now


CLOCK = Clock()


_UNSPENT = {"training": 0.0, "scoring": 0.0}  # CPU seconds


class Times:
    """Lines of a run's timings.jsonl: what was spent since the line before, by part."""

    def __init__(self) -> None:
        self._last, self._cpu = CLOCK.read(), dict(_UNSPENT)

    @contextlib.contextmanager
    def work(self, part: str = "training") -> Iterator[None]:
        """Inside, CPU seconds of this process count as training, or as scoring."""
        before = time.process_time()
        try:
            yield
        finally:
            self._cpu[part] += time.process_time() - before

    def spent(self) -> tuple[float, float]:
        """Seconds of training since the last line: on the clock, and of the processor."""
        parts = CLOCK.since(self._last)
        return parts["training"] + parts["tracing"], self._cpu["training"]

    def line(self, round: int) -> dict[str, Any]:
        parts, self._last = CLOCK.since(self._last), CLOCK.read()
        seconds = parts["training"] + parts["tracing"]
        cpu, self._cpu = self._cpu, dict(_UNSPENT)
        return {
            "round": round,
            "seconds": seconds,
            "evaluate_seconds": parts["scoring"],
            "cpu_seconds": cpu["training"],
            "evaluate_cpu_seconds": cpu["scoring"],
            "parts": parts,
        }
