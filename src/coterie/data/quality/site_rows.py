"""A site's rows as they were read, before anything is filled or scaled; and their sketch, which a site tells.

A sketch says how many rows there are, and of each column how many values are known and their quantiles. These
are at 5, 10, ..., 95 %, rounded to four digits, of columns of numbers alone, and of none with fewer known
values than `fewest`. With 20 steps between them, 60 values leave three to a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from coterie.core.client import Task
from coterie.core.errors import BadInput, naming_flags_of
from coterie.core.seeds import Key
from coterie.data.build import apart_from_split, units_of
from coterie.data.dataset import Arrays, Dataset
from coterie.data.forbidden import inputs_of
from coterie.data.intake import Array
from coterie.data.partition.base import Deal, Split
from coterie.data.partition.silos import Silos
from coterie.data.preparation import Column
from coterie.data.tabular import TabularPrepare


@dataclass(frozen=True, eq=False)
class SiteRows:
    """raw [row, column] numbers, NaN where unknown; y [row]; lines [row] where people find them: the line of
    a file, or the row counted within the site from 1. `unused` columns become no input of a model; `people`
    [row] who each is about, as a number from 0, where that is known.
    """

    site: str
    columns: tuple[Column, ...]
    raw: Array
    y: Array
    lines: Array
    task: Task = "classification"
    classes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    people: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def label(self, y: float) -> str:
        """A class as people call it."""
        return self.classes[int(y)] if self.classes else f"{y:g}"

    def finite(self) -> tuple[SiteRows, int]:
        """Infinite numbers as unknown ones, and how many there were: no quantile or model takes them."""
        infinite = np.isinf(self.raw)
        if not infinite.any():
            return self, 0
        return replace(self, raw=np.where(infinite, np.nan, self.raw)), int(infinite.sum())


def dealt_rows(
    data: Dataset, split: Split, clients: int | None, key: Key
) -> tuple[list[SiteRows], list[str]]:
    """The rows of each client that a split makes, published test rows behind the others; and what is worth
    saying of it.
    """
    data = apart_from_split(data, split)
    every = split if isinstance(split, Silos) and split.small == "refuse" and clients is None else None

    def deal_of(pool: Arrays, clients: int | None) -> Deal:
        """Looking at rows needs no least number of them."""
        with naming_flags_of(split):
            return split.deal(data, pool, clients, key) if every is None else every.deal_all(data, pool)

    deal = deal_of(data.train, clients)
    owners = [deal.owner]
    if data.test is not None:
        owners.append(deal_of(data.test, len(deal.names)).owner)
    sites = site_rows(data, np.concatenate(owners), deal.names)
    return sites, [*data.notes, *deal.notes]


def site_rows(data: Dataset, owner: Array, names: Sequence[str]) -> list[SiteRows]:
    """Of everybody's rows: `owner` [row] is a place in `names`, negative for nobody's."""
    columns, raw = _raw_columns(data)
    y = np.concatenate([pool.y for pool in data.pools])
    inputs = inputs_of(data)
    unused = tuple(c.name for c in columns if inputs and c.name not in inputs)
    found = []
    for i, name in enumerate(names):
        rows = np.flatnonzero(owner == i)
        lines = np.arange(1, len(rows) + 1) if data.lines is None else data.lines[rows]
        people = None
        if data.together:  # rows of published test sets are for themselves
            own = rows[rows < len(data.train)]
            others = np.arange(len(own), len(rows))
            people = np.concatenate([units_of(data.train, data.together, own), others])
        of = data.task, data.classes, unused, people
        found.append(SiteRows(name, columns, raw[rows], y[rows], lines, *of))
    return found


def _raw_columns(data: Dataset) -> tuple[tuple[Column, ...], Array]:
    """Columns and their numbers [row, column]: what a table is prepared from, else the original columns of
    numbers; pictures have none.
    """
    if isinstance(data.prepare, TabularPrepare):
        columns, parts = data.prepare.columns, [np.asarray(p.x, dtype=np.float64) for p in data.pools]
        return columns, np.concatenate([part.reshape(-1, len(columns)) for part in parts])
    known = data.train.columns or {}
    numeric = [name for name, values in known.items() if np.asarray(values).dtype.kind in "iuf"]
    if not numeric:
        raise BadInput(f"{data.name} has no columns of numbers, and check looks at tables: give --data table")
    parts = [
        np.column_stack([np.asarray((pool.columns or {})[name], dtype=np.float64) for name in numeric])
        for pool in data.pools
    ]
    return tuple(map(Column, numeric)), np.concatenate(parts)


STEPS = 20
AT = np.arange(1, STEPS) / STEPS
FEWEST = 20  # known values below which quantiles say little
DIGITS = 4


@dataclass(frozen=True)
class ColumnSketch:
    """One column: quantiles are empty where they are not told."""

    name: str
    kind: str
    unit: str
    known: int
    missing: int
    quantiles: tuple[float, ...] = ()

    @property
    def rows(self) -> int:
        return self.known + self.missing


@dataclass(frozen=True)
class Sketch:
    site: str
    rows: int
    columns: tuple[ColumnSketch, ...]

    @classmethod
    def of(cls, rows: SiteRows, fewest: int = FEWEST) -> Sketch:
        columns = list[ColumnSketch]()
        for column, values in zip(rows.columns, rows.raw.T, strict=True):
            known = values[~np.isnan(values)]
            tells = column.scaled and len(known) >= fewest
            quantiles = tuple(rounded(q) for q in np.quantile(known, AT)) if tells else ()
            counts = len(known), len(values) - len(known)
            columns.append(ColumnSketch(column.name, column.kind, column.unit, *counts, quantiles))
        return cls(rows.site, len(rows), tuple(columns))

    def column(self, name: str) -> ColumnSketch | None:
        return next((c for c in self.columns if c.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        columns = [asdict(c) | {"quantiles": list(c.quantiles)} for c in self.columns]
        return {"site": self.site, "rows": self.rows, "columns": columns}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def by_column(sketches: Sequence[Sketch]) -> dict[str, dict[str, ColumnSketch]]:
    """{column: {site: its sketch}} of columns of numbers with quantiles, in the order of the first site."""
    found = dict[str, dict[str, ColumnSketch]]()
    for sketch in sketches:
        for column in sketch.columns:
            if column.quantiles:
                found.setdefault(column.name, {})[sketch.site] = column
    return found


def spread_of(quantiles: Sequence[float]) -> float:
    """The deviation of a normal distribution with that distance between the quartiles; where half of the
    values are one, by the outer quantiles.
    """
    q = np.asarray(quantiles)
    return float((q[14] - q[4]) / 1.349 or (q[18] - q[0]) / 3.29)
