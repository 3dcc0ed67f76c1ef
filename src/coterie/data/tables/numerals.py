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

    @classmethod
    def of(cls, cells: Iterable[Cell], commas: bool = False) -> Writing:
        """`commas` where other columns of the file have decimal commas: 250.000 may then be thousands."""
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
            return cls(usual, other if other in thousands else "")
        near = _nearer(doubtful[other], sure)
        if other in thousands and near != "decimal":
            return cls(usual, other)
        if near == "decimal":
            return _in_two_ways(texts, proofs)
        return cls(usual, other, str(doubtful[other][0]), _question(doubtful[other][0], True))

    def read(self, values: Values) -> Array:
        """[value] as the column writes its numbers, NaN for what is none."""
        read = values.numbers(self.decimal, self.thousands)
        for i in np.flatnonzero(values.among(self.spelled, as_written=True)) if self.spelled else ():
            both = two_readings(values.cells[i]) if values.cells[i] in self.spelled else None
            found = both[1] if both else number_of(values.cells[i], self.decimal, self.thousands)
            read[i] = np.nan if found is None else found
        return read


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


def two_readings(cell: Cell) -> tuple[float, float] | None:
    """(with a decimal mark, with thousands) of a cell that may be either; else None."""
    if not (mark := marks_of(cell).doubtful):
        return None
    one, other = number_of(cell, "either"), number_of(cell, OTHER[mark], mark)  # type: ignore[arg-type]
    assert one is not None
    assert other is not None
    return one, other


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
