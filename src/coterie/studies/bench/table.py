"""Measured rows as tables on screen, as CSV, and as Markdown to paste into a README."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table

from coterie.runs.about import commit
from coterie.storage.atomic import write_whole
from coterie.studies.bench import whole
from coterie.studies.bench.measure import Row
from coterie.studies.bench.workloads import WORKLOADS

HEADINGS = ("contender", "samples/s", "(median)", "x plain", "(median)", "of limit", "peak MB")
WHOLE_HEADINGS = (
    "beside", "ours, s", "(median)", "beside, s", "(median)", "ratio", "(median)", "target", "met",
)  # fmt: skip
COLUMNS = tuple(f.name for f in dataclasses.fields(Row))


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by workload, in the order in which they were measured."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.workload, []).append(row)
    return found


def cells(row: Row) -> tuple[str, ...]:
    """A row as people read it."""
    return (
        row.contender,
        f"{row.best:,.0f}",
        f"{row.median:,.0f}",
        _times(row.ratio_best),
        _times(row.ratio_median),
        f"{100 * row.share:.2g} %",
        f"{row.peak_mb:,.0f}",
    )


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def on_screen(rows: Sequence[Row]) -> Table:
    """The table of one workload."""
    title = f"{rows[0].workload}: {rows[0].repeats} repeats of {rows[0].samples:,} samples"
    caption = f"best, then median; limit {rows[0].limit:,.0f} samples/s at {rows[0].gflops:.0f} GFLOP/s"
    return _screen_table(title, HEADINGS, map(cells, rows), caption)


def _screen_table(title: str, headings: Sequence[str], lines: Iterable[Sequence[str]], caption: str) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left")
    for line in lines:
        table.add_row(*map(escape, line))
    table.caption, table.caption_justify = caption, "left"
    return table


def markdown(rows: Sequence[Row], command: str) -> str:
    """One table for all workloads, with the command, the commit and the machine."""
    lines = ["| workload | " + " | ".join(HEADINGS) + " |", "| --- | --- |" + " ---: |" * (len(HEADINGS) - 1)]
    for name, group in _groups(rows).items():
        for i, row in enumerate(group):
            lines.append(f"| {'' if i else f'`{name}`'} | " + " | ".join(cells(row)) + " |")
    lines += ["", f"{_where(command)} Best, then median of {rows[0].repeats} repeats.", ""]
    for name, group in _groups(rows).items():
        about = WORKLOADS[name].about if name in WORKLOADS else name
        lines.append(f"- `{name}`: {about}; limit {group[0].limit:,.0f} samples/s")
    return "\n".join(lines)


def _where(command: str) -> str:
    """What was run, of which commit, on which machine."""
    return f"`{command}`, commit {commit() or 'unknown'}, {_machine()}."


def _machine() -> str:
    """The processor, its cores and torch, in a few words."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def _processor() -> str:
    """The processor's name where the system tells it (Linux), otherwise its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def as_csv(rows: Sequence[Any]) -> str:
    """Dataclasses of one kind, a line each."""
    text, columns = io.StringIO(), [f.name for f in dataclasses.fields(rows[0])]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = (getattr(row, name) for name in columns)
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in values])
    return text.getvalue()


def write_csv(path: str | Path, rows: Sequence[Any]) -> Path:
    return write_whole(Path(path), as_csv(rows))


# whole commands


def whole_on_screen(row: whole.Row) -> Table:
    """The two sides of one workload."""
    ours, other = ((f"{b:.2f}", f"{m:.2f}") for b, m in _seconds(row))
    lines = [("ours", *ours, "", ""), (row.beside, *other, _times(row.ratio_best), _times(row.ratio_median))]
    caption = f"target of ours: {row.target}; met: {'yes' if row.met else 'no'}"
    headings = ("", "seconds", "(median)", "x ours", "(median)")
    return _screen_table(f"{row.workload}: {row.repeats} repeats", headings, lines, caption)


def _seconds(row: whole.Row) -> list[tuple[float, float]]:
    return [(row.ours_best, row.ours_median), (row.other_best, row.other_median)]


def whole_markdown(rows: Sequence[whole.Row], command: str) -> str:
    """A line for each workload, with the command, the commit and the machine."""
    lines = ["| workload | " + " | ".join(WHOLE_HEADINGS) + " |"]
    lines.append("| --- | --- |" + " ---: |" * 6 + " --- | --- |")
    for row in rows:
        seconds = [f"{value:.2f}" for side in _seconds(row) for value in side]
        ratios = [_times(row.ratio_best), _times(row.ratio_median)]
        cells = [f"`{row.workload}`", row.beside, *seconds, *ratios, row.target, "yes" if row.met else "no"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"{_where(command)} Best, then median of {rows[0].repeats} repeats; met by the medians.",
        "",
    ]
    return "\n".join(lines + [f"- `{row.workload}`: {whole.WHOLES[row.workload].about}" for row in rows])
