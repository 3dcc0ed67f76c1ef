"""How far a run is and who is in it, for others than the process that runs it: read from its folder.

Little is read: the ends of files that grow, and what is small. Whether a run goes on is known by the lock of
its folder, which dies with its process. So a kill needs no last word, and a folder of an earlier version,
without events.jsonl and now.json, is understood too. So is what a site is shown of a run, STATE/shown/RUN,
while the site's process has the lock of STATE.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from coterie.core.errors import BadRun
from coterie.core.observer import ENDS
from coterie.features.live.hook import FILE as NOW
from coterie.features.live.hook import read_now
from coterie.runs.compare import is_comparison, places_in
from coterie.runs.folder import is_run, read_about
from coterie.runs.settings import read_toml
from coterie.storage import locks
from coterie.storage.atomic import Entry
from coterie.storage.events import FILE as EVENTS
from coterie.storage.events import Event, moment, read_events
from coterie.storage.presence import read_presence
from coterie.storage.rounds import METRICS, TIMINGS
from coterie.storage.tail import last_lines

State = Literal["waiting", "running", "stopped", "failed", "finished"]
LATE, TIMES = 5.0, 3.0  # seconds, and times a usual round, after which who was asked is late
USUAL = 25  # rounds whose median is usual
RECENT = 8  # events
KILLED = "its process ended without a word"
ALONE = "coterie site does not run here"
NO_LINE = "no line to the relay"
GONE = "not connected"


@dataclass(frozen=True)
class Live:
    """A run at this moment.

    state    waiting (for sites; of a site's part of a run, for who leads it), running, stopped, failed,
             finished
    done     the last round that is over
    round    the one that is being played; the last that is over, if the run does not go on
    doing    training, scoring, mixing, waiting, writing; nothing where that is not known
    since    when its process began, or went on with it; else when it was last heard of
    here     who is there, in a run that goes on
    late     who has been asked for longer than is usual, and for how many seconds; at a site, who leads the
             run and has not told anything for so long
    away     who is not there, and why
    events   the last ones, the newest at the end
    why      what ended a run that stopped or failed; why a site waits, if it knows
    """

    state: State
    done: int
    round: int
    of: int
    doing: str = ""
    since: str = ""
    here: tuple[str, ...] = ()
    late: Mapping[str, float] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    why: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether a process has it in hand."""
        return self.state in ("running", "waiting")


def read_live(path: Path, clock: float | None = None) -> Live:
    """The run of a folder; at another time than now, `clock` seconds as `time.time` has them."""
    if not is_run(path):
        raise BadRun(f"{path} is not a run folder: it has no config.toml and run.json")
    run = _fixed(path, *((path / file).stat().st_mtime_ns for file in ("config.toml", "run.json")))
    process = locks.held(path.parent.parent if run.lead else path)  # first: what it wrote last is then seen
    line = next(iter(last_lines(path / METRICS, 1)), {})
    done, events = _number(line.get("round")), tuple(read_events(path, RECENT))
    played = done >= run.rounds or bool(line.get("ended"))
    ended: tuple[State, str] | None = None if process is not None else _ended(events, run.lead)
    if run.lead and events and events[-1].what == "diverged":
        ended = "failed", events[-1].why
    elif played and (run.lead or (path / "models.safetensors").exists()):
        ended = "finished", ""
    if ended is not None or process is None:
        state, why = ended or ("stopped", "")
        return Live(state, done, done, run.rounds, since=moment(heard(path)), events=events, why=why)
    clock = time.time() if clock is None else clock
    return _shown(path, run, line, clock) if run.lead else _going(path, run, line, events, process, clock)


class _Fixed(NamedTuple):
    """What stays the same of a run; `lead` leads one of which this is only what a site is shown of it."""

    rounds: int
    names: tuple[str, ...]
    lead: str


@functools.lru_cache(maxsize=512)
def _fixed(path: Path, *changed: int) -> _Fixed:
    rounds, about = read_toml(path / "config.toml").get("rounds"), read_about(path / "run.json")
    return _Fixed(_number(rounds), tuple(c["name"] for c in about["clients"]), str(about.get("lead", "")))


def _going(
    path: Path, run: _Fixed, line: Entry, events: tuple[Event, ...], process: int, clock: float
) -> Live:
    """A run that a process has in hand."""
    told = read_now(path)
    if process not in (0, told.get("pid")):  # an earlier process wrote it
        told = {}
    done = _number(line.get("round"))
    round, at_least = _number(told.get("round")), min(done + 1, run.rounds)
    if round < at_least:  # short rounds are ahead of it: who was there then is not said of now
        told = {"since": told.get("since", "")}
    here = told.get("here")
    away = told.get("away") or ({} if here else line.get("away", {}))
    asked = {name: datetime.fromisoformat(since) for name, since in (told.get("asked") or {}).items()}
    waited = {name: clock - since.timestamp() for name, since in asked.items()}
    patience = late_after(_usual(path)) if waited else 0.0
    return Live(
        "waiting" if told.get("doing") == "waiting" else "running",
        done,
        max(round, at_least),
        run.rounds,
        doing=told.get("doing", ""),
        since=told.get("since", ""),
        here=tuple(here or (name for name in run.names if name not in away)),
        late={name: seconds for name, seconds in waited.items() if seconds > patience},
        away=away,
        events=events,
    )


def _shown(path: Path, run: _Fixed, line: Entry, clock: float) -> Live:
    """A site's part of a run: whoever leads that is elsewhere, and may have gone without a word. Who is
    connected, the site knows by itself.
    """
    done, away, last = _number(line.get("round")), line.get("away", {}), heard(path)
    quiet, here = clock - last > late_after(_usual(path)), read_presence(path.parent.parent)
    if quiet and here:
        away = {**{name: GONE for name in (run.lead, *run.names) if name not in here}, **away}
    return Live(
        "waiting" if quiet else "running",
        done,
        min(done + 1, run.rounds),
        run.rounds,
        since=moment(last),
        here=tuple(name for name in run.names if name not in away),
        late={run.lead: clock - last} if quiet and run.lead not in away else {},
        away=away,
        why=NO_LINE if quiet and here is not None and not here else "",
    )


def _ended(events: Sequence[Event], lead: str) -> tuple[State, str]:
    """Of a run that nobody has in hand, how it came to that."""
    if lead:
        return "stopped", ALONE
    if not events or events[-1].what not in ENDS:
        return "stopped", KILLED if events else ""
    last = events[-1]
    return ("stopped" if last.what in ("stopped", "finished") else "failed"), last.why


def _usual(path: Path) -> list[float]:
    """Seconds of the last rounds."""
    lines = last_lines(path / TIMINGS, USUAL)
    return [line["seconds"] + line["evaluate_seconds"] for line in lines if line.get("round", 0) > 0]


def late_after(rounds: Sequence[float]) -> float:
    """Seconds after which who was asked is late, by what earlier rounds took."""
    return max(LATE, TIMES * median(rounds)) if rounds else LATE


def heard(path: Path) -> float:
    """When something was last written into a run's folder."""
    files = [path / name for name in ("run.json", METRICS, EVENTS, NOW)]
    return max(file.stat().st_mtime for file in files if file.exists())


def _number(value: Any) -> int:
    return value if type(value) is int else 0


# comparisons


@dataclass(frozen=True)
class Cell:
    """One run of a comparison; `live` is None before it begins."""

    place: Path
    label: str
    seed: int
    live: Live | None


@dataclass(frozen=True)
class Study:
    """A comparison at this moment: its runs in order, and how many rounds they have in all."""

    state: State
    cells: tuple[Cell, ...]
    done: int
    of: int

    @property
    def going(self) -> list[Cell]:
        """Runs that a process has in hand; several, if it trains some side by side."""
        return [cell for cell in self.cells if cell.live is not None and cell.live.goes_on]


def read_study(path: Path, clock: float | None = None) -> Study:
    """The comparison of a folder."""
    if not is_comparison(path):
        raise BadRun(f"{path} is not a comparison: it has no compare.toml")
    rounds = _number(read_toml(path / "compare.toml").get("rounds"))
    places = [(*place, is_run(place[0])) for place in places_in(path)]
    cells = tuple(
        Cell(p, label, seed, read_live(p, clock) if run else None) for p, label, seed, run in places
    )
    begun = [cell.live for cell in cells if cell.live is not None]
    done = sum(live.of if live.state == "finished" else live.done for live in begun)
    of = sum(live.of for live in begun) + rounds * (len(cells) - len(begun))
    states: set[State] = {live.state for live in begun}
    state: State = "failed" if "failed" in states else "stopped"
    if states == {"finished"} and len(begun) == len(cells):
        state = "finished"
    elif "running" in states or ("waiting" not in states and locks.held(path) is not None):  # or between two
        state = "running"
    elif "waiting" in states:
        state = "waiting"
    return Study(state, cells, done, of)
