"""Quantities: perhaps with a decimal comma, thousands in groups or a few cells that are no numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from coterie.data.kinds.base import KINDS, Array, ColumnKind, Read, Verdict, Written, register
from coterie.data.kinds.words import MANY
from coterie.data.tables.cells import Values
from coterie.data.tables.names import names_measure
from coterie.data.tables.numerals import NAMES, OTHER, Numbers, Writing, marks_of, two_readings
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
LOW_CODES, HIGH_CODES = (
    (-1.0, -8.0, -9.0, -88.0, -99.0, -999.0, -9999.0),
    (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0, 99999.0),
)


@register
class _Number(ColumnKind):
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
        writing = Writing.of(values, commas)
        parsed = writing.read(values)
        known = ~np.isnan(parsed)
        total, read = values.total(), int(values.counts[known].sum())
        odd = list(values.kept(~known))
        if not known.any() or read < MOSTLY * total or (len(odd) > 10 and read < 0.99 * total):
            return None
        doubtful = [c for c in odd if plain(str(c)) in DOUBTFUL_WORDS]
        numbers = Numbers(parsed[known], values.counts[known])
        codes, asks, says = _missing_codes(numbers)
        coded = np.isin(parsed, codes)
        pairs = zip(values.kept(coded), parsed[coded].tolist(), strict=True)
        written = [str(c) for c, v in pairs if same(c) != f"{v:g}"]  # -9,0 for -9
        quantities, zeros = numbers.without(codes), _zero_led(values.kept(known & ~coded))
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
        """A number that is not written as its column writes them is told apart from what is none."""
        place, (decimal, thousands) = f"[columns.{rule.name}]", rule.marks(site)
        number = number_of(cell, "either")
        if number is None or number_of(cell, decimal, thousands) is not None:
            return f"{value} is not a number: correct it, or list it as missing under {place}"
        if both := two_readings(cell):
            says = f"is {both[0]:g} or {both[1]:g}"
            other = f'for the one, thousands = "{marks_of(cell).doubtful}" for the other'
            return f'{value} {says}: correct it, or write decimal = "either" {other} under {place}'
        usual, other = NAMES[decimal or "."], NAMES[OTHER[decimal or "."]]
        says = f"is {number:g} with a decimal {other}, and the column has decimal {usual}s"
        return f'{value} {says}: correct it, or write decimal = "either" under {place}'

    def encoded(self, column: Column, known: Array) -> Array:
        return np.asarray(((known - column.center) / column.spread)[:, None])

    def exported(self, column: Column, known: Tensor, codes: Tensor) -> Tensor:
        return (known - column.center) / column.spread

    def usual(self, column: Column, fill: float | None) -> float | None:
        """The center that it is scaled by, where one was fitted or given."""
        fitted = (column.center, column.spread) != (0.0, 1.0)
        return column.center if fitted else 0.0 if fill is None else fill


def _zero_led(cells: Iterable[Cell]) -> bool:
    """Whether numbers are written with zeros before them to be of one length, as codes are: 08001."""
    texts, length = (c for c in cells if isinstance(c, str)), 0
    led = False
    for text in texts:
        length = length or len(text)
        if len(text) != length or not text.isdigit():
            return False
        led = led or text[0] == "0"
    return led and length > 1


def _missing_codes(numbers: Numbers) -> tuple[list[float], list[str], list[str]]:
    """Codes for missing values, what is doubtful, and what is worth saying."""
    values = numbers.values
    candidates = [c for c in (*LOW_CODES, *HIGH_CODES) if numbers.count(c)]
    codes, asks, says = list[float](), list[str](), list[str]()
    for code in candidates:
        others = ~np.isin(values, candidates) | (np.abs(values) < abs(code))
        others &= ~np.isin(values, [*codes, code, *LOW_CODES])
        if others.sum() < 2:
            continue
        rest = np.repeat(values[others], numbers.counts[others])
        if not _far(code, rest, numbers.count(code)):
            continue
        if numbers.count(code) >= 2 or code < -1:
            codes.append(code)
        else:
            asks.append(
                f"{code:g} stands in one row, far from all others (up to {rest.max():g}): is it missing?"
            )
    rest = values[~np.isin(values, [*codes, 0.0])]
    if numbers.count(0.0) >= 2 and len(rest) >= 10 and rest.min() > 0.25 * np.median(rest):
        says.append(
            f"0 stands in {numbers.count(0.0)} rows, the least other value is {rest.min():g}: if it means "
            'missing, write missing = ["0"]'
        )
    return codes, asks, says


def _far(code: float, rest: Array, count: int) -> bool:
    """Whether a code cannot be a value among the rest."""
    if code < 0:
        return bool(rest.min() >= 0) and (code != -1 or count >= 2)
    low, high = np.quantile(rest, [0.05, 0.95])
    if code == 9:  # beside answers such as 0, 1, 2
        return bool(rest.max() <= 4) and bool((rest % 1 == 0).all()) and bool(rest.min() >= 0)
    return bool(code > rest.max()) and bool(code - rest.max() > 2 * max(high - low, 1.0))
