"""The summary on a terminal, what else there is to say of the runs below it; and results in notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from coterie.report import clients, outcome, summary
from coterie.report.learnable import first_sentence
from coterie.runs.about import COMMON, SEEING
from coterie.runs.record import Record
from coterie.show import numbers, parts, views
from coterie.show.parts import Runs
from coterie.show.terminal import fitted, fitting, print_blocks, rich
from coterie.show.words import said, say

MANY = 40  # methods that a notebook does not list any more


def render_table(records: Sequence[Record], width: int | None = None) -> Table:
    """The summary; what `width` has no room for is left out, the least important first. Where accuracy is
    blind, what sees stays.
    """
    header, rows = summary.cells(records)
    gain, worst, cost = said("column.gain"), said("column.worst"), list(map(said, summary.COST))
    seeing = [title for title in map(numbers.unit, seeing_metrics(records)) if title in header]
    every, least = len(header), 1 + len(seeing) if seeing else 3 if gain in header else 2
    first = [*seeing, header[1], gain, *views.own_metrics(records), worst, *cost]
    order = [header[0], *(h for h in first if h in header), *(h for h in header[1:] if h not in first)]
    kept, rows = fitted(header, rows, order, least, width)
    known = {say.again(title) for title in kept}
    gone = {text.key for text in (gain, worst, *cost) if say.again(text) not in known}
    gone |= set() if say.again(numbers.unit("sensitivity")) in known else {"sensitivity"}
    notes = [summary.legend(records, trust="ECE" in kept, without=gone)]
    notes += [said("report.unfinished", text=text) for text in summary.unfinished(records)]
    notes += [said("summary.wider")] if len(kept) < every else []
    return rich(kept, rows, notes)


def seeing_metrics(records: Sequence[Record]) -> tuple[str, ...]:
    """What tells models apart where one class is common at some client, or nobody knows whether it is: AUC,
    and what ways are compared by then. Nothing where accuracy does.
    """
    if views.task(records[0]) != "classification":
        return ()
    counts = [(client.get("labels") or [()])[0] for r in records for client in r.about["clients"]]
    seen = all(sum(rows) and max(rows) < COMMON * sum(rows) for rows in counts)
    return () if seen else ("auc", SEEING)


def print_table(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints the summary and what belongs to it, as wide as the console allows."""
    console = console or Console()
    console.print(render_table(records, console.width))
    if text := clients.leaks_line(records):
        console.print(Text(text, style="bold"))
    if text := clients.small_samples_line(records):
        console.print(Text(say.again(text), style="dim"))
    if "recall" in views.metrics(records, views.MEASURED):  # measured against true groups
        short, long = (summary.measures_legend(records, drift=drift) for drift in (False, True))
        console.print()
        console.print(fitting(*summary.measured_cells(records), long, short, console.width))
    print_blocks(parts.blocks("screen", Runs("", records)), console)


def render_listening(records: Sequence[Record], labels: Sequence[str], width: int) -> Table:
    """For each client whom it listens to most, by each of these methods; those of a cell go one below the
    other where they do not fit side by side.
    """
    by_label = views.groups(records)
    found = [clients.listened(by_label[label]) for label in labels]
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


def runs_html(kind: str, records: Sequence[Record]) -> str:
    """Runs as what came out in one sentence, and the summary."""
    many = len(views.groups(records))
    table = summary.summary_html(records) if many <= MANY else ""
    more = f"<p>{numbers.several(many, 'method')}: .summary() has them all</p>" if not table else ""
    first = f"<p>{html.escape(leaking)}</p>" if (leaking := clients.leaks_line(records)) else ""
    said = f"{first_sentence(records)} {outcome.headline(records)}"
    return f"<div><p><b>{kind}</b> {html.escape(said)}</p>{first}{table}{more}</div>"


def lines_html(kind: str, lines: Sequence[str]) -> str:
    """What there is to say of a thing, line by line."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<div><p><b>{html.escape(kind)}</b></p><ul>{items}</ul></div>"
