"""What a whole command spent its time on, kept beside its runs in timings.jsonl."""

from __future__ import annotations

from pathlib import Path

from coterie.core.clock import CLOCK
from coterie.storage.atomic import append_line, read_lines
from coterie.storage.rounds import TIMINGS

Spent = dict[str, float]


def write_cost(path: Path) -> None:
    """One line for the command, at its end."""
    append_line(path / TIMINGS, {"whole": CLOCK.read()})


def read_cost(path: Path) -> Spent | None:
    """Seconds by part of the last command that ended; None before, and for runs from Python."""
    lines = [line["whole"] for line in read_lines(path / TIMINGS) if "whole" in line]
    return lines[-1] if lines else None
