"""Small tables for tests of data quality, made by hand or drawn."""

from __future__ import annotations

import numpy as np

from coterie.data.preparation import Column
from coterie.data.quality.site_rows import AT, ColumnSketch, SiteRows, Sketch


def site(name="north", y=None, classes=("well", "ill"), task="classification", **columns):
    """A site of these columns; a pair (values, unit) tells its unit."""
    made, values = [], []
    for column, given in columns.items():
        numbers, unit = given if isinstance(given, tuple) else (given, "")
        made.append(Column(column.replace("_", " "), unit=unit))
        values.append(np.asarray(numbers, dtype=np.float64))
    raw = np.column_stack(values)
    labels = np.arange(len(raw)) % 2 if y is None else np.asarray(y)
    return SiteRows(name, tuple(made), raw, labels, np.arange(1, len(raw) + 1), task, classes)


def told(name, quantiles, column="weight", unit="", known=1000):
    """A sketch of one column."""
    return Sketch(name, known, (ColumnSketch(column, "number", unit, known, 0, tuple(quantiles)),))


def spread_out(centre, spread):
    """19 quantiles whose quartiles are 1.349 spreads apart, evenly."""
    return tuple(centre + spread * 1.349 * 2 * (AT - 0.5))


def drawn(seed, n=200, scale=0.15, centre=100.0):
    return np.exp(np.random.default_rng(seed).normal(np.log(centre), scale, n)).round(1)
