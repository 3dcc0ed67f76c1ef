"""What is known of a kind of column, and the table of all kinds.

An entry is asked in this order, wherever a column goes:

    found       is it the kind of these cells, or of these numbers? (`of_cells`, `of_numbers`)
    proposed    what a recipe says of it, of all sites' cells (`propose`), or why it is left out (`left_out`)
    read        cells of a table become raw numbers (`read`); what is wrong with one (`misfit`)
    prepared    raw numbers become inputs of a model (`column`, `inputs`, `encoded`)
    held against training    values of new rows, as people write them (`text`)

A kind that is only ever left out has the first two. What an entry does not say is as the defaults here have
it: a number of no unit that goes in as it is. Flag, category and ordered, whose cells are words of a list,
have `Words` in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.core.errors import BadInput, UnknownName
from coterie.data.tables.cells import Spellings, Values
from coterie.data.tables.numerals import USUAL, Writing
from coterie.data.tables.texts import Cell, same, some

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.data.preparation import Column
    from coterie.data.tables.apply_recipe import Reading
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.numerals import Numbers
    from coterie.data.tables.recipe import Recipe, Rule

Array = npt.NDArray[Any]
LAST = 1000


@dataclass(frozen=True)
class Verdict:
    """What the cells of a column are, and why.

    writing   how numbers are written
    dates     how dates are
    scale     the steps of an ordered column, all of them
    marks     words that stand for missing, as written
    odd       cells that are none of the kind, in a column of it
    says      what a person should know
    asks      what a person should decide
    doubt     ... about the kind
    """

    kind: str
    why: str
    writing: Writing = USUAL
    dates: str = ""
    scale: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    odd: tuple[Cell, ...] = ()
    says: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    doubt: str = ""


class Written(NamedTuple):
    """A column's cells at one site: `codes` [row] say which spelling of `which` it has, `gone` [spelling]
    whether that is missing.
    """

    spellings: Spellings
    which: Array
    codes: Array
    gone: Array

    @property
    def cells(self) -> Array:
        return np.asarray(self.spellings.cells[self.which])


class Read(NamedTuple):
    """The same as numbers [spelling], NaN for what is missing or could not be read.

    unread    whether it is of another sort altogether, which is said before what is only not allowed
    """

    numbers: Array
    missing: Array
    codes: Array
    unread: Array | None = None

    @property
    def strange(self) -> Array:
        """[spelling] what is there, and none of a column's values."""
        odd = np.isnan(self.numbers) & ~self.missing
        return odd if self.unread is None else odd & ~self.unread


class ColumnKind:
    """One kind of column. An instance is registered in `KINDS` by its file.

    about        behind its name in the head of a recipe; empty where no recipe can use a column so
    noun         what a person calls a column that is left out as one
    place        among the kinds that a recipe may use
    cells_at     when it is asked about cells, ...
    numbers_at   ... and about cells that are all numbers: the first to say yes has them
    left_out     why a column of the kind is no input unless a person says so
    family       columns of one family may be one column under two names; empty: of any
    by_site      it does not show when sites are joined, so that what most rows' sites say decides
    lasts        one that is the same in all rows is still of this kind
    persons      its values may stand for persons
    as_classes   the kind of a target that holds such cells
    words        cells are words of a list, `values`
    encodes      raw columns of a model may be of this kind
    scaled       inputs are (value - center) / spread
    ranked       values have an order
    in_units     values have a unit, and a site may have another
    counted      from another date: a rule says `since` when, and in what
    same_everywhere    its words mean the same at every site, however they are written
    """

    name: str = ""
    about: str = ""
    noun: str = ""
    place: int = LAST
    cells_at: int = LAST
    numbers_at: int = LAST
    left_out: str = ""
    family: str = "values"
    by_site: bool = False
    lasts: bool = False
    persons: bool = True
    as_classes: str = ""
    words: bool = False
    encodes: bool = False
    scaled: bool = False
    ranked: bool = True
    in_units: bool = False
    counted: bool = False
    same_everywhere: bool = False

    # found

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        """Of a column's known cells, if they are of this kind; `commas`: other columns have decimal ones."""
        return None

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        """The same where all are numbers; `zeros` stand before some of them."""
        return None

    # proposed

    def propose(self, draft: Draft) -> None:
        """Makes a rule of what sites' cells look like; without one the column is left out."""

    # a recipe

    def check(self, rule: Rule, recipe: Recipe) -> list[tuple[str, str]]:
        """(key, what is wrong) of a rule that a person may have edited."""
        return []

    def column(self, rule: Rule) -> Column:
        """What a column becomes that a recipe uses so."""
        from coterie.data.preparation import Column

        kind = self.name if self.encodes else "number"
        return Column(rule.name, kind, unit=rule.unit, center=rule.center, spread=rule.spread)

    # read

    def read(self, reading: Reading, rule: Rule, written: Written) -> Read:
        """Cells of one site as raw numbers."""
        raise BadInput(f"column {rule.name!r} is used as {self.name}, which cannot be read: leave it out")

    def misfit(self, rule: Rule, site: str, value: str, cell: Cell) -> str:
        """What is wrong with a cell that could not be read, a `value` as messages show it, and what to do."""
        return f"{value} is no {self.name}: correct it, or list it as missing under [columns.{rule.name}]"

    # prepared

    def inputs(self, column: Column) -> list[str]:
        """Names of the inputs that it becomes."""
        return [column.name]

    def allowed(self, column: Column) -> tuple[float, ...] | None:
        """Raw numbers that it may hold; None for any."""
        return None

    def encoded(self, column: Column, known: Array) -> Array:
        """[row, input] of raw numbers [row] without gaps."""
        return np.asarray(known[:, None])

    def exported(self, column: Column, known: Tensor, codes: Tensor) -> Tensor:
        """The same of [row, 1] in the operations that ONNX has; `codes` [1, value] are the column's."""
        raise BadInput(f"column {column.name!r} is used as {self.name}, which ONNX has no form for")

    def usual(self, column: Column, fill: float | None) -> float | None:
        """The raw number that a value is explained against; None for all values alike."""
        return 0.0 if fill is None else fill

    # shown

    def text(self, column: Column, raw: float) -> str:
        """A raw number as people write it."""
        return dict(zip(column.codes, column.values, strict=True)).get(raw, f"{raw:g}")

    def text_of_inputs(self, column: Column, inputs: Sequence[float]) -> str:
        """Inputs as a value of the table, as near as they are."""
        return f"{inputs[0] * column.spread + column.center:.4g} {column.unit}".strip()


KINDS: dict[str, ColumnKind] = {}
"""Every kind by its name."""


def register(kind: type[ColumnKind]) -> type[ColumnKind]:
    """A decorator: its class is the whole entry."""
    if kind.name in KINDS:
        raise ValueError(f"column kind {kind.name!r} is registered twice")
    KINDS[kind.name] = kind()
    return kind


def kind_called(name: str) -> ColumnKind:
    if name not in KINDS:
        raise UnknownName("column kind", name, KINDS)
    return KINDS[name]


def in_recipes() -> tuple[str, ...]:
    """What a recipe may use a column as."""
    found = sorted((k for k in KINDS.values() if k.about), key=lambda k: k.place)
    return (*(k.name for k in found), "leave-out")


def of_models() -> tuple[str, ...]:
    """What raw columns of a model may be."""
    return tuple(k.name for k in sorted(KINDS.values(), key=lambda k: k.place) if k.encodes)


class Words(ColumnKind):
    words = True
    least = 1  # values that it needs
    needs = "values"

    def check(self, rule: Rule, recipe: Recipe) -> list[tuple[str, str]]:
        if len(rule.values) < self.least or (self.least > 1 and len(rule.values) != self.least):
            return [("", f"used as {self.name}, it needs {self.needs}; got {list(rule.values)}")]
        found = list[tuple[str, str]]()
        if rule.codes and len(rule.codes) != len(rule.values):
            found.append(("", f"{len(rule.codes)} codes for {len(rule.values)} values: give one for each"))
        known = {same(v) for v in rule.values}
        for site in ("", *rule.at):  # a site that writes 1 and 2 for 0 and 1 says so of both
            here = rule.here(site).spellings
            spot, told = f"at.{site}.spellings" if site else "spellings", {**rule.spellings, **here}
            found += [(spot, str(UnknownName("value", v, rule.values))) for v in told if same(v) not in known]
            said = Counter(known - {same(v) for v in here})  # its 1 is then no other site's 1
            for value, words in told.items():
                said.update({same(w) for w in words} - {same(value)})
            twice = ((word, count) for word, count in said.items() if count > 1)
            found += [(spot, f"{word!r} stands for {n} values: keep it under one") for word, n in twice]
        return found

    def column(self, rule: Rule) -> Column:
        codes = rule.codes or tuple(map(float, range(len(rule.values))))
        return replace(super().column(rule), values=rule.values, codes=codes, unit="")

    def read(self, reading: Reading, rule: Rule, written: Written) -> Read:
        """Words become the numbers of their values; what is none of them stays NaN without being missing."""
        words, numbers = rule.words(reading.site), dict(zip(rule.values, rule.column.codes, strict=True))
        read = [
            np.nan if gone else numbers.get(words.get(same(cell), cell), np.nan)
            for cell, gone in zip(written.cells, written.gone, strict=True)
        ]
        return Read(np.array(read, dtype=np.float64), written.gone, written.codes)

    def misfit(self, rule: Rule, site: str, value: str, cell: Cell) -> str:
        may, place = some(list(rule.values), 8), f"[columns.{rule.name}]"
        return f"{value} is not one of {may}: correct it, or list it as missing or a spelling under {place}"

    def allowed(self, column: Column) -> tuple[float, ...] | None:
        return column.codes
