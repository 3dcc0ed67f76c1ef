"""coterie bench"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape

from coterie.bench import scaling, table
from coterie.bench.contenders import engines_to_run
from coterie.bench.measure import Watch, measure
from coterie.bench.workloads import WORKLOADS, Workload, quick
from coterie.cli import screen
from coterie.cli.flags import parse
from coterie.core.errors import BadInput, UnknownName
from coterie.runs.about import command_line

HELP = """Runs the same work by our engines, a plain PyTorch loop and a lean one, side by side.

Prints samples per second (best and median of several repeats, taken in turns), the ratio to the plain loop,
and the share of the arithmetic limit: the rate of large matrix products over the operations per sample.

examples:
  coterie bench
  coterie bench --workloads linear-100 titanic-4 --engines stacked auto --repeats 7
  coterie bench --csv bench.csv --markdown
  coterie bench scaling --out scaling
  coterie bench --quick
"""

QUICK, SIDE = 256, 2048  # of the matrices that find the sgemm rate


@dataclass(frozen=True)
class Bench:
    what: Annotated[
        tyro.conf.Positional[Literal["table", "scaling"]],
        tyro.conf.arg(help="The table of workloads, or cost against clients and samples."),
    ] = "table"
    workloads: Annotated[
        tuple[str, ...], tyro.conf.arg(help=f"Which of {', '.join(WORKLOADS)}; by default all.")
    ] = ()
    engines: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Engines to time; by default all but the reference, loop.")
    ] = ()
    loops: Annotated[
        tuple[Literal["plain", "lean"], ...],
        tyro.conf.arg(help="PyTorch loops to time beside them; no name leaves them out."),
    ] = ("plain", "lean")
    repeats: Annotated[int, tyro.conf.arg(help="Timed runs of each, after a warm-up.")] = 5
    quick: Annotated[bool, tyro.conf.arg(help="Small versions: seconds, to see that it works.")] = False
    csv: Annotated[str, tyro.conf.arg(help="Also write the figures to this file.")] = ""
    markdown: Annotated[bool, tyro.conf.arg(help="Print Markdown with command, commit and machine.")] = False
    out: Annotated[str, tyro.conf.arg(help="The folder for scaling.csv and scaling.svg.")] = "scaling"


def bench(words: Sequence[str]) -> int:
    asked: Bench = parse(Bench, words, "bench", HELP)
    if asked.repeats < 1:
        raise BadInput(f"repeats={asked.repeats} must be at least 1: try 5")
    contenders = list(dict.fromkeys([*asked.loops, *engines_to_run(asked.engines)]))
    return bench_scaling(asked, contenders) if asked.what == "scaling" else bench_table(asked, contenders)


def bench_table(asked: Bench, contenders: Sequence[str]) -> int:
    chosen = choose(asked.workloads, asked.quick)
    say_busy()
    rows = []
    for workload in chosen:
        with progress(workload.name, len(contenders) * (asked.repeats + 1)) as watch:
            found = measure(workload, contenders, asked.repeats, QUICK if asked.quick else SIDE, watch=watch)
        rows += found
        if asked.csv:  # after each workload, so that an interruption leaves what was measured
            table.write_csv(asked.csv, rows)
        if not asked.markdown:
            screen.out.print(table.on_screen(found), "")
    if asked.markdown:
        print(table.markdown(rows, command_line()))
    return 0


def bench_scaling(asked: Bench, contenders: Sequence[str]) -> int:
    if asked.workloads or asked.csv or asked.markdown:
        raise BadInput("scaling has its own workloads and files: leave out --workloads, --csv and --markdown")
    scaling.need_matplotlib()
    say_busy()
    total = len(list(scaling.sizes(asked.quick))) * len(contenders) * (asked.repeats + 1)
    with progress("scaling", total) as watch:
        points = scaling.scale(contenders, asked.repeats, asked.quick, watch)
    for path in scaling.write(Path(asked.out), points):
        print(f"{'figure' if path.suffix == '.svg' else 'table'}: {path}")
    return 0


def choose(names: Sequence[str], small: bool) -> list[Workload]:
    for name in names:
        if name not in WORKLOADS:
            raise UnknownName("workload", name, WORKLOADS)
    chosen = [WORKLOADS[name] for name in names or WORKLOADS]
    return [quick(w) for w in chosen] if small else chosen


def say_busy() -> None:
    """Two threads on cores that others use wait for each other: such figures say nothing."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        screen.err.print(f"[dim]· load average {load:.1f}: on a busy machine these figures say little[/dim]")


@contextlib.contextmanager
def progress(name: str, total: int) -> Iterator[Watch]:
    """A bar with the time left; its thread sleeps nearly always, so it does not disturb what is timed."""
    with screen.progress(total, name, "runs", often=1) as bar:
        bar.start()

        def watch(contender: str) -> None:
            bar.update(bar.task_ids[0], advance=1, description=escape(f"{name} {contender}"))

        yield watch
