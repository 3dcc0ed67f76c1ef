"""Which columns tell the outcome alone, in the rows that clients train on: a model will lean on them.

Looked at once for a setup, before anything is trained; test and validation rows are not. What is found is
kept in the run's record, and changes nothing else. Inputs that are no table have no columns. A site of a
federation says it to its own people alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.core.client import Client
from coterie.data.intake import Array
from coterie.data.tables.leak_values import Text
from coterie.data.tables.leaks import (
    Leak,
    Target,
    by_site,
    leak_of,
    number_text,
    places,
    shown_score,
    thousands,
)

NAMED = 3  # columns in a line
SAME = 1e-6  # of a spread: what inputs in 32 bits do not tell apart
MOST_COLUMNS = 500  # of a table; of what is wider, no column by itself is looked at


def leaning(clients: Sequence[Client]) -> tuple[dict[str, Any], ...]:
    """Columns that leak, as a record has them, the one that tells most first."""
    first, many = clients[0], sum(len(c.train) for c in clients)
    if first.train.x.ndim != 2 or not many:
        return ()
    columns = _columns_of(first)
    if len(columns) > MOST_COLUMNS:
        return ()
    y = np.concatenate([c.train.y.cpu().numpy() for c in clients])
    whose = np.repeat(np.arange(len(clients)), [len(c.train) for c in clients])
    people = [np.arange(len(c.train)) if c.units is None else np.asarray(c.units) for c in clients]
    target, names = Target.of(first.task, y, first.classes), [c.name for c in clients]
    where = places(target, whose, names, len(columns), by_site(people))
    found = list[Leak]()
    for column in columns:
        x = _values_of(column, clients)
        several, text = column.end - column.begin > 1, _text_of(column, first)
        leak = leak_of(column.name, x, ~np.isnan(x), where, several, text)
        found += [leak] if leak else []
    found.sort(key=lambda leak: (-leak.score, -leak.rows))
    alone = first.name if len(clients) == 1 else ""
    return tuple(
        {"column": leak.column, "tells": leak.thing, "how": leak.how, "measure": leak.measure}
        | {"score": round(leak.score, 6), "rows": leak.rows, "site": leak.site or alone}
        for leak in found
    )


class _InputColumn(NamedTuple):
    """A column of a table, and which inputs are made of it: from `begin` to before `end`; `place` is its own
    among the columns that were prepared, -1 where inputs are columns as they are.
    """

    name: str
    begin: int
    end: int
    place: int = -1


def _columns_of(client: Client) -> list[_InputColumn]:
    """As its table calls them; inputs without names are counted from 0."""
    if client.preparation is None:
        names = client.features or tuple(f"x{i}" for i in range(client.train.x.shape[1]))
        return [_InputColumn(name, i, i + 1) for i, name in enumerate(names)]
    found, end = list[_InputColumn](), 0
    for place, part in enumerate(client.preparation.parts):
        begin, end = end, end + len(part.inputs)
        if not part.unused:  # one more input may say who lacks it, which tells sites apart
            found.append(_InputColumn(part.column.name, begin, end - part.told, place))
    return found


def _values_of(column: _InputColumn, clients: Sequence[Client]) -> Array:
    """[row] of all clients' training: a number as it was before each scaled it, so that equal ones are equal
    again; the place of a category's value; NaN where a client lacks the column.
    """
    parts = [None if column.place < 0 else c.preparation.parts[column.place] for c in clients]
    found = list[Array]()
    for client, part in zip(clients, parts, strict=True):
        x: Array = client.train.x[:, column.begin : column.end].double().cpu().numpy()
        x = x[:, 0] if x.shape[1] == 1 else x.argmax(axis=1).astype(np.float64)
        if part is not None and part.absent:
            x = np.full(len(x), np.nan)
        elif part is not None and part.column.scaled:
            x = x * part.column.spread + part.column.center
        found.append(x)
    spreads = [p.column.spread for p in parts if p is not None and p.read and p.column.scaled]
    whole = np.concatenate(found)
    return np.round(whole / (SAME * min(spreads))) * (SAME * min(spreads)) if spreads else whole


def _text_of(column: _InputColumn, client: Client) -> Text:
    """What people call a value, of those that `_values_of` gives."""
    if client.preparation is None or not (made_of := client.preparation.parts[column.place].column).values:
        return number_text
    if not made_of.of.ranked:
        return lambda value: made_of.values[int(value)]
    return lambda value: made_of.text(round(value, 6))


def look_first(leaks: Sequence[Mapping[str, Any]]) -> str:
    """In one line, of what a record has of them; nothing where there are none."""
    if not leaks:
        return ""
    if len(leaks) == 1:
        (leak,) = leaks
        if not leak["measure"]:
            return f"Look at `{leak['column']}` first: {_measured(leak)}: is it known before the outcome?"
        tells = str(leak["tells"]).replace("the target", "the outcome")
        said = f"Look at `{leak['column']}` first: alone it tells {tells} ({_measured(leak)})"
        return f"{said}: is it known before the outcome?"
    listed = [f"`{leak['column']}` ({_measured(leak)})" for leak in leaks[:NAMED]]
    *most, last = [*listed, *([f"{len(leaks) - NAMED} more"] if len(leaks) > NAMED else [])]
    said = f"Look at {', '.join(most)} and {last} first: each tells the outcome alone"
    return f"{said}: are they known before it?"


def _measured(leak: Mapping[str, Any]) -> str:
    whose = f"{leak['site']}'s " if leak["site"] else ""
    if not leak["measure"]:
        how = str(leak.get("how") or "tells the target").replace("the target", "the outcome")
        return f"it {how}, {whose}{thousands(leak['rows'])} training rows"
    figure = f"{leak['measure']} {shown_score(float(leak['score']))}"
    return f"{figure} on {whose}{thousands(leak['rows'])} training rows"
