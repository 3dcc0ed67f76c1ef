"""What a card is made of: an answer, a few sentences, pictures, a table, and how all of it is computed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.show import inks
from coterie.show.blocks import Plot, Table
from coterie.show.plotly import plain, tidy
from coterie.show.words import Words

Cell = tuple[Any, str]


@dataclass(frozen=True)
class Card:
    """
    answer     one sentence
    lines      further ones
    how        how it is computed
    template   what only this card has, below its sentences; `extra` fills it
    """

    key: str
    answer: str
    lines: Sequence[str] = ()
    pictures: Sequence[Plot] = ()
    table: Table | None = None
    how: Sequence[str] = ()
    template: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


def table_of(name: str, columns: Sequence[str], cells: Iterable[Sequence[Cell]], say: Words) -> Table:
    """Of the card of that name; a cell is its value, for a file, and its text."""
    rows = list(cells)
    return Table(
        [say(f"{name}.column.{column}") for column in columns],
        [[text for _, text in row] for row in rows],
        say(f"{name}.title"),
        columns=columns,
        raw=[[value for value, _ in row] for row in rows],
    )


def csv_of(table: Table) -> str:
    """Names of columns are the same in every language."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    formulas = ("=", "+", "-", "@", "\t", "\r")  # a text that begins so is kept from being one
    for row in table.raw:
        cells = ["" if v is None else v for v in row]
        writer.writerow([f"'{v}" if isinstance(v, str) and v.startswith(formulas) else v for v in cells])
    return file.getvalue()


_Trace = dict[str, Any]
NAMES = {"type": "category", "autorange": "reversed", "automargin": True}
"""An axis of names, from the top."""
FAINT = "#9aa5b1"


def line(
    x: Sequence[float | None], y: Iterable[float], name: str, look: Mapping[str, Any], hover: str, **more: Any
) -> _Trace:
    """`look` is its colour, dash and width."""
    points = {"x": x, "y": tidy(y), "name": name}
    more = {"hovertemplate": hover, **more} if hover else more
    return {"type": "scatter", "mode": "lines", **points, "line": look, **more}


def bars(names: Sequence[str], values: Iterable[float], hover: str, **more: Any) -> _Trace:
    """One below the other."""
    look = {"orientation": "h", "marker": {"color": inks.COLOURS[0]}, "hovertemplate": hover}
    return {"type": "bar", "x": tidy(values), "y": names, **look, **more}


def plot_choice(
    data: Sequence[_Trace],
    x: str,
    y: str = "",
    name: str = "",
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    **layout: Any,
) -> dict[str, Any]:
    """One choice of a plot, with the titles of its axes."""
    below = {"title": {"text": x}, **(xaxis or {})}
    beside = {**({"title": {"text": y}} if y else {}), **(yaxis or {})}
    return {"name": name, "data": list(data), "layout": {"xaxis": below, "yaxis": beside, **layout}}


def client_looks(
    names: Sequence[str], order: Sequence[int], own: int
) -> dict[int, tuple[str, dict[str, Any]]]:
    """The name and the look of each client's line; one's own is grey, and after six the dash changes."""
    made = {own: {"color": inks.ALONE, "dash": "dash", "width": 2}}
    others = [j for j in order if j != own]
    for place, j in enumerate(others):
        turn, colour = divmod(place, len(inks.COLOURS))
        dash = inks.DASHES[turn % len(inks.DASHES)]
        made[j] = {"color": inks.COLOURS[colour], "dash": dash, "width": 2}
    return {j: (plain(names[j]), made[j]) for j in (*others, own)}
