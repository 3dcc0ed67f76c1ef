"""Cells of a column, each spelling once: what is asked of one is answered once for all rows that have it.

A million rows say the same few thousand things over and over. A column is a number for each row and the
spellings that the numbers stand for; sites of one file share its spellings, and what was found out of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.data.tables.texts import Cell, Decimal, Thousands, number_of, same

Array = npt.NDArray[Any]
# as programs write them: nothing to puzzle over; and what no cell of a column of such numbers has
USUAL_NUMBER, UNUSUAL = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)"), re.compile(r"[^-0-9.\n]")
LONGEST = 40  # characters of a usual number
GROUP = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")  # ... but for a point that may divide thousands
NEAR = 1e-9  # how near a number must be to another, before the two are compared as they are written


def object_array(cells: Sequence[Any]) -> Array:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def in_order_of_rows(codes: Array) -> tuple[Array, Array]:
    """[row] codes counted from 0 in the order in which they first appear, and [code] what each was before."""
    import pandas as pd

    many = int(codes.max(initial=-1)) + 1
    if many > 4 * len(codes):  # few rows of many: the others are not looked at
        made, before = pd.factorize(codes)
        return made, np.asarray(before)
    first = first_rows(codes, many)
    before = np.flatnonzero(first < len(codes))
    before = before[np.argsort(first[before])]
    place = np.empty(many, dtype=np.int32)
    place[before] = np.arange(len(before), dtype=np.int32)
    return place[codes], before


def first_rows(codes: Array, many: int) -> Array:
    """[code] the first row that has it, of so many codes; as many as there are rows where none has."""
    first = np.full(many, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


class Spellings:
    """The different cells of a column."""

    def __init__(self, cells: Array) -> None:
        self.cells = cells
        self._read = dict[tuple[str, str], Array]()

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def usual(self) -> Array:
        """[spelling] whether it is a number, read alike whatever marks thousands, if points are decimal."""
        if self._floats is not None:
            return ~np.isnan(self._floats)
        fits = USUAL_NUMBER.fullmatch

        def usual(c: Cell) -> bool:
            return math.isfinite(c) if isinstance(c, float) else len(c) <= LONGEST and fits(c) is not None

        return np.array([usual(c) for c in self.cells], dtype=bool)

    @cached_property
    def _floats(self) -> Array | None:
        """[spelling] numbers, NaN for an empty cell, where all others are usual numbers; else None."""
        texts = [c for c in self.cells if not isinstance(c, float)]
        if UNUSUAL.search("\n".join(texts)) or max(map(len, texts), default=0) > LONGEST:
            return None
        try:
            found = np.array([float(c) if c != "" else math.nan for c in self.cells], dtype=np.float64)
        except ValueError:
            return None
        return None if np.isinf(found).any() else found

    @cached_property
    def points(self) -> Array:
        """[spelling] whether it has a decimal point for sure; of usual numbers."""
        pairs = zip(self.cells, self.usual.tolist(), strict=True)
        pointed = [usual and isinstance(c, str) and "." in c for c, usual in pairs]
        return np.array(pointed, dtype=bool) & ~self.groups

    @cached_property
    def groups(self) -> Array:
        """[spelling] whether it has a point that may divide thousands; of usual numbers."""
        fits = GROUP.fullmatch
        found = (isinstance(c, str) and c[-4:-3] == "." and fits(c) is not None for c in self.cells)
        return np.fromiter(found, bool, len(self))

    def numbers(self, decimal: Decimal = "", thousands: Thousands = "") -> Array:
        """[spelling] by `number_of`, NaN where it is none."""
        key = (decimal or ".", thousands)
        if key not in self._read:
            easy = key[0] in (".", "either") and thousands != "."
            if easy and self._floats is not None:
                return self._floats
            usual = self.usual.tolist() if easy else [False] * len(self)
            pairs = zip(self.cells, usual, strict=True)
            read = (float(c) if plainly else number_of(c, decimal, thousands) for c, plainly in pairs)
            made = np.fromiter((math.nan if v is None else v for v in read), np.float64, len(self))
            self._read[key] = made
        return self._read[key]

    def among(self, texts: Collection[str], which: Array, as_written: bool = False) -> Array:
        """[which] whether a spelling is the same as one of these texts, which are as `same` has them;
        `as_written` where they may also be as cells are.
        """
        numbers = [v for t in texts if (v := number_of(t, "either")) is not None]
        doubtful = ~self.usual[which]
        for number in numbers:
            doubtful |= np.abs(self.numbers()[which] - number) <= NEAR * (1 + abs(number))
        found = np.zeros(len(which), dtype=bool)
        for i in np.flatnonzero(doubtful):
            cell = self.cells[which[i]]
            found[i] = same(cell) in texts or (as_written and str(cell) in texts)
        return found


class Column:
    """The cells of a column [row]; iterated and indexed as an array of cells is."""

    def __init__(self, codes: Array, spellings: Spellings) -> None:
        self.codes, self.spellings = codes, spellings

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Column:
        import pandas as pd

        listed = object_array(list(cells))
        codes, found = pd.factorize(listed, use_na_sentinel=False)
        return cls(codes.astype(np.int32), Spellings(object_array(found)))

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.tolist())

    def __getitem__(self, row: int) -> Cell:
        cell: Cell = self.spellings.cells[self.codes[row]]
        return cell

    def tolist(self) -> list[Cell]:
        return list(self.array)

    @property
    def array(self) -> Array:
        return np.asarray(self.spellings.cells[self.codes])

    def take(self, rows: Array) -> Column:
        return Column(self.codes[rows], self.spellings)

    def each(self, function: Callable[[Cell], Any]) -> Array:
        """[row] what a function makes of cells: called once for each spelling, in the order of rows."""
        codes, which = in_order_of_rows(self.codes)
        return np.asarray(object_array([function(c) for c in self.spellings.cells[which]])[codes])

    def values(self) -> Values:
        """Which spellings rows have, and how many."""
        codes, which = in_order_of_rows(self.codes)
        return Values(self.spellings, which, np.bincount(codes, minlength=len(which)))

    def among(self, texts: Collection[str]) -> Array:
        """[row] whether a cell is the same as one of these texts."""
        codes, which = in_order_of_rows(self.codes)
        return np.asarray(self.spellings.among(texts, which)[codes])


class Values(Mapping[Cell, int]):
    """Spellings of a column, or some of them, with how many rows have each; in the order of rows."""

    def __init__(self, spellings: Spellings, which: Array, counts: Array) -> None:
        self.spellings, self.which, self.counts = spellings, which, counts

    @classmethod
    def of(cls, cells: Iterable[Cell] | Column | Values | Counter[Cell]) -> Values:
        if isinstance(cells, Values):
            return cells
        if isinstance(cells, Counter):
            found = Spellings(object_array(list(cells)))
            return cls(found, np.arange(len(found)), np.array(list(cells.values()), dtype=np.int64))
        return (cells if isinstance(cells, Column) else Column.of(cells)).values()

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """Of several sites' columns, one below the other."""
        first = parts[0].spellings
        if any(p.spellings is not first for p in parts):
            counts = Counter[Cell]()
            for part in parts:
                for cell, n in part.items():
                    counts[cell] += n
            return cls.of(counts)
        codes, which = in_order_of_rows(np.concatenate([p.which for p in parts]))
        weights = np.concatenate([p.counts for p in parts])
        return cls(first, which, np.bincount(codes, weights, len(which)).astype(np.int64))

    @cached_property
    def _counter(self) -> Counter[Cell]:
        return Counter(dict(zip(self.cells.tolist(), self.counts.tolist(), strict=True)))

    @property
    def cells(self) -> Array:
        return np.asarray(self.spellings.cells[self.which])

    def __len__(self) -> int:
        return len(self.which)

    def __iter__(self) -> Iterator[Cell]:
        return (self.spellings.cells[i] for i in self.which)

    def __getitem__(self, cell: Cell) -> int:
        return self._counter[cell]

    def __contains__(self, cell: object) -> bool:
        return cell in self._counter

    def total(self) -> int:
        return int(self.counts.sum())

    def most_common(self) -> list[tuple[Cell, int]]:
        return self._counter.most_common()

    def items(self) -> Any:
        return self._counter.items()

    def kept(self, which: Array) -> Values:
        """Those that are marked [value]."""
        return self if which.all() else Values(self.spellings, self.which[which], self.counts[which])

    @property
    def usual(self) -> Array:
        """[value] as `Spellings.usual`."""
        return np.asarray(self.spellings.usual[self.which])

    def numbers(self, decimal: Decimal = "", thousands: Thousands = "") -> Array:
        """[value] NaN for what is no number."""
        return np.asarray(self.spellings.numbers(decimal, thousands)[self.which])

    def among(self, texts: Collection[str], as_written: bool = False) -> Array:
        """[value] as `Spellings.among`."""
        return self.spellings.among(texts, self.which, as_written)

    def words(self, test: Callable[[Cell], bool]) -> Array:
        """[value] whether a test says so; it would of no usual number."""
        found = np.zeros(len(self), dtype=bool)
        for i in np.flatnonzero(~self.usual):
            found[i] = test(self.spellings.cells[self.which[i]])
        return found

    def different(self, most: int) -> int:
        """How many there are, but for ways of writing the same; counted up to one more than `most`."""
        found = set[str]()
        for cell in self:
            found.add(same(cell))
            if len(found) > most:
                break
        return len(found)
