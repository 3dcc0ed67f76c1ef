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

from coterie.data.tables.cells import Values
from coterie.data.tables.texts import MANY, Cell, Decimal, Thousands, body_of, number_of, shown

OTHER: dict[str, Thousands] = {".": ",", ",": "."}
NAMES = {".": "point", ",": "comma"}


class Marks(NamedTuple):
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
def marks_of(cell: Cell) -> Marks:
    if not isinstance(cell, str) or (body := body_of(cell)) is None:
        return Marks()
    kinds = [m for m in ".," if m in body]
    if len(kinds) == 2:
        last = max(kinds, key=body.rfind)
        return Marks(last, OTHER[last]) if number_of(cell, "either") is not None else Marks()
    if not kinds or number_of(cell, "either") is None:
        return Marks()
    (mark,) = kinds
    if body.count(mark) > 1:
        return Marks(thousands=mark)
    whole = not re.search(r"[' e]", cell, re.IGNORECASE)
    return Marks(doubtful=mark) if whole and is_group(body, mark) else Marks(mark)


def proves_point(cells: Iterable[Cell]) -> bool:
    """Whether a cell can only have a decimal point."""
    if isinstance(cells, Values) and cells.spellings.points[cells.which].any():
        return True
    return any(marks_of(c).decimal == "." for c in cells)


def is_group(body: str, mark: str) -> bool:
    """Whether a mark may divide thousands: 1,003 but not 0,003 or 1234,567."""
    return re.fullmatch(rf"[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}", body) is not None


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
    if isinstance(cells, Values) and proves_usual(cells):
        return USUAL
    texts = [c for c in cells if isinstance(c, float) or body_of(c) is not None]
    proofs = {c: marks_of(c) for c in texts}
    decimals = {m.decimal for m in proofs.values()} - {""}
    thousands = {m.thousands for m in proofs.values()} - {""}
    doubtful = {mark: [c for c, m in proofs.items() if m.doubtful == mark] for mark in ".,"}
    if len(decimals) == 2 or len(thousands) == 2 or decimals & thousands:
        return in_two_ways(texts, proofs)
    decimal = next(iter(decimals), "") or OTHER.get(next(iter(thousands), ""), "")
    if not decimal and doubtful["."] and doubtful[","]:
        return in_two_ways(texts, proofs)
    sure = [v for c in texts if not proofs[c].doubtful and (v := number_of(c, "either")) is not None]
    if not decimal:
        return by_level(doubtful, sure, commas)
    other = OTHER[decimal]
    usual: Decimal = "," if decimal == "," else ""
    if not doubtful[other]:
        return Writing(usual, other if other in thousands else "")
    near = nearer(doubtful[other], sure)
    if other in thousands and near != "decimal":
        return Writing(usual, other)
    if near == "decimal":
        return in_two_ways(texts, proofs)
    return Writing(usual, other, str(doubtful[other][0]), question(doubtful[other][0], True))


def proves_usual(values: Values) -> bool:
    """Whether all are numbers as programs write them, and no point is in doubt or one proves the others."""
    points, groups = (mask[values.which] for mask in (values.spellings.points, values.spellings.groups))
    return bool(values.usual.all()) and (bool(points.any()) or not groups.any())


def by_level(doubtful: dict[str, list[Cell]], sure: Sequence[float], commas: bool) -> Writing:
    """Of a column in which no cell proves anything: by the level of its whole numbers."""
    for mark, cells in doubtful.items():
        if not cells:
            continue
        decimal, divides = ("", ",") if mark == "," else (",", ".")
        near = nearer(cells, sure)
        if not near and commas and mark == ",":
            return Writing(",", "", str(cells[0]))
        if near == "thousands" or (not near and (mark == "," or commas)):
            ask = question(cells[0], True) if near else ""
            return Writing(decimal, divides, str(cells[0]), ask)  # type: ignore[arg-type]
        if mark == ",":
            return Writing(",", "", str(cells[0]), question(cells[0], False))
    return Writing()


def in_two_ways(cells: Sequence[Cell], proofs: dict[Cell, Marks]) -> Writing:
    """A column that contradicts itself: either mark is a decimal one, and that is asked. Cells of doubt that
    would be far from all others so are thousands.
    """
    example = {}
    for mark in ".,":
        having = [c for c in cells if mark in proofs[c]]
        example[mark] = next((c for c in having if proofs[c].doubtful), having[0] if having else "")
    ask = f"written in two ways, {shown(example['.'])} and {shown(example[','])}: either mark is decimal"
    doubtful = [str(c) for c in cells if proofs[c].doubtful]
    if not doubtful:
        return Writing("either", ask=ask)
    sure = [v for c in cells if not proofs[c].doubtful and (v := number_of(c, "either")) is not None]
    thousands = nearer(doubtful, sure) == "thousands"
    ask += f"; {question(next((c for c in example.values() if c in doubtful), doubtful[0]), thousands)}"
    return Writing("either", "", doubtful[0], ask, frozenset(doubtful if thousands else ()))


def question(cell: Cell, thousands: bool) -> str:
    """About a cell that is read as thousands, or with a decimal mark."""
    both = two_readings(cell)
    assert both is not None
    mark = marks_of(cell).doubtful
    if thousands:
        how = 'take it out of thousands or spellings, and write decimal = "either"'
        return f"{shown(cell)} is read as {both[1]:g}; if it is {both[0]:g}, {how}"
    how = f'write decimal = "{OTHER[mark]}" and thousands = "{mark}"'
    return f"{shown(cell)} is read as {both[0]:g}; if it is {both[1]:g}, {how}"


def nearer(cells: Sequence[Cell], sure: Sequence[float]) -> str:
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
