"""What a column of numbers holds: quantities, or digits that stand for something.

That no two rows have the same number tells nothing by itself: so it is with laboratory values. A column
numbers persons or rows if its name says so, if it counts rows, or if no number is there twice though there
were so few to choose from that some would be. Long codes of one length, and all that is no certainty, are a
question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.cells import Values
from coterie.data.tables.dates import date_of
from coterie.data.tables.names import (
    DATES,
    SCALE_WORDS,
    names_code,
    names_identifier,
    names_measure,
    names_numbering,
    names_person,
    words_in,
)
from coterie.data.tables.numerals import Writing, two_readings, writing_of
from coterie.data.tables.texts import Cell, number_of, plain, same

Kind = Literal[
    "number", "flag", "category", "ordered", "date", "identifier", "code", "text", "constant", "empty"
]
Read = tuple[Kind, dict[str, object]]  # a kind, and what else is known of a column

MOST_VALUES = 50  # a category with more is a name or a remark
MANY = 20  # rows from which on it tells something that no two are alike
MOSTLY = 0.9  # a column of numbers or dates may have so few odd cells
LONG, LONGER = 1e5, 1e6  # codes of so many digits are longer than most quantities
TWINS = 15.0  # twins to be expected by chance, from which on it is a sign that there are none

DOUBTFUL_WORDS = frozenset({"none", "unknown", "unclear", "not applicable"})  # may be values of a category
LOW_CODES, HIGH_CODES = (
    (-1.0, -8.0, -9.0, -88.0, -99.0, -999.0, -9999.0),
    (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0, 99999.0),
)


class Verdict(NamedTuple):
    """What numbers are, and why; what a person should know or decide about that."""

    kind: Kind
    why: str
    scale: tuple[str, ...] = ()
    says: str = ""
    doubt: str = ""


class Numbers:
    """The different numbers of a column, in the order of rows, and how many rows have each."""

    def __init__(self, read: Array, counts: Array) -> None:
        import pandas as pd

        codes, found = pd.factorize(read)
        self.values = np.asarray(found, dtype=np.float64)
        self.counts = np.bincount(codes, counts, len(self.values)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.values)

    def total(self) -> int:
        return int(self.counts.sum())

    def count(self, number: float) -> int:
        return int(self.counts[self.values == number].sum())

    @property
    def least(self) -> float:
        return float(self.values.min())

    @property
    def most(self) -> float:
        return float(self.values.max())

    @property
    def whole(self) -> bool:
        return bool((self.values % 1 == 0).all())

    def without(self, numbers: Sequence[float]) -> Numbers:
        left = ~np.isin(self.values, numbers)
        return Numbers(self.values[left], self.counts[left])


def as_numbers(name: str, values: Values, commas: bool = False) -> Read | None:
    writing = writing_of(values, commas)
    parsed = all_read_as(values, writing)
    known = ~np.isnan(parsed)
    total, read = values.total(), int(values.counts[known].sum())
    odd = list(values.kept(~known))
    if not known.any() or read < MOSTLY * total or (len(odd) > 10 and read < 0.99 * total):
        return None
    doubtful = [c for c in odd if plain(str(c)) in DOUBTFUL_WORDS]
    odd = [c for c in odd if c not in doubtful]
    numbers = Numbers(parsed[known], values.counts[known])
    codes, asks, says = missing_codes(numbers)
    coded = np.isin(parsed, codes)
    pairs = zip(values.kept(coded), parsed[coded].tolist(), strict=True)
    written = [str(c) for c, v in pairs if same(c) != f"{v:g}"]  # -9,0 for -9
    verdict = number_kind(name, numbers.without(codes), zero_led(values.kept(known & ~coded)))
    return verdict.kind, {
        "writing": writing,
        "odd": tuple(odd),
        "marks": (*map(str, doubtful), *(f"{c:g}" for c in codes), *written),
        "why": verdict.why,
        "scale": verdict.scale,
        "dates": "%Y%m%d" if verdict.kind == "date" else "",
        "asks": (*([writing.ask] if writing.ask else []), *asks),
        "says": (*says, *([verdict.says] if verdict.says else [])),
        "doubt": verdict.doubt,
    }


def read_as(cell: Cell, writing: Writing) -> float | None:
    if cell in writing.spelled and (both := two_readings(cell)):
        return both[1]
    return number_of(cell, writing.decimal, writing.thousands)


def all_read_as(values: Values, writing: Writing) -> Array:
    """[value] the same of all, NaN for what is no number."""
    read = values.numbers(writing.decimal, writing.thousands)
    for i in np.flatnonzero(values.among(writing.spelled, as_written=True)) if writing.spelled else ():
        found = read_as(values.cells[i], writing)
        read[i] = np.nan if found is None else found
    return read


def zero_led(cells: Iterable[Cell]) -> bool:
    """Whether numbers are written with zeros before them to be of one length, as codes are: 08001."""
    texts, length = (c for c in cells if isinstance(c, str)), 0
    led = False
    for text in texts:
        length = length or len(text)
        if len(text) != length or not text.isdigit():
            return False
        led = led or text[0] == "0"
    return led and length > 1


def missing_codes(numbers: Numbers) -> tuple[list[float], list[str], list[str]]:
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
        if not far(code, rest, numbers.count(code)):
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


def far(code: float, rest: Array, count: int) -> bool:
    """Whether a code cannot be a value among the rest."""
    if code < 0:
        return bool(rest.min() >= 0) and (code != -1 or count >= 2)
    low, high = np.quantile(rest, [0.05, 0.95])
    if code == 9:  # beside answers such as 0, 1, 2
        return bool(rest.max() <= 4) and bool((rest % 1 == 0).all()) and bool(rest.min() >= 0)
    return bool(code > rest.max()) and bool(code - rest.max() > 2 * max(high - low, 1.0))


def number_kind(name: str, numbers: Numbers, zeros: bool = False) -> Verdict:
    words, total, whole = words_in(name), numbers.total(), numbers.whole
    least, most = numbers.least, numbers.most
    if set(numbers.values[:3].tolist()) == {0.0, 1.0}:
        return Verdict("flag", "its numbers are 0 and 1")
    if whole and words & DATES and least >= 19000101 and most <= 21001231 and compact_dates(numbers):
        return Verdict("date", "its numbers are dates such as 20240131")
    if (names_code(name, whole) and not names_person(name)) or (zeros and not names_identifier(name)):
        return code_kind(name, numbers, zeros)
    if whole and names_identifier(name):
        few = len(numbers) <= MOST_VALUES and 5 * len(numbers) <= total and total >= MANY
        if few and not names_person(name):
            return code_kind(name, numbers, zeros)
        return Verdict("identifier", f"its name says so ({name})")
    if whole and total >= MANY and not names_measure(name):
        found = numbering(name, numbers)
        if found is not None:
            return found
    if whole and words & SCALE_WORDS and 3 <= len(numbers) <= 10 and least >= 0 and most <= 10:
        steps = tuple(f"{v:g}" for v in np.arange(least, most + 1))
        return Verdict("ordered", f"its name ({name}) is that of a scale, its numbers are steps", steps)
    if whole and len(numbers) == 2 and total >= MANY:
        return Verdict("category", f"it holds two numbers only, {least:g} and {most:g}")
    return Verdict(
        "number", f"its cells are numbers from {least:g} to {most:g}", doubt=long_codes(name, numbers)
    )


def code_kind(name: str, numbers: Numbers, zeros: bool) -> Verdict:
    """Digits that stand for something: values of a category if they are few, else a question."""
    sign = "zeros before its numbers are" if zeros else f"its name ({name}) is"
    why = f"{sign} that of a code, and no quantity"
    if len(numbers) <= MOST_VALUES and (2 * len(numbers) <= numbers.total() or numbers.total() < MANY):
        says = f'{why}: {len(numbers)} values of a category; if it is a quantity, write use = "number"'
        return Verdict("category", why, says=says)
    return Verdict(
        "code",
        why,
        doubt=f"{why}, of {len(numbers)} different: left out. To use it, write "
        'use = "category" and values, or use = "number" if it is a quantity',
    )


def numbering(name: str, numbers: Numbers) -> Verdict | None:
    """Whole numbers that count rows, or stand for persons or cases; None for quantities."""
    total, different, least, most = numbers.total(), len(numbers), numbers.least, numbers.most
    alone = different == total
    in_order = bool((np.diff(numbers.values) > 0).all())
    starts = least in (0, 1) or least >= 1000 or names_numbering(name) or in_order
    if alone and starts and most - least == total - 1:
        return Verdict("identifier", "it counts the rows: no number is there twice and none is left out")
    if different >= MANY and names_numbering(name) and different >= 0.9 * total:
        return Verdict("identifier", f"its name says so ({name}), {different} different in {total} rows")
    back = 'left out; if it is a quantity, write use = "number"'
    if alone and total * total / (2 * (most - least + 1)) > TWINS:
        why = f"no number is there twice, of {most - least + 1:g} that could be"
        kept = 'It is used as a quantity; if not, write use = "leave-out"'
        said = f"its cells are numbers from {least:g} to {most:g}"
        return Verdict("number", said, doubt=f"{why}: does it number rows or persons? {kept}")
    if different >= MANY and least >= LONGER and one_length(numbers.values):
        why = f"{different} different numbers of {len(f'{least:.0f}')} digits in {total} rows"
        return Verdict("identifier", why, doubt=f"{why}: do they stand for persons or cases? It is {back}")
    return None


def one_length(numbers: Array) -> bool:
    """As codes are; values that are all rounded are measured."""
    return len({len(f"{v:.0f}") for v in numbers.tolist()}) == 1 and bool((numbers % 100).any())


def long_codes(name: str, numbers: Numbers) -> str:
    """A question about whole numbers that may be codes, and are used as quantities."""
    alone = len(numbers) == numbers.total() >= MANY
    if not alone or numbers.least < LONG or names_measure(name) or not numbers.whole:
        return ""
    if not one_length(numbers.values):
        return ""
    return (
        f"{len(numbers)} different numbers of {len(f'{numbers.least:.0f}')} digits, none of them twice: used "
        'as quantities; if they stand for persons or cases, write use = "leave-out"'
    )


def compact_dates(numbers: Numbers) -> bool:
    return all(date_of(f"{v:.0f}", "%Y%m%d") for v in numbers.values.tolist())
