"""The summary on a terminal; below it calibration, and whether clients found their own kind."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coterie.report import calibration, tables, views
from coterie.runs.record import Record

POINT, GAIN = "point/test", "gain over local"
TRUST = "ECE: how far confidence is from accuracy; pooled: of all clients' samples together."


def render_table(records: Sequence[Record], width: int | None = None) -> Table:
    """The summary; metrics that `width` has no room for are left out."""
    header, rows = tables.cells(records)
    all_of_them, fixed = len(header), header.index(GAIN if GAIN in header else "worst client")
    while width is not None and _width(header, rows) > width and len(header) > fixed + 4:
        header, rows = [*header[:-4], *header[-3:]], [[*row[:-4], *row[-3:]] for row in rows]
    said = [tables.legend(records, trust="ECE" in header)]
    said += [f"Unfinished: {text}." for text in tables.unfinished(records)]
    said += ["Further metrics need a wider terminal."] if len(header) < all_of_them else []
    return _rich(header, rows, said)


def render_measures(records: Sequence[Record], width: int | None = None) -> Table | None:
    """What was measured against true groups, if there are any; without room, the last columns go."""
    if "recall" not in views.metrics(records, views.MEASURED):
        return None
    header, rows = tables.measured_cells(records)
    short = tables.measures_legend(records, drift=False)
    return _fitting(header, rows, tables.measures_legend(records), short, width)


def render_trust(records: Sequence[Record], width: int | None = None) -> Table | None:
    """Accuracy beside calibration, where methods average predictions; without room, last columns go."""
    if "ece" not in views.metrics(records, POINT):
        return None
    by_label = views.groups(records)
    header, rows = calibration.cells(by_label, calibration.counted(by_label))
    return _fitting(header, rows, TRUST, TRUST, width)


def print_table(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints the summary, calibration and measures, as wide as the console allows."""
    console = console or Console()
    console.print(render_table(records, console.width))
    for table in (render_trust(records, console.width), render_measures(records, console.width)):
        if table is not None:
            console.print()
            console.print(table)


def _fitting(
    header: Sequence[str], rows: Sequence[Sequence[str]], said: str, shorter: str, width: int | None
) -> Table:
    """A table and what is said of it; without room the last columns go, and then the shorter is said."""
    all_of_them = len(header)
    while width is not None and _width(header, rows) > width and len(header) > 3:
        header, rows = header[:-1], [row[:-1] for row in rows]
    cut = len(header) < all_of_them
    return _rich(header, rows, [shorter, "Further columns need a wider terminal."] if cut else [said])


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
    return textwrap.wrap(title, 11)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Of the table that `_rich` makes: of each column its longest line, and two spaces between columns.

    rich would say the same, but takes longer for it than for the printing.
    """
    columns = ([*_heading(title), *cells] for title, *cells in zip(header, *rows, strict=True))
    return sum(max(map(cell_len, lines)) for lines in columns) + 2 * (len(header) - 1)
