"""Seconds of whole commands as a table on screen, and as Markdown to paste into a README."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from coterie.bench.table import times, where
from coterie.bench.whole import WHOLES, Row

HEADINGS = ("beside", "ours, s", "(median)", "beside, s", "(median)", "ratio", "(median)", "target", "met")


def verdict(row: Row) -> str:
    return "yes" if row.met else "no"


def cells(row: Row) -> tuple[str, ...]:
    """A row as people read it."""
    return (
        row.beside,
        f"{row.ours_best:.2f}",
        f"{row.ours_median:.2f}",
        f"{row.other_best:.2f}",
        f"{row.other_median:.2f}",
        times(row.ratio_best),
        times(row.ratio_median),
        row.target,
        verdict(row),
    )


def on_screen(row: Row) -> Table:
    """The two sides of one workload."""
    title = f"{row.workload}: {row.repeats} repeats"
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None)
    for i, heading in enumerate(("", "seconds", "(median)", "x ours", "(median)")):
        table.add_column(heading, justify="right" if i else "left")
    table.add_row("ours", f"{row.ours_best:.2f}", f"{row.ours_median:.2f}", "", "")
    other = (f"{row.other_best:.2f}", f"{row.other_median:.2f}")
    table.add_row(escape(row.beside), *other, times(row.ratio_best), times(row.ratio_median))
    table.caption = f"target of ours: {row.target}; met: {verdict(row)}"
    table.caption_justify = "left"
    return table


def markdown(rows: Sequence[Row], command: str) -> str:
    """A line for each workload, with the command, the commit and the machine."""
    lines = ["| workload | " + " | ".join(HEADINGS) + " |"]
    lines.append("| --- | --- |" + " ---: |" * 6 + " --- | --- |")
    lines += [f"| `{row.workload}` | " + " | ".join(cells(row)) + " |" for row in rows]
    lines += ["", f"{where(command)} Best, then median of {rows[0].repeats} repeats; met by the medians.", ""]
    return "\n".join(lines + [f"- `{row.workload}`: {WHOLES[row.workload].about}" for row in rows])
