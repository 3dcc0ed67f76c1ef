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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.missing import Missing, check_missing_rule, fill_missing, fit_median, refuse_missing


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
        tables = [self._table(pool) for pool in pools]
        blank = {c for c in self.columns if len(tables[0]) and tables[0][c].isna().all()}
        if self.missing == "median":
            notes += [_blank_note(c, tables) for c in self.columns if c in blank]
        else:
            blank = set()
            for table in tables:
                refuse_missing(table, "table")
        mean, deviation = fit_scale(tables[0], [c for c in self.numbers if c not in blank])
        tables, filled = self._fill([table.drop(columns=list(blank)) for table in tables])
        notes += filled
        if len(mean):
            which = "all columns" if len(mean) == len(self.columns) else ", ".join(mean.index)
            notes.append(f"standardised with this client's own training mean and deviation: {which}")
        made = [
            Arrays(self._encode(table, mean, deviation), pool.y, pool.frame)
            for table, pool in zip(tables, pools, strict=True)
        ]
        return made, tuple(notes)

    def _table(self, pool: Arrays) -> pd.DataFrame:
        """x with names; flags and categories as objects, so that their stand-in is the most frequent one."""
        table = pd.DataFrame(np.asarray(pool.x, dtype=np.float64), columns=list(self.columns))
        allowed = {**dict.fromkeys(self.flags, (0.0, 1.0)), **dict(self.categories)}
        for column, values in allowed.items():
            strange = table[column].dropna()[lambda known, values=values: ~known.isin(values)]
            if len(strange):
                raise BadData(
                    f"column {column!r} holds {strange.iloc[0]:g}, but may hold "
                    f"{', '.join(f'{v:g}' for v in values)}: correct or blank that value"
                )
        return table.astype(dict.fromkeys(allowed, object))

    def _fill(self, tables: list[pd.DataFrame]) -> tuple[list[pd.DataFrame], list[str]]:
        fills = fit_median(tables[0])
        done = [fill_missing(table, fills) for table in tables]
        notes = []
        for column in tables[0].columns:
            own, further = done[0][1].get(column, 0), sum(counts.get(column, 0) for _, counts in done[1:])
            if own or further:
                how = "training median" if column in self.numbers else "most frequent training value"
                notes.append(
                    f"{column}: {own} missing value(s) in training rows and {further} in further rows "
                    f"filled by {fills[column]:g}, the {how}"
                )
        return [table for table, _ in done], notes

    def _encode(self, table: pd.DataFrame, mean: pd.Series, deviation: pd.Series) -> Array:
        values, parts = dict(self.categories), []
        for column in self.columns:
            if column not in table:
                part = np.zeros((len(table), len(values.get(column, (0.0,)))))
            else:
                part = table[column].to_numpy(dtype=np.float64)[:, None]
                if column in values:
                    part = part == np.array(values[column])
                elif column in mean:
                    part = (part - mean[column]) / deviation[column]
            parts.append(part.astype(np.float32))
        return np.concatenate(parts, axis=1)


def refuse_infinite(pools: Sequence[Arrays], columns: Sequence[str]) -> None:
    for pool in pools:
        infinite = np.isinf(np.asarray(pool.x, dtype=np.float64))
        if infinite.any():
            column = columns[int(infinite.sum(axis=0).argmax())]
            raise BadData(f"column {column!r} has {infinite.sum()} infinite value(s): fill or drop them")


def fit_scale(table: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.Series, pd.Series]:
    """Mean and deviation (of the population) of each column's known values; a deviation of 0 becomes 1."""
    known = table[list(columns)]
    varies = known.max() > known.min()
    return known.mean(), known.std(ddof=0).where(varies, 1.0)


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


def _blank_note(column: str, tables: Sequence[pd.DataFrame]) -> str:
    further = sum(int(table[column].notna().sum()) for table in tables[1:])
    aside = f", {further} known value(s) in further rows set aside" if further else ""
    return f"{column}: no value known in {len(tables[0])} training rows, 0 in all rows{aside}"
