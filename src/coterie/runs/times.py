"""What a run takes, by part and round: lines of timings.jsonl."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from coterie.core.clock import CLOCK, since
from coterie.runs.budget import kwh

UNSPENT = {"training": 0.0, "scoring": 0.0}  # CPU seconds


class Times:
    """Lines of timings.jsonl: what was spent since the line before, by part."""

    def __init__(self) -> None:
        self._last, self._cpu = CLOCK.read(), dict(UNSPENT)

    @contextlib.contextmanager
    def work(self, part: str = "training") -> Iterator[None]:
        """Inside, CPU seconds of this process count as training, or as scoring."""
        before = time.process_time()
        try:
            yield
        finally:
            self._cpu[part] += time.process_time() - before

    def spent(self, power: float) -> dict[str, float]:
        """Seconds of training since the last line, and an estimate of kWh."""
        parts = since(self._last)
        return {"seconds": parts["training"] + parts["tracing"], "kwh": kwh(self._cpu["training"], power)}

    def line(self, round: int) -> dict[str, Any]:
        parts, self._last = since(self._last), CLOCK.read()
        seconds = parts["training"] + parts["tracing"]
        cpu, self._cpu = self._cpu, dict(UNSPENT)
        return {
            "round": round,
            "seconds": seconds,
            "evaluate_seconds": parts["scoring"],
            "cpu_seconds": cpu["training"],
            "evaluate_cpu_seconds": cpu["scoring"],
            "parts": parts,
        }
