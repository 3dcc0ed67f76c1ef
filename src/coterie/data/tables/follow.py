"""Rows of a table by its recipe: the same steps for training, for use, for files and for frames.

Cells become numbers or one of a column's values; the whole table is then checked (see `schema.py`).
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.core.errors import BadInput
from coterie.data.intake import Array
from coterie.data.survival import signed, stored
from coterie.data.tables.cells import Column, Spellings, in_order_of_rows, object_array
from coterie.data.tables.dates import DAYS_IN, date_of, days_between
from coterie.data.tables.numerals import misfit_of
from coterie.data.tables.read import Table, read_table, refuse
from coterie.data.tables.recipe import converted_by
from coterie.data.tables.rules import Here, Recipe, Rule
from coterie.data.tables.schema import failures, schema_of
from coterie.data.tables.texts import Cell, number_of, plain, same, shown, some
from coterie.data.tables.units import name_and_unit, unit_of

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


class Rows(NamedTuple):
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
) -> Rows:
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
        table, whose = labelled(recipe, table, whose, site)
    goals = recipe.goal_rules if with_target else ()
    rules = [*recipe.inputs, *goals]
    made = np.full((len(table), len(rules)), np.nan, order="F")  # as it is filled, and looked at
    for name, rows in places(whose, site, len(table)):
        reading = Reading(recipe, table.take(rows), name, frozenset(map(plain, may_lack)), [])
        made[rows] = reading.numbers(rules, with_target)
        troubles += [t._replace(rows=tuple(int(rows[i]) for i in t.rows)) for t in reading.troubles]
    if recipe.event and with_target:
        troubles += map(Misfit, odd_times(recipe, table, made[:, -2]))
    if not by_row or not all(t.rows for t in troubles):
        refuse([t.line for t in troubles])
    y = None
    if with_target:
        made, y = made[:, : -len(goals)], targets_of(recipe, made[:, -len(goals) :])
    return Rows(made, y, table.lines.tolist(), whose, tuple(troubles))


def targets_of(recipe: Recipe, goals: Array) -> Array:
    """[row] class numbers, numbers or signed times, of the columns of `Recipe.goal_rules` [row, column]."""
    if recipe.event:
        return signed(goals[:, 0], goals[:, 1])
    return np.asarray(goals[:, 0].astype(np.int64 if recipe.classes else np.float64))


def odd_times(recipe: Recipe, table: Table, times: Array) -> list[str]:
    """A line for each time that is none."""
    odd = dict[float, list[int]]()
    for row in np.flatnonzero(stored(times) <= 0):
        odd.setdefault(float(times[row]), []).append(int(row))
    return [
        f"{table.name}, {table.row_word} {some([str(table.lines[i]) for i in rows])}, column "
        f"{recipe.target!r}: a time of {time:g} must be above 0: correct it, or remove the row"
        for time, rows in odd.items()
    ]


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


def places(whose: Sequence[str] | None, site: str, rows: int) -> list[tuple[str, Array]]:
    """[(site, its rows)]."""
    return [(site, np.arange(rows))] if whose is None else rows_by_site(whose)


def rows_by_site(whose: Sequence[str]) -> list[tuple[str, Array]]:
    """[(site, its rows)], in the order in which sites first appear."""
    import pandas as pd

    codes, names = pd.factorize(object_array(whose))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return [(str(name), rows) for name, rows in zip(names, np.split(order, ends[:-1]), strict=True)]


def labelled(
    recipe: Recipe, table: Table, whose: list[str] | None, site: str
) -> tuple[Table, list[str] | None]:
    """The rows that have a target, and say whether the event was seen, where that is asked."""
    keep = np.ones(len(table), dtype=bool)
    for goal in recipe.goal_rules:
        for name, rows in places(whose, site, len(table)):
            header = header_of(table, goal, goal.here(name))
            if header is not None:
                marks = missing_marks(goal, goal.here(name))
                keep[rows] &= ~table.columns[header].take(rows).among(marks)
    kept = np.flatnonzero(keep)
    return table.take(kept), whose and [whose[i] for i in kept]


def header_of(table: Table, rule: Rule, here: Here) -> str | None:
    """Where a site has only another name for a column, the common one does as well."""
    found = table.header(here.name or rule.name)
    if found is None and here.name and here == Here(here.name):
        found = table.header(rule.name)
    return found


def missing_marks(rule: Rule, here: Here) -> set[str]:
    return {"", *map(same, (*rule.missing, *here.missing))}


class Tidy(NamedTuple):
    """A column's spellings, read.

    numbers   [spelling] NaN for what is missing or could not be read; of words, their codes
    unread    [spelling] whether it should be a number, and is none
    missing   [spelling]
    codes     [row] which spelling it has
    words     [spelling] the values of a column of words in their own spelling, None where missing
    """

    numbers: Array
    unread: Array
    missing: Array
    codes: Array
    words: Array | None = None

    @property
    def rows(self) -> Array:
        """[row] numbers, NaN for what is missing or could not be read; or words, None for what is missing."""
        return np.asarray((self.numbers if self.words is None else self.words)[self.codes])

    def fits(self, rule: Rule, needed: bool) -> bool:
        """Whether no cell can fail the schema, which need not look at a million of them then."""
        if self.words is not None:
            return not (np.isnan(self.numbers) & ~self.missing).any() and not (needed and self.missing.any())
        low, high = rule.lowest, rule.highest
        out = (low is not None and (self.numbers < low).any()) or (
            high is not None and (self.numbers > high).any()
        )
        return not out and not (needed and np.isnan(self.numbers).any())


def of_words(rule: Rule, values: Sequence[str | None], codes: Array) -> Tidy:
    """Of words in their own spelling; what is no value of the column stays as it is."""
    known = dict(zip(rule.values, rule.column.codes, strict=True))
    numbers = np.array([np.nan if v is None else known.get(v, np.nan) for v in values], dtype=np.float64)
    missing = np.array([v is None for v in values], dtype=bool)
    return Tidy(numbers, np.zeros(len(values), dtype=bool), missing, codes, object_array(values))


class Reading:
    """One site's rows of a table; what is wrong is added to `troubles`."""

    def __init__(
        self, recipe: Recipe, table: Table, site: str, may_lack: frozenset[str], troubles: list[Misfit]
    ) -> None:
        self.recipe, self.table, self.site = recipe, table, site
        self.may_lack, self.troubles = may_lack, troubles

    def numbers(self, rules: Sequence[Rule], with_target: bool) -> Array:
        """[row, rule], NaN where missing."""
        cells = {r.name: found for r in rules if (found := self.cells(r)) is not None}
        here = [r for r in rules if r.name in cells]
        tidy = {r.name: self.tidy(r, cells[r.name]) for r in here}
        needed = {self.recipe.target, self.recipe.event} if with_target else set[str]()
        self.troubles += self.misfits(here, tidy, cells, needed)
        made = np.full((len(self.table), len(rules)), np.nan, order="F")
        for i, rule in enumerate(rules):
            if rule.name in tidy:
                made[:, i] = tidy[rule.name].numbers[tidy[rule.name].codes]
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
            wanted = here.name or rule.name
            remedy = (
                f", or write absent = true under [columns.{rule.name}.at.{self.site}]" if self.site else ""
            )
            self.of_table(f"column {wanted!r} is missing: add it{remedy}")
        return None

    def of_table(self, says: str) -> None:
        """A mistake of the table as a whole."""
        self.troubles.append(Misfit(f"{self.table.name}: {says}"))

    def refuse_other_unit(self, header: str, rule: Rule, here: Here) -> None:
        told = name_and_unit(header)[1]
        wanted = here.unit or rule.unit or name_and_unit(here.name or rule.name)[1]
        if told and told != (unit_of(wanted) if wanted else "") and rule.use == "number":
            at = f".at.{self.site}" if self.site else ""
            known = wanted or "no unit that it knows"
            self.of_table(
                f"column {header!r} is in {told}, the recipe reads {rule.name!r} in "
                f'{known}: convert it, or write unit = "{told}" under [columns.{rule.name}{at}]'
            )

    def tidy(self, rule: Rule, cells: Column) -> Tidy:
        """Each spelling is read once."""
        here = rule.here(self.site)
        codes, which = in_order_of_rows(cells.codes)
        gone = cells.spellings.among(missing_marks(rule, here), which)
        if rule.use == "number":
            return self.numbers_of(rule, cells.spellings, which, gone, codes)
        found = cells.spellings.cells[which]
        if rule.use == "date":
            format = here.dates or rule.dates
            dates = [None if g else date_of(c, format) or c for c, g in zip(found, gone, strict=True)]
            return self.durations(rule, object_array(dates)[codes])
        words = words_of(rule, here)
        values = [None if g else words.get(same(c), c) for c, g in zip(found, gone, strict=True)]
        return of_words(rule, values, codes)

    def numbers_of(self, rule: Rule, spellings: Spellings, which: Array, gone: Array, codes: Array) -> Tidy:
        """In the column's own unit."""
        here, (factor, offset) = rule.here(self.site), converted_by(rule, rule.here(self.site))
        read = spellings.numbers(*rule.marks(self.site))[which]
        words = words_of(rule, here)
        for i in np.flatnonzero(spellings.among(words, which)) if words else ():
            value = number_of(words[same(spellings.cells[which[i]])])
            read[i] = np.nan if value is None else value
        numbers = np.where(gone, np.nan, read if (factor, offset) == (1.0, 0.0) else read * factor + offset)
        return Tidy(numbers, np.isnan(read) & ~gone, gone, codes)

    def durations(self, rule: Rule, dates: Array) -> Tidy:
        """Days or years since another column or a date, of [row] dates or what is none."""
        fixed = date_of(rule.since)
        since = self.dates(self.recipe.rule(rule.since)) if fixed is None else [fixed] * len(dates)
        unread = np.array([isinstance(d, str | float) for d in dates], dtype=bool)
        counted = [
            None if no_date else since_then(d, s, rule.counted)
            for d, s, no_date in zip(dates, since, unread, strict=True)
        ]
        numbers = np.array([np.nan if v is None else v for v in counted], dtype=np.float64)
        return Tidy(numbers, unread, np.isnan(numbers) & ~unread, np.arange(len(dates)))

    def dates(self, rule: Rule) -> list[datetime.datetime | None]:
        """Of a column that others are counted from, used or not."""
        here, cells = rule.here(self.site), self.cells(rule)
        if cells is None:
            return [None] * len(self.table)
        gone, format = cells.among(missing_marks(rule, here)), here.dates or rule.dates
        found = cells.each(lambda c: date_of(c, format))
        found[gone] = None
        self.troubles += [
            self.misfit(rule.name, [i], said(replace(rule, use="date"), "", shown(cells[i])))
            for i in np.flatnonzero(~gone).tolist()
            if found[i] is None
        ]
        return list(found)

    def misfits(
        self,
        rules: Sequence[Rule],
        tidy: Mapping[str, Tidy],
        cells: Mapping[str, Column],
        needed: Collection[str],
    ) -> list[Misfit]:
        """What does not fit the schema: one line for each value of a column, with the lines it is in."""
        unread = [
            (r.name, "", int(i))
            for r in rules
            for i in np.flatnonzero(tidy[r.name].unread[tidy[r.name].codes])
        ]
        known = {(name, row) for name, _, row in unread}
        wrong = [r for r in rules if not tidy[r.name].fits(r, plain(r.name) in set(map(plain, needed)))]
        misfit = failures(schema_of(wrong, needed), {r.name: tidy[r.name].rows for r in wrong})
        found = [*unread, *(f for f in misfit if (f[0], f[2]) not in known)]
        by_name = {r.name: r for r in rules}
        grouped = dict[tuple[str, str, str], list[int]]()
        for name, check, row in found:
            grouped.setdefault((name, check, shown(cells[name][row])), []).append(row)
        return [
            self.misfit(name, rows, said(by_name[name], check, value, cells[name][rows[0]], self.site))
            for (name, check, value), rows in grouped.items()
        ]

    def misfit(self, column: str, rows: Sequence[int], says: str) -> Misfit:
        where = f"{self.table.row_word} {some([str(self.table.lines[i]) for i in rows])}"
        return Misfit(f"{self.table.name}, {where}, column {column!r}: {says}", column, tuple(rows), says)


def since_then(date: datetime.datetime | None, then: datetime.datetime | None, counted: str) -> float | None:
    return None if date is None or then is None else days_between(date, then) / DAYS_IN[counted]


def words_of(rule: Rule, here: Here) -> dict[str, str]:
    """{a way of writing: the value}; of a number, other words for it."""
    words = {same(v): v for v in rule.values}
    for spellings in (rule.spellings, here.spellings):
        words |= {same(w): value for value, others in spellings.items() for w in others}
    return words


def said(rule: Rule, check: str, value: str, cell: Cell = "", site: str = "") -> str:
    """What is wrong with a cell, and what to do."""
    place = f"[columns.{rule.name}]"
    if check == "not_nullable":
        return 'the target is missing: fill it in, remove the row, or write unlabelled = "drop" in the recipe'
    if check.startswith("greater_than"):
        return f"{value} is below {rule.lowest:g}, the lowest: correct it, or change lowest under {place}"
    if check.startswith("less_than"):
        return f"{value} is above {rule.highest:g}, the highest: correct it, or change highest under {place}"
    if rule.use == "number" and (odd := misfit_of(cell, *rule.marks(site))):
        return f"{value} {odd} under {place}"
    if rule.use == "number":
        return f"{value} is not a number: correct it, or list it as missing under {place}"
    if rule.use == "date":
        how = 'how dates are written, dates = "%d.%m.%Y",'
        return f"{value} is not a date: correct it, or write {how} under {place}"
    may = some(list(rule.values), 8)
    return f"{value} is not one of {may}: correct it, or list it as missing or a spelling under {place}"
