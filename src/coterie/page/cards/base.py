"""What a card is made of: an answer, a few sentences, pictures, a table, and how all of it is computed."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.report import inks as colours
from coterie.report.plotly_data import Plot, plain

OWN = colours.ALONE


@dataclass(frozen=True)
class Picture:
    """A plot as `report/plotly_data.py` has it, and what it shows, for those who cannot see it too."""

    key: str
    plot: Plot
    said: str


@dataclass(frozen=True)
class Table:
    """Cells as texts, in the reader's language; `raw` are the same as numbers, for a file."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    raw: Sequence[Sequence[Any]]

    def csv(self, names: Sequence[str]) -> str:
        """Names of columns are the same in every language."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if v is None else safe(v) for v in row] for row in self.raw])
        return file.getvalue()


def safe(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is kept from being one."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


@dataclass(frozen=True)
class Card:
    """
    answer    one sentence
    lines     further ones
    columns   names of the table's columns in a file
    how       how it is computed
    extra     what only this card has, by name
    """

    key: str
    answer: str
    lines: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    table: Table | None = None
    columns: Sequence[str] = ()
    how: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def tinted(names: Sequence[str], order: Sequence[int], own: int) -> dict[int, dict[str, Any]]:
    """How a line of each of some clients is drawn; one's own is grey, and after six the dash changes."""
    made: dict[int, dict[str, Any]] = {}
    others = [j for j in order if j != own]
    for place, j in enumerate(others):
        turn, colour = divmod(place, len(colours.COLOURS))
        dash = colours.DASHES[turn % len(colours.DASHES)]
        made[j] = {"color": colours.COLOURS[colour], "dash": dash, "width": 2}
    made[own] = {"color": OWN, "dash": "dash", "width": 2}
    return {j: {**made[j], "name": plain(names[j])} for j in (*others, own)}
