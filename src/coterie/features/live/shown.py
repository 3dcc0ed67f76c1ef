"""Runs that go on, as a terminal shows them: who is late or away, below the bar of a run; in a line, and as
tables that are drawn again and again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coterie.core.errors import BadRun
from coterie.features.live.live import Cell, Live, Study, read_live
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import headline
from coterie.report.progress import Lines
from coterie.show import numbers
from coterie.show.blocks import Block, Note
from coterie.show.parts import Part, Runs
from coterie.storage.events import Event

FEW = 8  # names in a line
WIDE = 60  # letters of a bar
STYLES = {"running": "green", "waiting": "yellow", "stopped": "yellow", "failed": "red", "finished": "bold"}


def _missing_part(runs: Runs) -> list[Block]:
    try:
        line = "" if runs.folder is None else missing(read_live(runs.folder))
    except (BadRun, OSError):  # before it begins, there is nothing to see
        line = ""
    return [Note(line)] if line else []


PARTS = (Part("missing", "", 10, _missing_part, on="bar"),)


# in a line


def missing(live: Live) -> str:
    """Who is late and who is away, in short; nothing if nobody is."""
    late = [f"{name} {_waited(seconds)}" for name, seconds in live.late.items()]
    told = {"late": late, "away": list(live.away)}
    return "; ".join(f"{what}: {_listed(some)}" for what, some in told.items() if some)


def _waited(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else numbers.duration(seconds)


def event_text(event: Event, run: str = "") -> str:
    """When and in which round what happened, in a run of that name."""
    return f"{clock(event.time)} {run}round {event.round}: {event}"


def _listed(names: Iterable[str]) -> str:
    some = list(names)
    more = f" and {len(some) - FEW} more" if len(some) > FEW else ""
    return ", ".join(some[:FEW]) + more


def progress(live: Live) -> str:
    """How far a run is and what it does."""
    if live.state == "waiting":
        what = " for sites" if live.doing == "waiting" else f" ({live.why})" if live.why else ""
        return f"waiting{what}, round {live.round} of {live.of}"
    if live.state == "running":
        return f"round {live.round} of {live.of}{', ' if live.doing else ''}{live.doing}"
    after = f"{live.state} after round {live.done} of {live.of}"
    return f"{after}: {live.why}" if live.why else after


def clock(time: str) -> str:
    """The time of day, in the zone of who reads it; with the day, if that is another one."""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except ValueError:
        return ""
    today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


# as tables


def of_run(title: str, live: Live, figure: str, task: str, lines: Lines, timings: Lines) -> Group:
    """One run: how far, its last rounds, who is there, what happened."""
    head = Text.assemble((title, "bold"), "\n", (progress(live), STYLES[live.state]))
    parts: list[RenderableType] = [head.append(f"; {figure}" if figure else ""), _bar(live.done, live.of)]
    if lines:
        parts += ["", _rounds(task, lines, timings)]
    return Group(*parts, *_people(live))


def of_study(title: str, cells: Sequence[tuple[Cell, str]], study: Study) -> Group:
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
        table.add_row(str(line["round"]), value, took, Text(_listed(line.get("away", {}))))
    return table


def _people(live: Live) -> list[RenderableType]:
    """Who is there, and the last events."""
    grid = Table.grid("", "", padding=(0, 2))
    if live.goes_on:
        grid.add_row("here", Text(f"{len(live.here)}: {_listed(live.here)}"))
    for name, seconds in live.late.items():
        grid.add_row(Text("late", "yellow"), Text(f"{name}, nothing from it for {_waited(seconds)}"))
    for name, why in list(live.away.items())[:FEW]:
        grid.add_row(Text("away", "red"), Text(f"{name}: {why}"))
    if len(live.away) > FEW:
        grid.add_row("", f"and {len(live.away) - FEW} more")
    shown: list[RenderableType] = ["", grid] if grid.row_count else []
    return [*shown, "", *(Text(event_text(event)) for event in live.events)] if live.events else shown
