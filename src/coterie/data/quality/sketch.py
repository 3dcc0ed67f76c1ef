"""What a site tells of its rows: how many, and of each column how many values are known and their quantiles.

Quantiles are those at 5, 10, ..., 95 %, rounded to four digits, of columns of numbers alone, and of none with
fewer known values than `fewest`. With 20 steps between them, 60 values leave three to a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coterie.data.preparation import Column, Kind
from coterie.data.quality.rows import SiteRows

STEPS = 20
AT = np.arange(1, STEPS) / STEPS
FEWEST = 20  # known values below which quantiles say little
DIGITS = 4


@dataclass(frozen=True)
class ColumnSketch:
    """One column: quantiles are empty where they are not told."""

    name: str
    kind: Kind
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

    def column(self, name: str) -> ColumnSketch | None:
        return next((c for c in self.columns if c.name == name), None)

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        columns = [asdict(c) | {"quantiles": list(c.quantiles)} for c in self.columns]
        return {"site": self.site, "rows": self.rows, "columns": columns}


def sketch_of(rows: SiteRows, fewest: int = FEWEST) -> Sketch:
    columns = (column_sketch(c, rows.raw[:, i], fewest) for i, c in enumerate(rows.columns))
    return Sketch(rows.site, len(rows), tuple(columns))


def column_sketch(column: Column, values: np.ndarray, fewest: int) -> ColumnSketch:
    known = values[~np.isnan(values)]
    tells = column.kind == "number" and len(known) >= fewest
    quantiles = tuple(rounded(q) for q in np.quantile(known, AT)) if tells else ()
    return ColumnSketch(
        column.name, column.kind, column.unit, len(known), len(values) - len(known), quantiles
    )


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
