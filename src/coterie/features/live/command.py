"""coterie watch"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live as Drawn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadRun
from coterie.features.live.live import RECENT, Cell, Live, Study, heard, read_live, read_study
from coterie.features.live.shown import FEW, missing, names_in_short, waiting_time
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import headline
from coterie.report.progress import Lines, figure_of
from coterie.runs.compare import is_comparison
from coterie.runs.folder import is_run, read_about, way_on
from coterie.runs.settings import read_toml
from coterie.show import numbers
from coterie.storage.atomic import Entry
from coterie.storage.events import FILE as EVENTS
from coterie.storage.events import Event, event_of, moment
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
WIDE = 60  # letters of a bar
STYLES = {"running": "green", "waiting": "yellow", "stopped": "yellow", "failed": "red", "finished": "bold"}
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
                    yield _event_text(event, name)
        now = [(name, live.state, live.done, list(live.late), list(live.away)) for name, _, live in runs]
        if now != mark:
            mark = now
            yield f"{_clock(moment())} {look.line()}"


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
            found = _of_study(str(self.path), cells, self.seen)
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


# as a terminal shows it: in a line, and as tables that are drawn again and again


def _event_text(event: Event, run: str = "") -> str:
    """When and in which round what happened, in a run of that name."""
    return f"{_clock(event.time)} {run}round {event.round}: {event}"


def progress(live: Live) -> str:
    """How far a run is and what it does."""
    if live.state == "waiting":
        what = " for sites" if live.doing == "waiting" else f" ({live.why})" if live.why else ""
        return f"waiting{what}, round {live.round} of {live.of}"
    if live.state == "running":
        return f"round {live.round} of {live.of}{', ' if live.doing else ''}{live.doing}"
    after = f"{live.state} after round {live.done} of {live.of}"
    return f"{after}: {live.why}" if live.why else after


def _clock(time: str) -> str:
    """The time of day, in the zone of who reads it; with the day, if that is another one."""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except ValueError:
        return ""
    today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def of_run(title: str, live: Live, figure: str, task: str, lines: Lines, timings: Lines) -> Group:
    """One run: how far, its last rounds, who is there, what happened."""
    head = Text.assemble((title, "bold"), "\n", (progress(live), STYLES[live.state]))
    parts: list[RenderableType] = [head.append(f"; {figure}" if figure else ""), _bar(live.done, live.of)]
    if lines:
        parts += ["", _rounds(task, lines, timings)]
    return Group(*parts, *_people(live))


def _of_study(title: str, cells: Sequence[tuple[Cell, str]], study: Study) -> Group:
    """A comparison: a line for each of some runs, with its figure, and who is in the first that goes on."""
    count = Counter(cell.live.state if cell.live else "to come" for cell in study.cells)
    said = ", ".join(f"{many} {state}" for state, many in count.items())
    head = Text.assemble((title, "bold"), f"\n{numbers.several(len(study.cells), 'run')}: {said}")
    table = Table("method", "seed", "rounds", "", "", box=None, header_style="bold", pad_edge=False)
    for cell, figure in cells:
        if cell.live is not None:
            done = f"{cell.live.done}/{cell.live.of}"
            state = Text(cell.live.state, STYLES[cell.live.state])
            table.add_row(Text(cell.label), str(cell.seed), done, Text(figure), state)
    parts: list[RenderableType] = [head, _bar(study.done, study.of), "", table]
    first = next((cell.live for cell in study.going), None)
    return Group(*parts, *(_people(first) if first else ()))


def _bar(done: int, of: int) -> ProgressBar:
    return ProgressBar(total=max(of, 1), completed=done, width=WIDE)


def _rounds(task: str, lines: Lines, timings: Lines) -> Table:
    metric = headline(task)
    seconds = {t["round"]: t["seconds"] + t["evaluate_seconds"] for t in timings if "round" in t}
    header = ("round", numbers.unit(metric), "seconds", "away")
    table = Table(*header, box=None, header_style="bold", pad_edge=False)
    for line in lines:
        values = (line["scores"] or {}).get("own/test", {}).get(metric)
        value = numbers.figure(mean_over_clients(values), metric) if values else numbers.NONE
        took = f"{seconds[line['round']]:.2f}" if line["round"] in seconds else numbers.NONE
        table.add_row(str(line["round"]), value, took, Text(names_in_short(line.get("away", {}))))
    return table


def _people(live: Live) -> list[RenderableType]:
    """Who is there, and the last events."""
    grid = Table.grid("", "", padding=(0, 2))
    if live.goes_on:
        grid.add_row("here", Text(f"{len(live.here)}: {names_in_short(live.here)}"))
    for name, seconds in live.late.items():
        grid.add_row(Text("late", "yellow"), Text(f"{name}, nothing from it for {waiting_time(seconds)}"))
    for name, why in list(live.away.items())[:FEW]:
        grid.add_row(Text("away", "red"), Text(f"{name}: {why}"))
    if len(live.away) > FEW:
        grid.add_row("", f"and {len(live.away) - FEW} more")
    shown: list[RenderableType] = ["", grid] if grid.row_count else []
    return [*shown, "", *(Text(_event_text(event)) for event in live.events)] if live.events else shown
