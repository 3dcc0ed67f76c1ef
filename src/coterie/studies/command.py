"""coterie reproduce"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadInput
from coterie.runs.jobs import MOST, Say, processes, side_by_side
from coterie.storage.atomic import write_whole
from coterie.studies import PAPERS, drawing, paper
from coterie.studies.base import PRESETS, Asked, Job, Paper, Step, pick, run_jobs

COMMANDS = {"reproduce": ("study", 30, "run a paper's experiments: its tables beside ours, claims, figures")}
HELP = """Runs a paper's experiments, and writes its tables beside ours, its claims and its figures.

Preset text is the algorithm as the paper states it, done right, with fair baselines; as-run is what its
authors' program did. What was interrupted goes on with the same command; what is finished is not run again.

examples:
  coterie reproduce
  coterie reproduce grimberg-2020
  coterie reproduce gengler-2020 --scale small
  coterie reproduce gengler-2020 --cells B/100,A/10 --preset as-run --seeds 1
  coterie reproduce karlsson-2021 --cells common-50 --minutes 60
  coterie reproduce benchmark --jobs 2
"""

INK = {"holds": "green", "fails": "red", "undecided": "yellow"}


@dataclass(frozen=True)
class _Reproduce:
    paper: str = word(f"One of {', '.join(PAPERS)}; without one, lists them.", default="")
    cells: str = flag("", "Which cells, with commas between; B means all of B/. By default the usual.")
    preset: Literal["usual", "text", "as-run", "both"] = flag(
        "usual", "As the text has it, or as its program did."
    )
    seeds: int = flag(0, "How many seeds, from 0; by default what suits the paper.")
    scale: Literal["full", "small", "tiny"] = flag(
        "full", "The paper's own, or a smaller one; not every paper has all."
    )
    minutes: float = flag(0.0, "Stop after so many and write what there is; 0 goes on to the end.")
    jobs: int = flag(1, "Processes side by side, each with some of the cells.")
    out: str = flag("", "The folder to write; by default runs/PAPER.")
    figures: Literal["svg", "png", "none"] = flag("svg", "What kind of figures to write.")
    results: str = flag("", "A folder to write the tables to as well, as PAPER.md.")


@command_with(Flags(_Reproduce, "reproduce", HELP))
def reproduce(request: _Reproduce) -> int:
    if not request.paper:
        table = Table("paper", "what", box=None, header_style="bold")
        for name, about in PAPERS.items():
            table.add_row(name, about)
        screen.out.print(table)
        return 0
    chosen = paper(request.paper)
    asked = _asked_of(chosen, request)
    try:
        ran = run_all(chosen.jobs(asked), 60 * request.minutes, request.jobs)
    except _TimeUp as end:
        ran = True
        screen.err.print(f"[dim]· {escape(str(end))}[/dim]", soft_wrap=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "stopped; what is finished and the last saved round of the rest stay: give the same command again"
        ) from None
    if not ran:
        screen.err.print("[dim]· all of it was finished before[/dim]")
    if asked.figures != "none" and not drawing.at_hand():
        screen.err.print(r"[dim]· no figures without matplotlib: pip install 'coterie\[figures]'[/dim]")
    for path in chosen.write(asked):
        if path.name == "results.md":
            _say_verdicts(path.read_text(encoding="utf-8"))
        print(f"{'figure' if path.parent.name == 'figures' else 'table'}: {path}")
        if request.results and path.stem == "results":
            name = f"{chosen.name}{'' if asked.scale == 'full' else f'-{asked.scale}'}"
            for copy in _copied(path, Path(request.results), name):
                print(f"table: {copy}")
    return 0


def _copied(table: Path, folder: Path, name: str) -> list[Path]:
    """A table under a paper's name in another folder, and beside it the figures that it shows."""
    text = table.read_text(encoding="utf-8")
    shown = [f for f in sorted((table.parent / "figures").glob("*")) if f"](figures/{f.name})" in text]
    text = text.replace("](figures/", f"]({name}-")
    written = [write_whole(folder / f"{name}{table.suffix}", text)]
    return written + [write_whole(folder / f"{name}-{f.name}", f.read_bytes()) for f in shown]


def _say_verdicts(page: str) -> None:
    """Each claim, and whether it holds under each preset; the page has the numbers."""
    from coterie.studies.pages import verdicts  # only here: pandas takes a while to import

    tables = list[Table]()
    for claim, *words in verdicts(page):
        if claim == "claim":
            tables.append(Table("claim", *words, box=None, header_style="bold", pad_edge=False))
        else:
            tables[-1].add_row(escape(claim), *(f"[{INK.get(word, 'dim')}]{word}[/]" for word in words))
    for table in tables:
        screen.out.print(table)


def _asked_of(chosen: Paper, request: _Reproduce) -> Asked:
    """The request with the paper's own defaults, checked."""
    if request.scale not in chosen.scales:
        known = ", ".join(chosen.scales)
        raise BadInput(f"{chosen.name} has no scale {request.scale!r}: it has {known}")
    if not request.minutes >= 0:  # nor NaN
        raise BadInput(f"minutes={request.minutes} must be at least 0: 0 goes on to the end")
    if not 1 <= request.jobs <= MOST:
        raise BadInput(f"jobs={request.jobs} must lie between 1 and {MOST}: try 2")
    if request.seeds < 0:
        raise BadInput(f"seeds={request.seeds} must be at least 1: try {chosen.seeds}")
    if request.cells:
        cells = pick(request.cells, chosen.cells(request.scale))
    else:
        cells, notes = chosen.usual(request.scale)
        for note in notes:
            screen.err.print(f"[dim]· {escape(note)}[/dim]", soft_wrap=True)
    presets = {"usual": chosen.presets, "both": PRESETS}
    return Asked(
        presets=presets.get(request.preset) or (request.preset,),  # type: ignore[arg-type]
        scale=request.scale,
        cells=cells,
        seeds=request.seeds or chosen.seeds,
        out=Path(request.out or f"runs/{chosen.name}"),
        figures=request.figures,
    )


class _TimeUp(Exception):
    """The minutes are over; raised between two rounds, when all is saved."""


def run_all(jobs: Sequence[Job], seconds: float, at_once: int = 1) -> int:
    """Under one bar with the time left, from the speed of the last hour: a round may take a minute."""
    end = time.monotonic() + seconds
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=15),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen.err,
        speed_estimate_period=3600,
    )
    total = sum(job.cost for job in jobs if not job.finished)
    if not total:
        return 0
    with bar:
        task = bar.add_task("", total=total)

        def watch(done: float, said: str) -> None:
            bar.update(task, completed=done, description=escape(said))
            if seconds and time.monotonic() > end:
                raise _TimeUp(f"time is up at {said}: the same command goes on")

        return _in_processes(jobs, watch, at_once) if at_once > 1 else run_jobs(jobs, watch)


def _in_processes(jobs: Sequence[Job], watch: Step, at_once: int) -> int:
    """The same by several processes, each of which takes the next job that nobody has; all end with the
    first that cannot go on, or when time is up.
    """
    left = [job for job in jobs if not job.finished]
    done = [0.0] * len(left)

    def work(task: int, say: Say) -> None:
        job = left[task]

        def step(share: float, said: str) -> None:
            say({"task": task, "share": share, "said": f"{job.label} {said}".strip()})

        job.run(step)
        step(1.0, "")

    for entry in side_by_side(len(left), processes(at_once, len(left), small=True), work):
        if "task" in entry:
            done[entry["task"]] = entry["share"] * left[entry["task"]].cost
            watch(sum(done), entry["said"])
    return len(left)
