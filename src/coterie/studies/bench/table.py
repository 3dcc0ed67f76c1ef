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
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload, []).append(row)
    for name, group in groups.items():
        for i, row in enumerate(group):
            lines.append(f"| {'' if i else f'`{name}`'} | " + " | ".join(cells(row)) + " |")
    lines += ["", f"{_where(command)} Best, then median of {rows[0].repeats} repeats.", ""]
    for name, group in groups.items():
        about = WORKLOADS[name].about if name in WORKLOADS else name
        lines.append(f"- `{name}`: {about}; limit {group[0].limit:,.0f} samples/s")
    return "\n".join(lines)


def _where(command: str) -> str:
    """What was run, of which commit, on which machine: its processor where the system tells it (Linux)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (
        f"`{command}`, commit {commit() or 'unknown'}, {names[0] if names else platform.machine()}, "
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}."
    )


def as_csv(rows: Sequence[Any]) -> str:
    """Dataclasses of one kind, a line each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(f.name for f in dataclasses.fields(rows[0]))
    for row in rows:
        writer.writerow(f"{v:.6g}" if isinstance(v, float) else v for v in vars(row).values())
    return text.getvalue()


def write_csv(path: str | Path, rows: Sequence[Any]) -> Path:
    return write_whole(Path(path), as_csv(rows))


# whole commands


def whole_on_screen(row: whole.Row) -> Table:
    """The two sides of one workload."""
    ratios = _times(row.ratio_best), _times(row.ratio_median)
    lines = [
        ("ours", f"{row.ours_best:.2f}", f"{row.ours_median:.2f}", "", ""),
        (row.beside, f"{row.other_best:.2f}", f"{row.other_median:.2f}", *ratios),
    ]
    caption = f"target of ours: {row.target}; met: {'yes' if row.met else 'no'}"
    headings = ("", "seconds", "(median)", "x ours", "(median)")
    return _screen_table(f"{row.workload}: {row.repeats} repeats", headings, lines, caption)


def whole_markdown(rows: Sequence[whole.Row], command: str) -> str:
    """A line for each workload, with the command, the commit and the machine."""
    lines = ["| workload | " + " | ".join(WHOLE_HEADINGS) + " |"]
    lines.append("| --- | --- |" + " ---: |" * 6 + " --- | --- |")
    for row in rows:
        times = (row.ours_best, row.ours_median, row.other_best, row.other_median)
        ratios = [_times(row.ratio_best), _times(row.ratio_median)]
        seconds, met = [f"{value:.2f}" for value in times], "yes" if row.met else "no"
        cells = [f"`{row.workload}`", row.beside, *seconds, *ratios, row.target, met]
        lines.append("| " + " | ".join(cells) + " |")
    said = f"{_where(command)} Best, then median of {rows[0].repeats} repeats; met by the medians."
    about = [f"- `{row.workload}`: {whole.WHOLES[row.workload].about}" for row in rows]
    return "\n".join([*lines, "", said, "", *about])
