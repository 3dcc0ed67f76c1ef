"""How a column writes its numbers: which mark is the decimal one, and which divides thousands.

Most cells prove something: 12,5 has a decimal comma, 1,234.5 a decimal point and commas for thousands. 1,003
and 88.500 prove nothing: one mark with three digits behind it may be either. They are read as the other cells
of the column are written or, where that does not tell, so that values stay in one order of magnitude; and a
person is asked.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.cells import Values
from coterie.data.tables.texts import MANY, Cell, Decimal, Thousands, body_of, cell_text, number_of

OTHER: dict[str, Thousands] = {".": ",", ",": "."}
NAMES = {".": "point", ",": "comma"}


class _Marks(NamedTuple):
    """What one cell proves: its decimal mark, its mark of thousands; or a mark that may be either."""

    decimal: str = ""
    thousands: str = ""
    doubtful: str = ""


class Writing(NamedTuple):
    """How a column is written.

    decimal     "either" where a point and a comma are both decimal marks
    thousands   the mark that divides them, where a single one with three digits does
    doubtful    a cell of which that is a guess
    ask         what a person should decide about it; empty where other sites may tell
    spelled     cells that are thousands, whatever the marks of the others say
    """

    decimal: Decimal = ""
    thousands: Thousands = ""
    doubtful: str = ""
    ask: str = ""
    spelled: frozenset[str] = frozenset()


USUAL = Writing()


@functools.lru_cache(MANY)
def marks_of(cell: Cell) -> _Marks:
    if not isinstance(cell, str) or (body := body_of(cell)) is None:
        return _Marks()
    kinds = [m for m in ".," if m in body]
    if len(kinds) == 2:
        last = max(kinds, key=body.rfind)
        return _Marks(last, OTHER[last]) if number_of(cell, "either") is not None else _Marks()
    if not kinds or number_of(cell, "either") is None:
        return _Marks()
    (mark,) = kinds
    if body.count(mark) > 1:
        return _Marks(thousands=mark)
    whole = not re.search(r"[' e]", cell, re.IGNORECASE)
    group = re.fullmatch(rf"[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}", body)  # 1,003 but not 0,003 or 1234,567
    return _Marks(doubtful=mark) if whole and group else _Marks(mark)


def proves_point(cells: Iterable[Cell]) -> bool:
    """Whether a cell can only have a decimal point."""
    if isinstance(cells, Values) and cells.spellings.points[cells.which].any():
        return True
    return any(marks_of(c).decimal == "." for c in cells)


def two_readings(cell: Cell) -> tuple[float, float] | None:
    """(with a decimal mark, with thousands) of a cell that may be either; else None."""
    if not (mark := marks_of(cell).doubtful):
        return None
    one, other = number_of(cell, "either"), number_of(cell, OTHER[mark], mark)  # type: ignore[arg-type]
    assert one is not None
    assert other is not None
    return one, other


def writing_of(cells: Iterable[Cell], commas: bool = False) -> Writing:
    """`commas` where other columns of the file have decimal commas: then 250.000 may well be thousands."""
    if isinstance(cells, Values) and cells.usual.all():  # as programs write them
        points, groups = (mask[cells.which] for mask in (cells.spellings.points, cells.spellings.groups))
        if points.any() or not groups.any():  # no point is in doubt, or one proves the others
            return USUAL
    texts = [c for c in cells if isinstance(c, float) or body_of(c) is not None]
    proofs = {c: marks_of(c) for c in texts}
    decimals = {m.decimal for m in proofs.values()} - {""}
    thousands = {m.thousands for m in proofs.values()} - {""}
    doubtful = {mark: [c for c, m in proofs.items() if m.doubtful == mark] for mark in ".,"}
    if len(decimals) == 2 or len(thousands) == 2 or decimals & thousands:
        return _in_two_ways(texts, proofs)
    decimal = next(iter(decimals), "") or OTHER.get(next(iter(thousands), ""), "")
    if not decimal and doubtful["."] and doubtful[","]:
        return _in_two_ways(texts, proofs)
    sure = [v for c in texts if not proofs[c].doubtful and (v := number_of(c, "either")) is not None]
    if not decimal:
        return _by_level(doubtful, sure, commas)
    other = OTHER[decimal]
    usual: Decimal = "," if decimal == "," else ""
    if not doubtful[other]:
        return Writing(usual, other if other in thousands else "")
    near = _nearer(doubtful[other], sure)
    if other in thousands and near != "decimal":
        return Writing(usual, other)
    if near == "decimal":
        return _in_two_ways(texts, proofs)
    return Writing(usual, other, str(doubtful[other][0]), _question(doubtful[other][0], True))


def _by_level(doubtful: dict[str, list[Cell]], sure: Sequence[float], commas: bool) -> Writing:
    """Of a column in which no cell proves anything: by the level of its whole numbers."""
    for mark, cells in doubtful.items():
        if not cells:
            continue
        decimal, divides = ("", ",") if mark == "," else (",", ".")
        near = _nearer(cells, sure)
        if not near and commas and mark == ",":
            return Writing(",", "", str(cells[0]))
        if near == "thousands" or (not near and (mark == "," or commas)):
            ask = _question(cells[0], True) if near else ""
            return Writing(decimal, divides, str(cells[0]), ask)  # type: ignore[arg-type]
        if mark == ",":
            return Writing(",", "", str(cells[0]), _question(cells[0], False))
    return Writing()


def _in_two_ways(cells: Sequence[Cell], proofs: dict[Cell, _Marks]) -> Writing:
    """A column that contradicts itself: either mark is a decimal one, and that is asked. Cells of doubt that
    would be far from all others so are thousands.
    """
    example = {}
    for mark in ".,":
        having = [c for c in cells if mark in proofs[c]]
        example[mark] = next((c for c in having if proofs[c].doubtful), having[0] if having else "")
    point, comma = (cell_text(example[mark]) for mark in ".,")
    ask = f"written in two ways, {point} and {comma}: either mark is decimal"
    doubtful = [str(c) for c in cells if proofs[c].doubtful]
    if not doubtful:
        return Writing("either", ask=ask)
    sure = [v for c in cells if not proofs[c].doubtful and (v := number_of(c, "either")) is not None]
    thousands = _nearer(doubtful, sure) == "thousands"
    ask += f"; {_question(next((c for c in example.values() if c in doubtful), doubtful[0]), thousands)}"
    return Writing("either", "", doubtful[0], ask, frozenset(doubtful if thousands else ()))


def _question(cell: Cell, thousands: bool) -> str:
    """About a cell that is read as thousands, or with a decimal mark."""
    both = two_readings(cell)
    assert both is not None
    mark = marks_of(cell).doubtful
    if thousands:
        how = 'take it out of thousands or spellings, and write decimal = "either"'
        return f"{cell_text(cell)} is read as {both[1]:g}; if it is {both[0]:g}, {how}"
    how = f'write decimal = "{OTHER[mark]}" and thousands = "{mark}"'
    return f"{cell_text(cell)} is read as {both[0]:g}; if it is {both[1]:g}, {how}"


def _nearer(cells: Sequence[Cell], sure: Sequence[float]) -> str:
    """Which reading of doubtful cells lies nearer to the sure numbers of the column; empty without such.

    Whole numbers that are all below a thousand, some of them not far below, and never have a mark are what
    thousands look like: 950, 1,250.
    """
    level = [abs(v) for v in sure if v]
    if not level:
        return ""
    if all(v % 1 == 0 for v in level) and 100 <= max(level) < 1000:
        return "thousands"
    readings = [both[0] for c in cells if (both := two_readings(c))]
    off = math.log10(float(np.median(np.abs(readings))) / float(np.median(level)))
    return "decimal" if abs(off) <= abs(off + 3) else "thousands"


def misfit_of(cell: Cell, decimal: Decimal, thousands: Thousands) -> str:
    """What is wrong with a cell that is a number, but not as its column writes them; empty for any other."""
    if number_of(cell, decimal, thousands) is not None:
        return ""
    if both := two_readings(cell):
        mark = marks_of(cell).doubtful
        return (
            f'is {both[0]:g} or {both[1]:g}: correct it, or write decimal = "either" for the one, '
            f'thousands = "{mark}" for the other'
        )
    value = number_of(cell, "either")
    if value is None:
        return ""
    usual = decimal or "."
    return (
        f"is {value:g} with a decimal {NAMES[OTHER[usual]]}, and the column has decimal {NAMES[usual]}s: "
        'correct it, or write decimal = "either"'
    )


LOW_CODES, HIGH_CODES = (
    (-1.0, -8.0, -9.0, -88.0, -99.0, -999.0, -9999.0),
    (9.0, 88.0, 99.0, 888.0, 999.0, 9999.0, 99999.0),
)


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

    @property
    def listed(self) -> list[float]:
        return list(map(float, self.values))

    @property
    def one_length(self) -> bool:
        """Whether all have as many digits, as codes do; values that are all rounded are measured."""
        return len({len(f"{v:.0f}") for v in self.listed}) == 1 and bool((self.values % 100).any())

    def without(self, numbers: Sequence[float]) -> Numbers:
        left = ~np.isin(self.values, numbers)
        return Numbers(self.values[left], self.counts[left])


def all_read_as(values: Values, writing: Writing) -> Array:
    """[value] as a column writes its numbers, NaN for what is none."""
    read = values.numbers(writing.decimal, writing.thousands)
    for i in np.flatnonzero(values.among(writing.spelled, as_written=True)) if writing.spelled else ():
        both = two_readings(values.cells[i]) if values.cells[i] in writing.spelled else None
        found = both[1] if both else number_of(values.cells[i], writing.decimal, writing.thousands)
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
