"""Rows of a table by its recipe: the same steps for training, for use, for files and for frames; and of all
of a recipe's files, with the columns that a split may go by.

Cells become numbers as the kind of each column reads them (`data/kinds`); all that does not fit is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.core.errors import BadInput, CoterieError, Several, UnknownName, lines_of
from coterie.data.intake import Array
from coterie.data.kinds.base import Read, Written
from coterie.data.tables.cells import Column, in_order_of_rows, object_array
from coterie.data.tables.names import name_and_unit, unit_of
from coterie.data.tables.read import Table, read_table, refuse
from coterie.data.tables.recipe import Here, Recipe, Rule
from coterie.data.tables.texts import Cell, cell_text, plain, same, some
from coterie.data.targets import signed, stored

if TYPE_CHECKING:
    import pandas as pd


class Misfit(NamedTuple):
    """What cannot be read.

    line     where it is, what it is and what to do
    column   whose value it is
    rows     in which rows of the table; none for a mistake of the table as a whole
    says     what it is, without where
    """

    line: str
    column: str = ""
    rows: tuple[int, ...] = ()
    says: str = ""


class _Rows(NamedTuple):
    """What a recipe makes of a table.

    raw     [row, column] numbers, in the order of `Recipe.columns`, NaN where missing
    y       [row] class numbers or numbers, if asked for
    lines   [row] in the file, whose header is line 1; of a frame, rows from 1
    sites   [row] whose it is, where a column tells; empty where that is missing
    misfits what could not be read and is NaN in `raw`, if that is not to be refused
    """

    raw: Array
    y: Array | None
    lines: list[int]
    sites: list[str] | None
    misfits: tuple[Misfit, ...] = ()


def rows_of(
    recipe: Recipe,
    source: str | Path | pd.DataFrame | Table,
    site: str = "",
    with_target: bool = False,
    *,
    may_lack: Collection[str] = (),
    by_row: bool = False,
) -> _Rows:
    """Rows as the recipe reads them at `site`; without a site, as its column tells, or else as all have them.

    A column of `may_lack` need not be there. All that cannot be read is refused at once; with `by_row`, where
    the table as a whole can be read, rows that cannot are handed back as `misfits` instead.
    """
    table = read_table(source, recipe.encoding(site))
    if with_target and not recipe.target:
        raise BadInput("the recipe has no target: write target = one of its columns")
    troubles = list[Misfit]()
    whose = None if site else sites_in(recipe, table)
    if with_target and recipe.unlabelled == "drop":
        table, whose = _labelled(recipe, table, whose, site)
    goals = recipe.goal_rules if with_target else ()
    rules = [*recipe.inputs, *goals]
    made = np.full((len(table), len(rules)), np.nan, order="F")  # as it is filled, and looked at
    for name, rows in _places(whose, site, len(table)):
        reading = Reading(recipe, table.take(rows), name, frozenset(map(plain, may_lack)))
        made[rows] = reading.numbers(rules, with_target)
        troubles += [t._replace(rows=tuple(int(rows[i]) for i in t.rows)) for t in reading.troubles]
    if recipe.event and with_target:
        odd = dict[float, list[str]]()
        for row in np.flatnonzero(stored(made[:, -2]) <= 0):
            odd.setdefault(float(made[row, -2]), []).append(str(table.lines[row]))
        for time, lines in odd.items():
            where = f"{table.name}, {table.row_word} {some(lines)}, column {recipe.target!r}"
            remedy = "must be above 0: correct it, or remove the row"
            troubles.append(Misfit(f"{where}: a time of {time:g} {remedy}"))
    if not by_row or not all(t.rows for t in troubles):
        refuse([t.line for t in troubles])
    y = None
    if with_target:
        made, aims = made[:, : -len(goals)], made[:, -len(goals) :]
        y = aims[:, 0].astype(np.int64 if recipe.classes else np.float64)
        if recipe.event:
            y = signed(aims[:, 0], aims[:, 1])
    return _Rows(made, y, table.lines.tolist(), whose, tuple(troubles))


def unread(recipe: Recipe, source: str | Path | pd.DataFrame | Table, site: str = "") -> list[str]:
    """Columns of a table of which the recipe knows nothing."""
    table = read_table(source, recipe.encoding(site))
    known = {recipe.site} if recipe.site else set()
    known |= {h for r in recipe.rules if (h := header_of(table, r, r.here(site)))}
    return [h for h in table.columns if plain(h) not in {plain(k) for k in known}]


def sites_in(recipe: Recipe, table: Table) -> list[str] | None:
    """Whose each row is, by the recipe's column; sites that differ in case or blanks are one."""
    header = table.header(recipe.site) if recipe.site else None
    if header is None:
        return None
    names = {plain(site): site for rule in recipe.rules for site in rule.at}

    def site_of(cell: Cell) -> str:
        text = f"{cell:g}" if isinstance(cell, float) else cell
        return names.setdefault(plain(text), text) if text else ""

    return list(table.columns[header].each(site_of))


def _places(whose: Sequence[str] | None, site: str, rows: int) -> list[tuple[str, Array]]:
    """[(site, its rows)]."""
    return [(site, np.arange(rows))] if whose is None else rows_by_site(whose)


def rows_by_site(whose: Sequence[str]) -> list[tuple[str, Array]]:
    """[(site, its rows)], in the order in which sites first appear."""
    import pandas as pd

    codes, names = pd.factorize(object_array(whose))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return [(str(name), rows) for name, rows in zip(names, np.split(order, ends[:-1]), strict=True)]


def _labelled(
    recipe: Recipe, table: Table, whose: list[str] | None, site: str
) -> tuple[Table, list[str] | None]:
    """The rows that have a target, and say whether the event was seen, where that is asked."""
    keep = np.ones(len(table), dtype=bool)
    for goal in recipe.goal_rules:
        for name, rows in _places(whose, site, len(table)):
            header = header_of(table, goal, goal.here(name))
            if header is not None:
                keep[rows] &= ~table.columns[header].take(rows).among(goal.missing_marks(name))
    kept = np.flatnonzero(keep)
    return table.take(kept), whose and [whose[i] for i in kept]


def header_of(table: Table, rule: Rule, here: Here) -> str | None:
    """Where a site has only another name for a column, the common one does as well."""
    found = table.header(here.name or rule.name)
    if found is None and here.name and here == Here(here.name):
        found = table.header(rule.name)
    return found


class Reading:
    """One site's rows of a table; what is wrong is added to `troubles`."""

    def __init__(self, recipe: Recipe, table: Table, site: str, may_lack: frozenset[str]) -> None:
        self.recipe, self.table, self.site, self.may_lack = recipe, table, site, may_lack
        self.troubles = list[Misfit]()

    def numbers(self, rules: Sequence[Rule], with_target: bool) -> Array:
        """[row, rule], NaN where missing."""
        cells = {r.name: found for r in rules if (found := self.cells(r)) is not None}
        here = [r for r in rules if r.name in cells]
        read = {r.name: self.read(r, cells[r.name]) for r in here}
        needed = {self.recipe.target, self.recipe.event} if with_target else set[str]()
        self.troubles += self.misfits(here, read, cells, needed)
        made = np.full((len(self.table), len(rules)), np.nan, order="F")
        for i, rule in enumerate(rules):
            if rule.name in read:
                made[:, i] = read[rule.name].numbers[read[rule.name].codes]
        return made

    def cells(self, rule: Rule) -> Column | None:
        """A column as written; None for one that is absent, or should not be."""
        here = rule.here(self.site)
        header = None if here.absent else header_of(self.table, rule, here)
        if header is not None:
            self.refuse_other_unit(header, rule, here)
            return self.table.columns[header]
        if here.absent and plain(rule.name) in (plain(self.recipe.target), plain(self.recipe.event)):
            place = f"[columns.{rule.name}.at.{self.site}]"
            self.of_table(
                f"the target {rule.name!r} is absent at {self.site!r}: say how it is "
                f"written there, name or spellings under {place}, or leave the site out"
            )
        if not here.absent and plain(rule.name) not in self.may_lack:
            place = f"[columns.{rule.name}.at.{self.site}]"
            remedy = f", or write absent = true under {place}" if self.site else ""
            self.of_table(f"column {(here.name or rule.name)!r} is missing: add it{remedy}")
        return None

    def of_table(self, says: str) -> None:
        """A mistake of the table as a whole."""
        self.troubles.append(Misfit(f"{self.table.name}: {says}"))

    def refuse_other_unit(self, header: str, rule: Rule, here: Here) -> None:
        told = name_and_unit(header)[1]
        wanted = here.unit or rule.unit or name_and_unit(here.name or rule.name)[1]
        if told and told != (unit_of(wanted) if wanted else "") and rule.kind.in_units:
            at = f".at.{self.site}" if self.site else ""
            known = wanted or "no unit that it knows"
            self.of_table(
                f"column {header!r} is in {told}, the recipe reads {rule.name!r} in "
                f'{known}: convert it, or write unit = "{told}" under [columns.{rule.name}{at}]'
            )

    def read(self, rule: Rule, cells: Column) -> Read:
        """Each spelling is read once."""
        codes, which = in_order_of_rows(cells.codes)
        gone = cells.spellings.among(rule.missing_marks(self.site), which)
        return rule.kind.read(self, rule, Written(cells.spellings, which, codes, gone))

    def misfits(
        self,
        rules: Sequence[Rule],
        read: Mapping[str, Read],
        cells: Mapping[str, Column],
        needed: Collection[str],
    ) -> list[Misfit]:
        """What does not fit a rule: one line for each value of a column, with the lines it is in. What is of
        another sort altogether comes first.
        """
        must = set(map(plain, needed))
        found = [(r, "unread", read[r.name].unread) for r in rules]
        for rule in rules:
            mine = read[rule.name]
            found += [(rule, "missing", mine.missing)] if plain(rule.name) in must else []
            found.append((rule, "strange", mine.strange))
            if not rule.kind.words:
                found += [(rule, "low", mine.numbers < rule.lowest)] if rule.lowest is not None else []
                found += [(rule, "high", mine.numbers > rule.highest)] if rule.highest is not None else []
        grouped = dict[tuple[str, str, str], list[int]]()
        by_name = {r.name: r for r in rules}
        for rule, wrong, which in found:
            if which is not None and which.any():
                for row in np.flatnonzero(which[read[rule.name].codes]).tolist():
                    grouped.setdefault((rule.name, wrong, cell_text(cells[rule.name][row])), []).append(row)
        return [
            self.misfit(name, rows, _said(by_name[name], wrong, value, cells[name][rows[0]], self.site))
            for (name, wrong, value), rows in grouped.items()
        ]

    def misfit(self, column: str, rows: Sequence[int], says: str) -> Misfit:
        where = f"{self.table.row_word} {some([str(self.table.lines[i]) for i in rows])}"
        return Misfit(f"{self.table.name}, {where}, column {column!r}: {says}", column, tuple(rows), says)


def _said(rule: Rule, wrong: str, value: str, cell: Cell, site: str) -> str:
    """What is wrong with a cell, and what to do."""
    place = f"[columns.{rule.name}]"
    if wrong == "missing":
        return 'the target is missing: fill it in, remove the row, or write unlabelled = "drop" in the recipe'
    if wrong == "low":
        return f"{value} is below {rule.lowest:g}, the lowest: correct it, or change lowest under {place}"
    if wrong == "high":
        return f"{value} is above {rule.highest:g}, the highest: correct it, or change highest under {place}"
    return rule.kind.misfit(rule, site, value, cell)


@dataclass(frozen=True, eq=False)
class _Gathered:
    """raw [row, column], y [row], sites [row], empty where that is not told; `columns` by name; lines [row]
    in its file.
    """

    raw: Array
    y: Array
    sites: list[str]
    columns: dict[str, Array]
    notes: tuple[str, ...]
    lines: Array


def gather(recipe: Recipe, read: Mapping[str, Table] | None = None) -> _Gathered:
    """Reads all files but those that are `read` already, by site; what is wrong in any is said at once."""
    files = dict(recipe.sites) or {"": recipe.file}
    if files == {"": ""}:
        raise BadInput("the recipe names no files: write [sites] with one a site, or file and site")
    parts, troubles = list[tuple[str, Table, _Rows]](), list[str]()
    for site, file in files.items():
        try:
            known = (read or {}).get(site)
            table = read_table(Path(recipe.folder) / file if known is None else known, recipe.encoding(site))
            parts.append((site, table, rows_of(recipe, table, site, with_target=True)))
        except CoterieError as error:
            troubles += lines_of(error)
    if troubles:
        raise Several(troubles)
    each = [p for _, _, p in parts]
    whose = {name for p in each for name in p.sites or ()}
    if recipe.site:
        strange = sorted({s for r in recipe.rules for s in r.at if s not in whose})
        if strange:
            raise UnknownName(f"site under [columns], of those in {recipe.site!r},", strange[0], whose)
    sites = [name for site, _, p in parts for name in p.sites or [site] * len(p.lines)]
    raw, y = np.concatenate([p.raw for p in each]), np.concatenate([p.y for p in each if p.y is not None])
    columns = {r.name: _values_of(r, raw[:, i]) for i, r in enumerate(recipe.inputs)}
    people = set(map(plain, recipe.patient))
    for rule in recipe.rules:
        if not rule.read or plain(rule.name) in people:
            cells = people_in if plain(rule.name) in people else _cells_of
            columns[rule.name] = np.concatenate([cells(rule, *part) for part in parts])
    lines = np.concatenate([p.lines for p in each]).astype(np.int64)
    return _Gathered(raw, y, sites, columns, _notes_of(recipe, parts), lines)


def _values_of(rule: Rule, raw: Array) -> Array:
    """Numbers, or the words that a column's codes stand for."""
    import pandas as pd

    if not rule.values:
        return raw
    codes, found = pd.factorize(raw, use_na_sentinel=False)
    return np.asarray(object_array([None if np.isnan(v) else rule.column.text(v) for v in found])[codes])


def _cells_of(rule: Rule, site: str, table: Table, part: _Rows) -> Array:
    """A column that is left out, as it is written; None where missing."""
    here = rule.here(site)
    kept = np.isin(table.lines, part.lines)
    if (header := header_of(table, rule, here)) is None:
        return np.full(int(kept.sum()), None, dtype=object)
    column = table.columns[header].take(kept)
    cells = column.array
    cells[column.among(rule.missing_marks(site))] = None
    return cells


def people_in(rule: Rule, site: str, table: Table, part: _Rows) -> Array:
    """Who each row is about, by a column that tells it: 1001, 1001.0 and " 1001" are one; None where it is
    missing, or the site does not have the column.
    """
    absent, cells = rule.here(site).absent, _cells_of(rule, site, table, part)
    return object_array([None if absent or c is None else same(c) for c in cells])


def _notes_of(recipe: Recipe, parts: list[tuple[str, Table, _Rows]]) -> tuple[str, ...]:
    """What was done, one line each."""
    here = [(r, s, h) for r in (*recipe.inputs, recipe.goal) for s, h in r.at.items()]
    dropped = sum(len(t) - len(p.lines) for _, t, p in parts)
    strange = sorted({h for s, t, _ in parts for h in unread(recipe, t, s)})
    converted = [
        f"{r.name} of {s} from {h.unit or 'its unit'} to {r.unit or 'ours'}"
        for r, s, h in here
        if h.factor is not None or (h.unit and h.unit != r.unit and not h.absent)
    ]
    said = {
        "rows read": ", ".join(f"{t.name} {len(p.lines)}" for _, t, p in parts),
        "rows left out, as they have no target": str(dropped) if dropped else "",
        "columns left out by the recipe": some([r.name for r in recipe.rules if not r.read], 20),
        "columns that the recipe does not know, not read": some(strange, 20),
        "columns of other names": ", ".join(f"{h.name} of {s} is {r.name}" for r, s, h in here if h.name),
        "columns converted": ", ".join(converted),
        "columns absent": ", ".join(f"{r.name} at {s}" for r, s, h in here if h.absent),
    }
    return tuple(f"{what}: {details}" for what, details in said.items() if details)
