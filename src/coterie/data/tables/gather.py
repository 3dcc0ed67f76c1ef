"""All rows of a recipe's files, with the columns that a split may go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coterie.core.errors import BadInput, CoterieError, Several, UnknownName
from coterie.data.intake import Array
from coterie.data.tables.cells import object_array
from coterie.data.tables.follow import Rows, header_of, missing_marks, rows_of, unread
from coterie.data.tables.read import Table, read_table
from coterie.data.tables.rules import Recipe, Rule
from coterie.data.tables.texts import plain, same, some


@dataclass(frozen=True, eq=False)
class Gathered:
    """raw [row, column], y [row], sites [row], empty where that is not told; `columns` by name; lines [row]
    in its file.
    """

    raw: Array
    y: Array
    sites: list[str]
    columns: dict[str, Array]
    notes: tuple[str, ...]
    lines: Array


def gather(recipe: Recipe, read: Mapping[str, Table] | None = None) -> Gathered:
    """Reads all files but those that are `read` already, by site; what is wrong in any is said at once."""
    files = dict(recipe.sites) or {"": recipe.file}
    if files == {"": ""}:
        raise BadInput("the recipe names no files: write [sites] with one a site, or file and site")
    parts, tables, troubles = list[Rows](), list[tuple[str, Table]](), list[str]()
    for site, file in files.items():
        try:
            known = (read or {}).get(site)
            table = read_table(Path(recipe.folder) / file if known is None else known, recipe.encoding(site))
            parts.append(rows_of(recipe, table, site, with_target=True))
            tables.append((site, table))
        except CoterieError as error:
            troubles += error.lines if isinstance(error, Several) else [str(error)]
    if troubles:
        raise Several(troubles)
    whose = {name for p in parts for name in p.sites or ()}
    if recipe.site:
        strange = sorted({s for r in recipe.rules for s in r.at if s not in whose})
        if strange:
            raise UnknownName(f"site under [columns], of those in {recipe.site!r},", strange[0], whose)
    sites = [name for p, (s, _) in zip(parts, tables, strict=True) for name in p.sites or [s] * len(p.lines)]
    raw, y = np.concatenate([p.raw for p in parts]), np.concatenate([p.y for p in parts if p.y is not None])
    columns = {r.name: values_of(r, raw[:, i]) for i, r in enumerate(recipe.inputs)}
    people = set(map(plain, recipe.patient))
    for rule in recipe.rules:
        if not rule.read or plain(rule.name) in people:
            cells = people_in if plain(rule.name) in people else cells_of
            columns[rule.name] = np.concatenate(
                [cells(rule, s, t, p) for p, (s, t) in zip(parts, tables, strict=True)]
            )
    lines = np.concatenate([p.lines for p in parts]).astype(np.int64)
    return Gathered(raw, y, sites, columns, notes_of(recipe, tables, parts), lines)


def values_of(rule: Rule, raw: Array) -> Array:
    """Numbers, or the words that a column's codes stand for."""
    import pandas as pd

    if not rule.values:
        return raw
    codes, found = pd.factorize(raw, use_na_sentinel=False)
    return np.asarray(object_array([None if np.isnan(v) else rule.column.text(v) for v in found])[codes])


def cells_of(rule: Rule, site: str, table: Table, part: Rows) -> Array:
    """A column that is left out, as it is written; None where missing."""
    here = rule.here(site)
    kept = np.isin(table.lines, part.lines)
    if (header := header_of(table, rule, here)) is None:
        return np.full(int(kept.sum()), None, dtype=object)
    column = table.columns[header].take(kept)
    found = column.array
    found[column.among(missing_marks(rule, here))] = None
    return found


def people_in(rule: Rule, site: str, table: Table, part: Rows) -> Array:
    """Who each row is about, by a column that tells it: 1001, 1001.0 and " 1001" are one; None where it is
    missing, or the site does not have the column.
    """
    cells = cells_of(rule, site, table, part)
    absent = rule.here(site).absent
    return object_array([None if absent or c is None else same(c) for c in cells])


def notes_of(recipe: Recipe, tables: list[tuple[str, Table]], parts: list[Rows]) -> tuple[str, ...]:
    """What was done, one line each."""
    here = [(r, s, h) for r in (*recipe.inputs, recipe.goal) for s, h in r.at.items()]
    dropped = sum(len(t) - len(p.lines) for (_, t), p in zip(tables, parts, strict=True))
    strange = sorted({h for s, t in tables for h in unread(recipe, t, s)})
    said = {
        "rows read": ", ".join(f"{t.name} {len(p.lines)}" for (_, t), p in zip(tables, parts, strict=True)),
        "rows left out, as they have no target": str(dropped) if dropped else "",
        "columns left out by the recipe": some([r.name for r in recipe.rules if not r.read], 20),
        "columns that the recipe does not know, not read": some(strange, 20),
        "columns of other names": ", ".join(f"{h.name} of {s} is {r.name}" for r, s, h in here if h.name),
        "columns converted": ", ".join(
            f"{r.name} of {s} from {h.unit or 'its unit'} to {r.unit or 'ours'}"
            for r, s, h in here
            if h.factor is not None or (h.unit and h.unit != r.unit and not h.absent)
        ),
        "columns absent": ", ".join(f"{r.name} at {s}" for r, s, h in here if h.absent),
    }
    return tuple(f"{what}: {details}" for what, details in said.items() if details)
