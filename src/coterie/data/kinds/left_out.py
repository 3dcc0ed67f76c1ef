"""Columns that are no input: numbers and names of persons or rows, codes, free text, and those that hold
nothing to learn from.

That no two rows have the same number tells nothing by itself: so it is with laboratory values. A column
numbers persons or rows if its name says so, if it counts rows, or if no number is there twice though there
were so few to choose from that some would be. Long codes of one length, and all that is no certainty, are a
question. Digits that stand for something else are values of a category if they are few, else left out and a
question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from coterie.data.kinds.base import KINDS, ColumnKind, Verdict, register
from coterie.data.kinds.words import MANY, MOST_VALUES, YES
from coterie.data.tables.cells import Values
from coterie.data.tables.names import (
    PERSONAL,
    names_code,
    names_identifier,
    names_measure,
    names_numbering,
    names_person,
    words_in,
)
from coterie.data.tables.texts import cell_text, plain, same

if TYPE_CHECKING:
    from coterie.data.tables.numerals import Numbers

LONGER = 1e6  # codes of so many digits are longer than most quantities
TWINS = 15.0  # twins to be expected by chance, from which on it is a sign that there are none


@register
class _Code(ColumnKind):
    name = "code"
    noun = "a code"
    numbers_at = 30
    left_out = "its digits are no quantity"
    by_site = True

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        named = names_code(name, numbers.whole) and not names_person(name)
        code = named or (zeros and not names_identifier(name))
        return self.of_digits(name, numbers, zeros) if code else None

    def of_digits(self, name: str, numbers: Numbers, zeros: bool) -> Verdict:
        sign = "zeros before its numbers are" if zeros else f"its name ({name}) is"
        why = f"{sign} that of a code, and no quantity"
        if len(numbers) <= MOST_VALUES and (2 * len(numbers) <= numbers.total() or numbers.total() < MANY):
            says = f'{why}: {len(numbers)} values of a category; if it is a quantity, write use = "number"'
            return Verdict("category", why, says=(says,))
        doubt = (
            f"{why}, of {len(numbers)} different: left out. To use it, write "
            'use = "category" and values, or use = "number" if it is a quantity'
        )
        return Verdict(self.name, why, doubt=doubt)


@register
class _Identifier(ColumnKind):
    name = "identifier"
    noun = "an identifier"
    cells_at = 50
    numbers_at = 40
    left_out = "it tells who a row is, nothing that holds for others"
    family = "identifier"
    by_site = True
    lasts = True

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        if names_identifier(name) or words_in(name) & PERSONAL:
            return Verdict(self.name, f"its name says so ({name})")
        total, texts = values.total(), len({same(c) for c in values})
        length = sum(len(str(c).split()) * n for c, n in values.items()) / total
        if total >= MANY and texts / total > 0.9 and length <= 2.5:
            return Verdict(self.name, f"{texts} different texts in {total} rows")
        return None

    def of_numbers(self, name: str, numbers: Numbers, zeros: bool) -> Verdict | None:
        total = numbers.total()
        if not numbers.whole:
            return None
        if names_identifier(name):
            few = len(numbers) <= MOST_VALUES and 5 * len(numbers) <= total and total >= MANY
            if few and not names_person(name):
                return cast(_Code, KINDS["code"]).of_digits(name, numbers, zeros)
            return Verdict(self.name, f"its name says so ({name})")
        return self.numbering(name, numbers) if total >= MANY and not names_measure(name) else None

    def numbering(self, name: str, numbers: Numbers) -> Verdict | None:
        """Whole numbers that count rows, or stand for persons or cases; None for quantities."""
        total, different, least, most = numbers.total(), len(numbers), numbers.least, numbers.most
        alone = different == total
        in_order = bool((np.diff(numbers.values) > 0).all())
        starts = least in (0, 1) or least >= 1000 or names_numbering(name) or in_order
        if alone and starts and most - least == total - 1:
            return Verdict(self.name, "it counts the rows: no number is there twice and none is left out")
        if different >= MANY and names_numbering(name) and different >= 0.9 * total:
            return Verdict(self.name, f"its name says so ({name}), {different} different in {total} rows")
        back = 'left out; if it is a quantity, write use = "number"'
        if alone and total * total / (2 * (most - least + 1)) > TWINS:
            why = f"no number is there twice, of {most - least + 1:g} that could be"
            kept = 'It is used as a quantity; if not, write use = "leave-out"'
            said = f"its cells are numbers from {least:g} to {most:g}"
            return Verdict("number", said, doubt=f"{why}: does it number rows or persons? {kept}")
        if different >= MANY and least >= LONGER and numbers.one_length:
            why = f"{different} different numbers of {len(f'{least:.0f}')} digits in {total} rows"
            doubt = f"{why}: do they stand for persons or cases? It is {back}"
            return Verdict(self.name, why, doubt=doubt)
        return None


@register
class _Text(ColumnKind):
    name = "text"
    noun = "free text"
    cells_at = 60
    left_out = "free text is no input"
    family = "text"

    def of_cells(self, name: str, values: Values, commas: bool) -> Verdict | None:
        total, texts = values.total(), len({same(c) for c in values})
        length = sum(len(str(c).split()) * n for c, n in values.items()) / total
        alone = texts / total
        if (length >= 4 and alone > 0.5) or texts > MOST_VALUES or (total >= MANY and alone > 0.5):
            return Verdict(self.name, f"{texts} different texts in {total} rows, of {length:.1f} words each")
        return None


@register
class Constant(ColumnKind):
    name = "constant"
    left_out = "there is nothing to learn from it"
    family = ""
    persons = False

    def of_rows(self, values: Values, rows: int) -> Verdict:
        """Of so many rows, of which some have no value."""
        cell, gaps = next(iter(values)), rows - values.total()
        if not gaps:
            return Verdict(self.name, f"it is {cell_text(cell)} in all rows")
        why = f"it is {cell_text(cell)} in {values.total()} rows and missing in {gaps}"
        if plain(str(cell)) in YES | {"x"}:
            why += "; if missing means no, fill that in and inspect again"
        return Verdict(self.name, why)


@register
class _Empty(ColumnKind):
    name = "empty"
    left_out = "there is nothing to learn from it"
    family = ""
    persons = False
