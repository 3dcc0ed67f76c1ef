"""What was sealed in a run, what its sums gave away at the most, and what was seen all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from coterie.report import page_tables, views, words
from coterie.report.glossary import linked
from coterie.report.inks import Ink
from coterie.runs.record import Record

LEGEND = (
    "Sealed replies went to two helpers as random numbers, and were seen by nobody. Leverage: how much of a "
    "single reply the sums that one receiver got give away at the most; 1 is all of it. Shown: models that "
    "sites saw because a method had them tried there."
)


def told(record: Record) -> dict[str, Any] | None:
    """Of all rounds of a run; None if nothing was to be sealed."""
    lines = [m["extras"]["sealed"] for m in record.metrics if "sealed" in m["extras"]]
    if not lines:
        return None
    return {
        "replies": sum(line["replies"] for line in lines),
        "bytes": sum(line["bytes"] for line in lines),
        "leverage": max(line["leverage"] for line in lines),
        "shown": sum(line["shown"] for line in lines),
    }


def cells(by_label: views.Groups) -> tuple[list[str], list[list[str]]]:
    """A line for each method that was sealed, of its first seed."""
    header = ["method", "sealed replies", "bytes for it", "largest leverage", "models shown"]
    rows = []
    for label, runs in by_label.items():
        found = told(runs[0])
        if found is not None:
            rows.append(
                [
                    label,
                    words.whole(found["replies"]),
                    words.size(found["bytes"]),
                    f"{found['leverage']:.2f}",
                    words.whole(found["shown"]),
                ]
            )
    return header, rows


def few(records: Sequence[Record]) -> tuple[list[str], list[list[str]], str] | None:
    """For the terminal."""
    header, rows = cells(views.groups(records))
    return (header, rows, LEGEND) if rows else None


def part(by_label: views.Groups, inks: Mapping[str, Ink]) -> str:
    """For the page; nothing if nothing was sealed."""
    header, rows = cells(by_label)
    if not rows:
        return ""
    lines = [[page_tables.swatch(row[0], inks), *map(escape, row[1:])] for row in rows]
    return f"{page_tables.table(header, lines, 'figures')}<p>{linked(LEGEND)}</p>"
