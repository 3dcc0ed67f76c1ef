"""The summary on a terminal; below it calibration, whether clients found their own kind, and epsilon."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from coterie.report import (
    advice,
    calibration,
    contributions,
    costs,
    leaks,
    little,
    privacy,
    recalibration,
    sealed,
    tables,
    views,
    words,
)
from coterie.report.spent import budgeted
from coterie.runs.record import Record
from coterie.runs.yardstick import COMMON, SEEING

POINT, GAIN, WORST = "point/test", "gain over local", "worst client"
COST = ("models", "traffic", "training")
TRUST = (
    "ECE: how far being sure is from being right; pooled: of all clients' samples together. Brier score: "
    "summed over classes, from 0 (best) to 2."
)


def render_table(records: Sequence[Record], width: int | None = None) -> Table:
    """The summary; what `width` has no room for is left out, the least important first. Where accuracy is
    blind, what sees stays.
    """
    header, rows = tables.cells(records)
    seeing = [title for title in map(words.unit, seeing_metrics(records)) if title in header]
    every, least = len(header), 1 + len(seeing) if seeing else 3 if GAIN in header else 2
    first = [*seeing, header[1], GAIN, *views.own_metrics(records), WORST, *COST]
    order = ["method", *(h for h in first if h in header), *(h for h in header[1:] if h not in first)]
    header, rows = _fitted(header, rows, order, least, width)
    gone = {WORST, GAIN, *COST} - set(header)
    gone |= {"sensitivity"} - ({"sensitivity"} if words.unit("sensitivity") in header else set())
    said = [tables.legend(records, trust="ECE" in header, without=gone)]
    said += [f"Unfinished: {text}." for text in tables.unfinished(records)]
    said += ["Further columns need a wider terminal."] if len(header) < every else []
    return _rich(header, rows, said)


def seeing_metrics(records: Sequence[Record]) -> tuple[str, ...]:
    """What tells models apart where one class is common at some client, or nobody knows whether it is: AUC,
    and what ways are compared by then. Nothing where accuracy does.
    """
    if views.task(records[0]) != "classification":
        return ()
    counts = [(client.get("labels") or [()])[0] for r in records for client in r.about["clients"]]
    seen = all(sum(rows) and max(rows) < COMMON * sum(rows) for rows in counts)
    return () if seen else ("auc", SEEING)


def render_measures(records: Sequence[Record], width: int | None = None) -> Table | None:
    """What was measured against true groups, if there are any; without room, the last columns go."""
    if "recall" not in views.metrics(records, views.MEASURED):
        return None
    header, rows = tables.measured_cells(records)
    short = tables.measures_legend(records, drift=False)
    return fitting(header, rows, tables.measures_legend(records), short, width)


def render_trust(records: Sequence[Record], width: int | None = None) -> Table | None:
    """Accuracy beside calibration, where methods average predictions; without room, last columns go."""
    if "ece" not in views.metrics(records, POINT):
        return None
    by_label = views.groups(records)
    header, rows = calibration.cells(by_label, calibration.counted(by_label))
    return fitting(header, rows, TRUST, TRUST, width)


def render_privacy(records: Sequence[Record], width: int | None = None) -> Table | None:
    """What looking at rows has cost each site, where local work has a bound."""
    found = privacy.few(records)
    if found is None:
        return None
    header, rows, said = found
    return fitting(header, rows, " ".join(said), " ".join(said), width)


def render_sealed(records: Sequence[Record], width: int | None = None) -> Table | None:
    """What was sealed, and what its sums gave away, where anything was."""
    found = sealed.few(records)
    if found is None:
        return None
    header, rows, said = found
    return fitting(header, rows, said, said, width)


def render_contributions(records: Sequence[Record], width: int | None = None) -> Table | None:
    """Who gave most to whom, where that was valued."""
    found = contributions.few(records)
    if found is None:
        return None
    header, rows, said = found
    return fitting(header, rows, said, said, width)


def render_costs(records: Sequence[Record], width: int | None = None) -> Table | None:
    """Methods at equal cost, where they had budgets."""
    wanted = budgeted(records)
    if not wanted or len(views.groups(records)) < 2:
        return None
    said = costs.equal_legend(records)
    return fitting(*costs.equal_cells(records, wanted), said, said, width)


def print_table(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints the summary, calibration and measures, as wide as the console allows."""
    console = console or Console()
    console.print(render_table(records, console.width))
    if said := leaks.line(records):
        console.print(Text(said, style="bold"))
    for said in (little.line(records), recalibration.line(records)):
        if said:
            console.print(Text(said, style="dim"))
    for render in (
        render_costs,
        render_trust,
        render_measures,
        render_contributions,
        render_sealed,
        render_privacy,
    ):
        table = render(records, console.width)
        if table is not None:
            console.print()
            console.print(table)


def render_listening(records: Sequence[Record], labels: Sequence[str], width: int) -> Table:
    """For each client whom it listens to most, by each of these methods; those of a cell go one below the
    other where they do not fit side by side.
    """
    by_label = views.groups(records)
    found = [advice.listened(by_label[label]) for label in labels]
    for between in (", ", "\n"):
        cells = [[between.join(line) or "nobody" for line in column] for column in found]
        columns = [["client", *records[0].clients]]
        columns += [[label, *column] for label, column in zip(labels, cells, strict=True)]
        wide = sum(max(cell_len(part) for cell in c for part in cell.split("\n")) + 2 for c in columns)
        if wide <= width:
            break
    table = Table(*(escape(column[0]) for column in columns), box=None, header_style="bold", pad_edge=False)
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    return table


def fitting(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    said: str,
    shorter: str,
    width: int | None,
    least: int = 2,
) -> Table:
    """A table and what is said of it; without room the last columns go, down to so many, and then the shorter
    is said.
    """
    every = len(header)
    header, rows = _fitted(header, rows, header, least, width)
    cut = len(header) < every
    return _rich(header, rows, [shorter, "Further columns need a wider terminal."] if cut else [said])


def _fitted(
    header: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[str], least: int, width: int | None
) -> tuple[list[str], list[list[str]]]:
    """The columns that fit, the first of the `order` before others and so many at least; then names go into
    several lines, each option of a method whole.
    """
    kept = list(order)

    def chosen(cells: Sequence[str]) -> list[str]:
        return [cell for title, cell in zip(header, cells, strict=True) if title in kept]

    while width is not None and len(kept) > least and _width(chosen(header), [*map(chosen, rows)]) > width:
        kept.pop()
    titles, found = chosen(header), [chosen(row) for row in rows]
    over = 0 if width is None else _width(titles, found) - width
    if over > 0:
        room = max(cell_len(name) for name, *_ in found) - over
        found = [["\n".join(in_pieces(name, room)), *rest] for name, *rest in found]
    return titles, found


def in_pieces(name: str, room: int) -> list[str]:
    """A method's name in lines of at most so many cells, parted after : and , and at spaces only."""
    lines = [""]
    for piece in re.findall(r"[^:, ]*[:, ]?", name):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _rich(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
        caption_style="dim",
    )
    for i, title in enumerate(header):
        table.add_column(
            Text("\n".join(_heading(title))),
            justify="right" if i else "left",
            vertical="bottom",
            no_wrap=i > 0,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(c) for c in row))
    table.caption = Text(" ".join(notes))
    return table


def _heading(title: str) -> list[str]:
    """A column's title in lines that are as short as its cells."""
    return textwrap.wrap(title, 11, break_long_words=False)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Of the table that `_rich` makes: of each column its longest line, and two spaces between columns.

    rich would say the same, but takes longer for it than for the printing.
    """
    columns = (
        [*_heading(title), *(line for cell in cells for line in cell.split("\n"))]
        for title, *cells in zip(header, *rows, strict=True)
    )
    return sum(max(map(cell_len, lines)) for lines in columns) + 2 * (len(header) - 1)
