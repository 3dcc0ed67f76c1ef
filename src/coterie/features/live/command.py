"""coterie watch"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group
from rich.live import Live as Drawn
from rich.text import Text

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadRun
from coterie.features.live.live import RECENT, Live, Study, heard, read_live, read_study
from coterie.features.live.shown import clock, event_text, missing, of_run, of_study, progress
from coterie.report.progress import figure_of
from coterie.runs.compare import is_comparison
from coterie.runs.folder import is_run, read_about, way_on
from coterie.runs.settings import read_toml
from coterie.storage.atomic import Entry
from coterie.storage.events import FILE as EVENTS
from coterie.storage.events import event_of, moment
from coterie.storage.paths import given_path
from coterie.storage.rounds import METRICS, TIMINGS
from coterie.storage.tail import Tail, last_lines

COMMANDS = {"watch": ("after", 10, "follow a run or a comparison while it goes on, from another terminal")}
HELP = """Follows a run or a comparison from another terminal: its rounds, who is there, what happened.

It ends when the run does. One that is stopped, killed or fails is waited for, as it may be resumed.
A site's kit shows the newest run that the site is in.

examples:
  coterie watch runs/digits-shift-fedavg-seed0
  coterie watch runs/compare-titanic-age-strict --once
"""
EVERY = 1.0  # seconds between two looks
ROUNDS = 6  # that are listed
CELLS = 12  # runs of a comparison that are listed
SHOWN = ("state/shown", "shown")  # in a site's kit, or its state: a folder for each run that it is in
LEFT = "watching no more; that changes nothing of the run"


@dataclass(frozen=True)
class _Watch:
    place: str = word("The folder of a run or a comparison, or a site's kit.", "PLACE")
    once: bool = flag(False, "Say how it is, and end.")


@command_with(Flags(_Watch, "watch", HELP))
def watch(asked: _Watch) -> int:
    given = given_path(asked.place)
    if asked.once:
        screen.out.print(_looked(given).view())
        return 0
    try:
        if screen.out.is_terminal:  # one picture, drawn anew at each look
            with Drawn(console=screen.out, auto_refresh=False) as drawn:
                for look in _looks(given):
                    drawn.update(look.view(), refresh=True)
        else:
            for line in _lines(given):
                print(line, flush=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(LEFT) from None
    return 0


def _lines(given: Path) -> Iterator[str]:
    """A line for whatever is new, for logs and where there is no terminal: events that have not been told
    yet, the last of those before somebody looked, and how the run is.
    """
    tails, told, mark = dict[Path, Tail](), dict[Path, str](), None
    for look in _looks(given):
        runs = look.runs()
        for name, path, _ in runs:
            first = path not in tails
            _, entries = tails.setdefault(path, Tail(path / EVENTS)).lines()
            events = [event for entry in entries if (event := event_of(entry)) is not None]
            for event in events[-RECENT if first else 0 :]:
                if event.time > told.get(path, ""):  # a file that was mended is read from its beginning
                    told[path] = event.time
                    yield event_text(event, name)
        now = [(name, live.state, live.done, list(live.late), list(live.away)) for name, _, live in runs]
        if now != mark:
            mark = now
            yield f"{clock(moment())} {look.line()}"


def _looks(given: Path) -> Iterator[_Look]:
    """One after the other, until the run is over."""
    while True:
        yield (look := _looked(given))
        if look.seen.state == "finished":
            return
        time.sleep(EVERY)


# one look


@dataclass(frozen=True)
class _Look:
    """A folder at this moment; `seen` has it as a run or as a comparison."""

    given: Path
    path: Path
    seen: Live | Study

    def runs(self) -> list[tuple[str, Path, Live]]:
        """What each run that has begun is called, and how it is."""
        if isinstance(self.seen, Live):
            return [("", self.path, self.seen)]
        cells = self.seen.cells
        return [(f"{c.label} seed {c.seed}: ", c.place, c.live) for c in cells if c.live is not None]

    def view(self) -> Group:
        """For a terminal."""
        if isinstance(self.seen, Study):
            # those that go on, and the last of the others
            going = {cell.place for cell in self.seen.going}
            others = [c.place for c in self.seen.cells if c.live is not None and c.place not in going]
            listed = {*going, *others[max(0, len(others) + len(going) - CELLS) :]}
            cells = [(cell, _figure(cell.place)) for cell in self.seen.cells if cell.place in listed]
            found = of_study(str(self.path), cells, self.seen)
        else:
            lines, timings = _lines_of(self.path), last_lines(self.path / TIMINGS, ROUNDS + 1)
            task = _fixed(self.path)[0]
            found = of_run(str(self.path), self.seen, figure_of(task, lines), task, lines[-ROUNDS:], timings)
        return Group(found, "", Text(self.waits(), "yellow")) if self.waits() else found

    def line(self) -> str:
        """For a log."""
        going = [run for run in self.runs() if run[2].goes_on or isinstance(self.seen, Live)]
        parts = [f"{name}{progress(live)}" for name, _, live in going]
        parts += [_figure(place) for _, place, _ in going[:1]] + [missing(live) for _, _, live in going]
        if isinstance(self.seen, Study):
            parts.insert(0, f"{self.seen.state}, {self.seen.done} of {self.seen.of} rounds")
        return "; ".join(part for part in (*parts, self.waits()) if part)

    def waits(self) -> str:
        """What has to happen for it to go on; nothing if it does, or is over."""
        if self.seen.state not in ("stopped", "failed"):
            return ""
        return "waiting for it" + (f": {way_on(self.path)}" if self.path == self.given else " to go on")


def _looked(given: Path) -> _Look:
    """At the folder that is meant: of a site's kit, that of the newest run."""
    path = given
    if not (is_comparison(given) or is_run(given)):
        runs = [place for where in SHOWN for place in given.glob(f"{where}/*") if is_run(place)]
        if not runs:
            raise BadRun(
                f"{given} is no run, no comparison, and no kit of a site that is in runs: check the path"
            )
        path = max(runs, key=heard)
    return _Look(given, path, read_study(path) if is_comparison(path) else read_live(path))


def _figure(place: Path) -> str:
    return figure_of(_fixed(place)[0], _lines_of(place))


def _lines_of(place: Path) -> list[Entry]:
    """The last rounds, one that was scored among them."""
    return last_lines(place / METRICS, max(ROUNDS, _fixed(place)[1]))


@functools.cache
def _fixed(place: Path) -> tuple[str, int]:
    """What a run is on, and how often it is scored."""
    evaluate = read_toml(place / "config.toml").get("evaluate", 1)
    return str(read_about(place / "run.json")["task"]), evaluate
