"""What happens to a run besides its rounds, a line each in events.jsonl: who goes and comes, how it ends.

    {"time": when, with its zone, "round": r, "what": one of `WORDS`, "who": a site or null, "why": text}

Lines are only ever added, by each process that goes on with the run. They differ each time and say nothing
that a run is repeated by. A kill writes none: `features/live/live.py` sees that nobody has
the folder any more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import get_args

from coterie.core.errors import BadRun
from coterie.core.observer import What, said
from coterie.storage.atomic import Entry, append_line, keep_lines
from coterie.storage.tail import last_lines

FILE = "events.jsonl"
LONGEST = 2000  # letters of why


def moment(seconds: float | None = None) -> str:
    """A time as files have it, with its zone: now, or as `time.time` has it."""
    found = datetime.now() if seconds is None else datetime.fromtimestamp(seconds)
    return found.astimezone().isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Event:
    time: str
    """As `moment` writes it."""
    round: int
    what: What
    who: str | None = None
    why: str = ""

    def __str__(self) -> str:
        return said(self.what, self.who, self.why)


class Events:
    """Those of a run's folder, to add to; `last` is what happened last before."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        keep_lines(self.path, lambda entry: True)  # a last one cut short would spoil the next
        self.last = next((event.what for event in read_events(folder, 1)), None)

    def append(self, round: int, what: What, who: str | None = None, why: str = "") -> None:
        append_line(self.path, asdict(Event(moment(), round, what, who, why[:LONGEST])))


def read_events(folder: Path, most: int) -> list[Event]:
    """The last ones, at most so many; none in folders of earlier versions."""
    return [event for entry in last_lines(folder / FILE, most) if (event := event_of(entry)) is not None]


def event_of(entry: Entry) -> Event | None:
    """What a line says; None if it is none of ours."""
    when, round, what = (entry.get(key) for key in ("time", "round", "what"))
    who, why = entry.get("who"), entry.get("why", "")
    known = isinstance(when, str) and type(round) is int and what in get_args(What)
    if not (known and isinstance(who, str | None) and isinstance(why, str)):
        return None
    return Event(when, round, what, who, why)  # type: ignore[arg-type]


def read_divergence(path: Path) -> str:
    """How training diverged, if that is the last that happened to a run."""
    return next((e.why or "training diverged" for e in read_events(path, 1) if e.what == "diverged"), "")


def refuse_without_result(path: Path) -> None:
    """Refuses to make anything of a run that diverged."""
    if why := read_divergence(path):
        raise BadRun(f"{path} has no result, as training diverged ({why}): start anew with another --out")
