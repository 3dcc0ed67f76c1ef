"""coterie bench"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from rich.markup import escape

from coterie.bench import scaling, table, whole_table
from coterie.bench.contenders import engines_to_run
from coterie.bench.measure import Watch, measure
from coterie.bench.whole import WHOLES, measure_whole
from coterie.bench.workloads import WORKLOADS, Workload, quick
from coterie.cli import screen
from coterie.cli.command import Flags, command_with
from coterie.core.errors import BadInput, UnknownName
from coterie.runs.about import command_line
from coterie.storage.paths import given_file, given_folder

HELP = """Runs the same work by our engines, a plain PyTorch loop and a lean one, side by side.

Prints samples per second (best and median of several repeats, taken in turns), the ratio to the plain loop,
and the share of the arithmetic limit: the rate of large matrix products over the operations per sample.
`whole` times commands from start to end, each in a fresh process, beside plain scripts that do the same.

examples:
  coterie bench
  coterie bench --workloads linear-100 titanic-4 --engines stacked auto --repeats 7
  coterie bench --csv bench.csv --markdown
  coterie bench scaling --out scaling
  coterie bench whole --workloads study-titanic first-run
  coterie bench --quick
"""

QUICK, SIDE = 256, 2048  # of the matrices that find the sgemm rate
Loop = Literal["plain", "lean"]
LOOPS: tuple[Loop, ...] = ("plain", "lean")
T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    what: Annotated[
        tyro.conf.Positional[Literal["table", "scaling", "whole"]],
        tyro.conf.arg(
            help="Training in a table, cost against clients and samples, or whole commands from start to end."
        ),
    ] = "table"
    workloads: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help=f"Which of {', '.join(WORKLOADS)}; of whole, {', '.join(WHOLES)}; by default all."
        ),
    ] = ()
    engines: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Engines to time; by default all but the reference, loop.")
    ] = ()
    loops: Annotated[
        tuple[Loop, ...],
        tyro.conf.arg(help="PyTorch loops to time beside them; no name leaves them out."),
    ] = LOOPS
    repeats: Annotated[
        int | None,
        tyro.conf.arg(
            help="Timed runs of each, by default 5 after a warm-up; of whole commands 3.", metavar="INT"
        ),
    ] = None
    quick: Annotated[bool, tyro.conf.arg(help="Small versions: seconds, to see that it works.")] = False
    csv: Annotated[str, tyro.conf.arg(help="Also write the figures to this file.")] = ""
    markdown: Annotated[bool, tyro.conf.arg(help="Print Markdown with command, commit and machine.")] = False
    out: Annotated[
        str,
        tyro.conf.arg(
            help="The folder for scaling.csv and scaling.svg, by default scaling; "
            "of whole, a new one that keeps all that was written, by default none."
        ),
    ] = ""


@command_with(Flags(Bench, "bench", HELP))
def bench(asked: Bench) -> int:
    if asked.repeats is not None and asked.repeats < 1:
        raise BadInput(f"repeats={asked.repeats} must be at least 1: try 5")
    if asked.csv:
        given_file(asked.csv, "--csv")
    if asked.out:
        given_folder(asked.out)
    if asked.what == "whole":
        return bench_whole(asked)
    contenders = list(dict.fromkeys([*asked.loops, *engines_to_run(asked.engines)]))
    repeats = asked.repeats or 5
    if asked.what == "scaling":
        return bench_scaling(asked, contenders, repeats)
    return bench_table(asked, contenders, repeats)


def bench_table(asked: Bench, contenders: Sequence[str], repeats: int) -> int:
    chosen = choose(asked.workloads, asked.quick)
    say_busy()
    rows = []
    for workload in chosen:
        with progress(workload.name, len(contenders) * (repeats + 1)) as watch:
            found = measure(workload, contenders, repeats, QUICK if asked.quick else SIDE, watch=watch)
        rows += found
        if asked.csv:  # after each workload, so that an interruption leaves what was measured
            table.write_csv(asked.csv, rows)
        if not asked.markdown:
            screen.out.print(table.on_screen(found), "")
    if asked.markdown:
        print(table.markdown(rows, command_line()))
    return 0


def bench_scaling(asked: Bench, contenders: Sequence[str], repeats: int) -> int:
    if asked.workloads or asked.csv or asked.markdown:
        raise BadInput("scaling has its own workloads and files: leave out --workloads, --csv and --markdown")
    scaling.need_matplotlib()
    say_busy()
    total = len(list(scaling.sizes(asked.quick))) * len(contenders) * (repeats + 1)
    with progress("scaling", total) as watch:
        points = scaling.scale(contenders, repeats, asked.quick, watch)
    for path in scaling.write(Path(asked.out or "scaling"), points):
        print(f"{'figure' if path.suffix == '.svg' else 'table'}: {path}")
    return 0


def bench_whole(asked: Bench) -> int:
    if asked.engines or asked.loops != LOOPS:
        raise BadInput("whole commands choose engines themselves: leave out --engines and --loops")
    if asked.out and Path(asked.out).exists():
        raise BadInput(f"{asked.out} is there already: name another --out")
    chosen = [named(name, WHOLES) for name in asked.workloads or WHOLES]
    for workload in chosen:
        workload.check()
    say_busy()
    repeats, rows = asked.repeats or (1 if asked.quick else 3), []
    for workload in chosen:
        kept = Path(asked.out) / workload.name if asked.out else None
        with progress(workload.name, 2 * repeats) as watch:
            rows.append(measure_whole(workload, repeats, asked.quick, kept, watch))
        if asked.csv:
            table.write_csv(asked.csv, rows)
        if not asked.markdown:
            screen.out.print(whole_table.on_screen(rows[-1]), "")
    if asked.markdown:
        print(whole_table.markdown(rows, command_line()))
    return 0


def choose(names: Sequence[str], small: bool) -> list[Workload]:
    chosen = [named(name, WORKLOADS) for name in names or WORKLOADS]
    return [quick(w) for w in chosen] if small else chosen


def named(name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise UnknownName("workload", name, known)
    return known[name]


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
