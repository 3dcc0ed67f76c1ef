"""What was sealed in a run, what its sums gave away at the most, and what was seen all the same."""

from __future__ import annotations

from typing import Any

from coterie.runs.record import Record
from coterie.show import numbers, views
from coterie.show.blocks import Block, Sentence
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, said


def sealed_part(runs: Runs) -> list[Block]:
    """Nothing if nothing was sealed."""
    header, rows = cells(runs.by_label)
    return [runs.table(header, rows), Sentence(said("sealed.said"))] if rows else []


PARTS = (Part("sealed", "sealed.title", 160, sealed_part), Part("sealed", "", 160, sealed_part, on="screen"))


def totals(record: Record) -> dict[str, Any] | None:
    """Of all rounds of a run; None if nothing was to be sealed."""
    lines = [m["extras"]["sealed"] for m in record.metrics if "sealed" in m["extras"]]
    if not lines:
        return None
    found = {key: sum(line[key] for line in lines) for key in ("replies", "bytes", "shown")}
    return {**found, "leverage": max(line["leverage"] for line in lines)}


def cells(by_label: views.Groups) -> tuple[list[str], list[list[str]]]:
    """A line for each method that was sealed, of its first seed."""
    columns = ("replies", "bytes", "leverage", "shown")
    header: list[str] = [said("column.method"), *(said(f"sealed.{key}") for key in columns)]
    rows = []
    for label, runs in by_label.items():
        if (found := totals(runs[0])) is not None:
            whole, leverage = numbers.whole, Figure(f"{found['leverage']:.2f}")
            row = [whole(found["replies"]), numbers.size(found["bytes"]), leverage, whole(found["shown"])]
            rows.append([label, *row])
    return header, rows
