"""coterie bench"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from rich.markup import escape

from coterie.cli import screen
from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadInput, UnknownName
from coterie.runs.about import command_line
from coterie.storage.paths import given_file, given_folder
from coterie.studies.bench import scaling, table
from coterie.studies.bench.contenders import engines_to_run
from coterie.studies.bench.measure import Watch, measure
from coterie.studies.bench.whole import WHOLES, measure_whole
from coterie.studies.bench.workloads import WORKLOADS, quick

COMMANDS = {"bench": ("study", 40, "measure the engines beside plain PyTorch loops")}
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
class _Bench:
    what: Literal["table", "scaling", "whole"] = word(
        "Training in a table, cost against clients and samples, or whole commands from start to end.",
        default="table",
    )
    workloads: tuple[str, ...] = flag(
        (), f"Which of {', '.join(WORKLOADS)}; of whole, {', '.join(WHOLES)}; by default all."
    )
    engines: tuple[str, ...] = flag((), "Engines to time; by default all but the reference, loop.")
    loops: tuple[Loop, ...] = flag(LOOPS, "PyTorch loops to time beside them; no name leaves them out.")
    repeats: int | None = flag(
        None, "Timed runs of each, by default 5 after a warm-up; of whole commands 3.", "INT"
    )
    quick: bool = flag(False, "Small versions: seconds, to see that it works.")
    csv: str = flag("", "Also write the figures to this file.")
    markdown: bool = flag(False, "Print Markdown with command, commit and machine.")
    out: str = flag(
        "",
        "The folder for scaling.csv and scaling.svg, by default scaling; "
        "of whole, a new one that keeps all that was written, by default none.",
    )


@command_with(Flags(_Bench, "bench", HELP))
def bench(asked: _Bench) -> int:
    if asked.repeats is not None and asked.repeats < 1:
        raise BadInput(f"repeats={asked.repeats} must be at least 1: try 5")
    if asked.csv:
        given_file(asked.csv, "--csv")
    if asked.out:
        given_folder(asked.out)
    if asked.what == "whole":
        return _bench_whole(asked)
    contenders = list(dict.fromkeys([*asked.loops, *engines_to_run(asked.engines)]))
    repeats = asked.repeats or 5
    if asked.what == "scaling":
        return _bench_scaling(asked, contenders, repeats)
    return _bench_table(asked, contenders, repeats)


def _bench_table(asked: _Bench, contenders: Sequence[str], repeats: int) -> int:
    chosen = [_named(name, WORKLOADS) for name in asked.workloads or WORKLOADS]
    chosen = [quick(workload) for workload in chosen] if asked.quick else chosen
    say_busy()
    rows = []
    for workload in chosen:
        with _progress(workload.name, len(contenders) * (repeats + 1)) as watch:
            found = measure(workload, contenders, repeats, QUICK if asked.quick else SIDE, watch=watch)
        rows += found
        if asked.csv:  # after each workload, so that an interruption leaves what was measured
            table.write_csv(asked.csv, rows)
        if not asked.markdown:
            screen.out.print(table.on_screen(found), "")
    if asked.markdown:
        print(table.markdown(rows, command_line()))
    return 0


def _bench_scaling(asked: _Bench, contenders: Sequence[str], repeats: int) -> int:
    if asked.workloads or asked.csv or asked.markdown:
        raise BadInput("scaling has its own workloads and files: leave out --workloads, --csv and --markdown")
    scaling.need_matplotlib()
    say_busy()
    total = len(list(scaling.sizes(asked.quick))) * len(contenders) * (repeats + 1)
    with _progress("scaling", total) as watch:
        points = scaling.scale(contenders, repeats, asked.quick, watch)
    for path in scaling.write(Path(asked.out or "scaling"), points):
        print(f"{'figure' if path.suffix == '.svg' else 'table'}: {path}")
    return 0


def _bench_whole(asked: _Bench) -> int:
    if asked.engines or asked.loops != LOOPS:
        raise BadInput("whole commands choose engines themselves: leave out --engines and --loops")
    if asked.out and Path(asked.out).exists():
        raise BadInput(f"{asked.out} is there already: name another --out")
    chosen = [_named(name, WHOLES) for name in asked.workloads or WHOLES]
    for workload in chosen:
        workload.check()
    say_busy()
    repeats, rows = asked.repeats or (1 if asked.quick else 3), []
    for workload in chosen:
        kept = Path(asked.out) / workload.name if asked.out else None
        with _progress(workload.name, 2 * repeats) as watch:
            rows.append(measure_whole(workload, repeats, asked.quick, kept, watch))
        if asked.csv:
            table.write_csv(asked.csv, rows)
        if not asked.markdown:
            screen.out.print(table.whole_on_screen(rows[-1]), "")
    if asked.markdown:
        print(table.whole_markdown(rows, command_line()))
    return 0


def _named(name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise UnknownName("workload", name, known)
    return known[name]


def say_busy() -> None:
    """Two threads on cores that others use wait for each other: such figures say nothing."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        screen.err.print(f"[dim]· load average {load:.1f}: on a busy machine these figures say little[/dim]")


@contextlib.contextmanager
def _progress(name: str, total: int) -> Iterator[Watch]:
    """A bar with the time left; its thread sleeps nearly always, so it does not disturb what is timed."""
    with screen.progress(total, name, "runs", often=1) as bar:
        bar.start()

        def watch(contender: str) -> None:
            bar.update(bar.task_ids[0], advance=1, description=escape(f"{name} {contender}"))

        yield watch
