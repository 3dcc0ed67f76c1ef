"""Quantities: perhaps with a decimal comma, thousands in groups or a few cells that are no numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import KINDS, Array, ColumnKind, Read, Verdict, Written, register
from coterie.data.kinds.category import MANY
from coterie.data.tables.cells import Values
from coterie.data.tables.names import names_measure
from coterie.data.tables.numerals import Numbers, all_read_as, misfit_of, missing_codes, writing_of, zero_led
from coterie.data.tables.texts import Cell, number_of, plain, same

if TYPE_CHECKING:
    from torch import Tensor

    from coterie.data.preparation import Column
    from coterie.data.tables.apply_recipe import Reading
    from coterie.data.tables.draft import Draft
    from coterie.data.tables.recipe import Rule

MOSTLY = 0.9  # a column of numbers or dates may have so few odd cells
LONG = 1e5  # codes of so many digits are longer than most quantities
DOUBTFUL_WORDS = frozenset({"none", "unknown", "unclear", "not applicable"})  # may be values of a category


@register
class Number(ColumnKind):
    name = "number"
    about = "number"
    place = 10
    cells_at = 20
    numbers_at = 900
    family = "number"
    in_units = True
    encodes = True
    scaled = True

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        """Of cells that are nearly all numbers, which may be of any kind: all kinds are asked about these."""
        writing = writing_of(values, commas)
        parsed = all_read_as(values, writing)
        known = ~np.isnan(parsed)
        total, read = values.total(), int(values.counts[known].sum())
        odd = list(values.kept(~known))
        if not known.any() or read < MOSTLY * total or (len(odd) > 10 and read < 0.99 * total):
            return None
        doubtful = [c for c in odd if plain(str(c)) in DOUBTFUL_WORDS]
        numbers = Numbers(parsed[known], values.counts[known])
        codes, asks, says = missing_codes(numbers)
        coded = np.isin(parsed, codes)
        pairs = zip(values.kept(coded), parsed[coded].tolist(), strict=True)
        written = [str(c) for c, v in pairs if same(c) != f"{v:g}"]  # -9,0 for -9
        quantities, zeros = numbers.without(codes), zero_led(values.kept(known & ~coded))
        asked = sorted(KINDS.values(), key=lambda kind: kind.numbers_at)
        found = next(v for k in asked if (v := k.of_numbers(name, quantities, zeros)) is not None)
        return replace(
            found,
            writing=writing,
            odd=tuple(c for c in odd if c not in doubtful),
            marks=(*map(str, doubtful), *(f"{c:g}" for c in codes), *written),
            says=(*says, *found.says),
            asks=(*([writing.ask] if writing.ask else []), *asks),
        )

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        doubt, least = "", numbers.least
        alone = len(numbers) == numbers.total() >= MANY
        if alone and least >= LONG and not names_measure(name) and numbers.whole and numbers.one_length:
            doubt = (
                f"{len(numbers)} different numbers of {len(f'{least:.0f}')} digits, none of them twice: used "
                'as quantities; if they stand for persons or cases, write use = "leave-out"'
            )
        return Verdict(self.name, f"its cells are numbers from {least:g} to {numbers.most:g}", doubt=doubt)

    def propose(self, draft: Draft) -> None:
        from coterie.data.tables.draft_numbers import propose_number

        propose_number(draft)

    def read(self, reading: Reading, rule: Rule, written: Written) -> Read:
        """In the column's own unit."""
        which, spellings = written.which, written.spellings
        factor, offset = rule.conversion(reading.site)
        read = spellings.numbers(*rule.marks(reading.site))[which]
        words = rule.words(reading.site)
        for i in np.flatnonzero(spellings.among(words, which)) if words else ():
            value = number_of(words[same(spellings.cells[which[i]])])
            read[i] = np.nan if value is None else value
        own = read if (factor, offset) == (1.0, 0.0) else read * factor + offset
        numbers = np.where(written.gone, np.nan, own)
        return Read(numbers, written.gone, written.codes, np.isnan(read) & ~written.gone)

    def misfit(self, rule: Rule, site: str, value: str, cell: Cell) -> str:
        place = f"[columns.{rule.name}]"
        if odd := misfit_of(cell, *rule.marks(site)):
            return f"{value} {odd} under {place}"
        return f"{value} is not a number: correct it, or list it as missing under {place}"

    def encoded(self, column: Column, known: Array) -> Array:
        return np.asarray(((known - column.center) / column.spread)[:, None])

    def exported(self, column: Column, known: Tensor, codes: Tensor) -> Tensor:
        return (known - column.center) / column.spread

    def usual(self, column: Column, fill: float | None) -> float | None:
        """The center that it is scaled by, where one was fitted or given."""
        fitted = (column.center, column.spread) != (0.0, 1.0)
        return column.center if fitted else 0.0 if fill is None else fill
