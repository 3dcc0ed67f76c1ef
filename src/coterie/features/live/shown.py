"""Who is late or away in a run that goes on, below its bar."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.core.errors import BadRun
from coterie.features.live.live import Live, read_live
from coterie.show import numbers
from coterie.show.blocks import Block, Note
from coterie.show.parts import Part, Runs

FEW = 8  # names in a line


def _missing_part(runs: Runs) -> list[Block]:
    try:
        line = "" if runs.folder is None else missing(read_live(runs.folder))
    except (BadRun, OSError):  # before it begins, there is nothing to see
        line = ""
    return [Note(line)] if line else []


def missing(live: Live) -> str:
    """Who is late and who is away, in short; nothing if nobody is."""
    late = [f"{name} {waiting_time(seconds)}" for name, seconds in live.late.items()]
    told = {"late": late, "away": list(live.away)}
    return "; ".join(f"{what}: {names_in_short(some)}" for what, some in told.items() if some)


def waiting_time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else numbers.duration(seconds)


def names_in_short(names: Iterable[str]) -> str:
    some = list(names)
    more = f" and {len(some) - FEW} more" if len(some) > FEW else ""
    return ", ".join(some[:FEW]) + more


PARTS = (Part("missing", "", 10, _missing_part, on="bar"),)
