"""Making numbers of a table, for one client and fitted on its training rows alone.

A column is one of three kinds:
number     standardised: (value - mean) / deviation, both of the known training values; the deviation of a
           column that never varies counts as 1
flag       0 or 1, left as it is
category   one column of 0 and 1 for each value of a list fixed beforehand, so that all clients agree

A missing number becomes the median, a missing flag or category the most frequent of the known training
values. A column of which a client's training rows know nothing says 0 in all its rows: there is nothing to
scale it by. With the rule "drop" rows with a missing value are left out instead. Either way it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.missing import Missing, check_missing_rule, refuse_missing


@dataclass(frozen=True)
class TabularPrepare:
    """`Prepare` for pools whose x [n, column] holds numbers, NaN where unknown.

    columns      names of x's columns, in order; what is no flag and no category is a number
    categories   (column, its possible values) for each category
    """

    columns: tuple[str, ...]
    flags: tuple[str, ...] = ()
    categories: tuple[tuple[str, tuple[float, ...]], ...] = ()
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        check_missing_rule(self.missing)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that come out."""
        values = dict(self.categories)
        return tuple(
            name
            for column in self.columns
            for name in ([f"{column}={v:g}" for v in values[column]] if column in values else [column])
        )

    @property
    def numbers(self) -> list[str]:
        return [c for c in self.columns if c not in self.flags and c not in dict(self.categories)]

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        pools: list[Arrays] = [train, *others]
        notes: list[str] = []
        refuse_infinite(pools, self.columns)
        if self.missing == "drop":
            pools, notes = drop_incomplete(pools, self.columns)
        tables = [np.ascontiguousarray(np.asarray(pool.x, dtype=np.float64).T) for pool in pools]
        for table in tables:
            self._refuse_strange(table)
        for table in tables if self.missing != "median" else ():
            gaps = np.isnan(table).sum(axis=1).tolist()
            refuse_missing(dict(zip(self.columns, gaps, strict=True)), "table")
        by_column = dict(zip(self.columns, zip(*tables, strict=True), strict=True))
        blank = {c for c, (known, *_) in by_column.items() if len(known) and np.isnan(known).all()}
        coded = [self._encode(c, by_column[c], c in blank) for c in self.columns]
        made = [
            Arrays(np.concatenate(parts, axis=1), pool.y, pool.columns)
            for parts, pool in zip(zip(*coded, strict=True), pools, strict=True)
        ]
        return made, (*notes, *self._notes(by_column, blank))

    def _notes(self, by_column: Mapping[str, Sequence[Array]], blank: Container[str]) -> list[str]:
        """What is left blank, filled in and standardised."""
        notes = [_blank_note(c, pools) for c, pools in by_column.items() if c in blank]
        notes += [note for c, pools in by_column.items() if c not in blank for note in self._filled(c, pools)]
        scaled = [c for c in self.numbers if c not in blank]
        if scaled:
            which = "all columns" if len(scaled) == len(self.columns) else ", ".join(scaled)
            notes.append(f"standardised with this client's own training mean and deviation: {which}")
        return notes

    def _refuse_strange(self, table: Array) -> None:
        """A flag or category of a table [column, row] that has a value outside its list."""
        for column, values in {**dict.fromkeys(self.flags, (0.0, 1.0)), **dict(self.categories)}.items():
            found = table[self.columns.index(column)]
            strange = found[~np.isnan(found) & ~np.isin(found, values)]
            if len(strange):
                raise BadData(
                    f"column {column!r} holds {strange[0]:g}, but may hold "
                    f"{', '.join(f'{v:g}' for v in values)}: correct or blank that value"
                )

    def _stand_in(self, column: str, train: Array) -> float:
        """What a missing value becomes: the median of a number, the most frequent of anything else."""
        known = train[~np.isnan(train)]
        if len(known) == 0:
            return 0.0
        if column in self.numbers:
            return float(np.median(known))
        values, counts = np.unique(known, return_counts=True)
        return float(values[counts.argmax()])

    def _filled(self, column: str, pools: Sequence[Array]) -> list[str]:
        """A note, if there is anything to fill in."""
        own, *others = (int(np.isnan(values).sum()) for values in pools)
        if not own and not any(others):
            return []
        how = "training median" if column in self.numbers else "most frequent training value"
        return [
            f"{column}: {own} missing value(s) in training rows and {sum(others)} in further rows "
            f"filled by {self._stand_in(column, pools[0]):g}, the {how}"
        ]

    def _encode(self, column: str, pools: Sequence[Array], blank: bool) -> list[Array]:
        """One column of every pool as the inputs [row, feature] that come out."""
        values = dict(self.categories).get(column)
        if blank:
            width = 1 if values is None else len(values)
            return [np.zeros((len(pool), width), dtype=np.float32) for pool in pools]
        gaps = [np.isnan(pool) for pool in pools]
        fill = self._stand_in(column, pools[0]) if any(gap.any() for gap in gaps) else 0.0
        parts = [np.where(gap, fill, pool)[:, None] for gap, pool in zip(gaps, pools, strict=True)]
        if values is not None:
            parts = [part == np.array(values) for part in parts]
        elif column in self.numbers:
            mean, deviation = fit_scale(pools[0])
            parts = [(part - mean) / deviation for part in parts]
        return [part.astype(np.float32) for part in parts]


def refuse_infinite(pools: Sequence[Arrays], columns: Sequence[str]) -> None:
    for pool in pools:
        infinite = np.isinf(np.asarray(pool.x, dtype=np.float64))
        if infinite.any():
            column = columns[int(infinite.sum(axis=0).argmax())]
            raise BadData(f"column {column!r} has {infinite.sum()} infinite value(s): fill or drop them")


def fit_scale(values: Array) -> tuple[float, float]:
    """Mean and deviation (of the population) of a column's known values; a deviation of 0 becomes 1."""
    known = ~np.isnan(values)
    count = int(known.sum())
    if count == 0:
        return math.nan, 1.0
    mean = float(np.where(known, values, 0.0).sum() / count)
    if np.nanmax(values) <= np.nanmin(values):
        return mean, 1.0
    return mean, float(np.sqrt(np.where(known, (mean - values) ** 2, 0.0).sum() / count))


def drop_incomplete(pools: Sequence[Arrays], columns: Sequence[str]) -> tuple[list[Arrays], list[str]]:
    """The pools without rows that miss a value; the note counts those that went."""
    gaps = [np.isnan(np.asarray(pool.x, dtype=np.float64)) for pool in pools]
    complete = [np.logical_not(gap.any(axis=1)) for gap in gaps]
    if len(pools[0]) and not complete[0].any():
        counts = gaps[0].sum(axis=0)
        raise BadData(
            f"none of {len(pools[0])} training rows is complete ({columns[counts.argmax()]} is missing in "
            f"{counts.max()}): use missing='median', or leave that column out"
        )
    gone = [int(np.sum(~c)) for c in complete]
    notes = []
    if sum(gone):
        notes.append(
            f"{gone[0]} of {len(pools[0])} training rows and {sum(gone[1:])} of {sum(map(len, pools[1:]))} "
            "further rows left out for missing values"
        )
    return [pool.take(np.flatnonzero(c)) for pool, c in zip(pools, complete, strict=True)], notes


def _blank_note(column: str, pools: Sequence[Array]) -> str:
    further = sum(int((~np.isnan(values)).sum()) for values in pools[1:])
    aside = f", {further} known value(s) in further rows set aside" if further else ""
    return f"{column}: no value known in {len(pools[0])} training rows, 0 in all rows{aside}"
