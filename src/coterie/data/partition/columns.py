"""Splits by a column of the original table: what bands and silos share."""

from __future__ import annotations

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.tabular import TabularPrepare


def column_of(split: str, data: Dataset, pool: Arrays, column: str) -> Array:
    """A pool's column by name; a dataset without a table, or without that column, is refused."""
    if pool.columns is None:
        raise BadInput(
            f"split {split} goes by a table's column, but {data.name} has no table: use iid or dirichlet"
        )
    if column not in pool.columns:
        raise UnknownName(f"column of {data.name}", column, pool.columns)
    return pool.columns[column]


def refuse_other_count(split: str, clients: int | None, names: tuple[str, ...]) -> None:
    """A split that knows its number of clients refuses another."""
    if clients not in (None, len(names)):
        raise BadInput(
            f"split {split} makes {len(names)} client(s) here ({', '.join(names)}); got clients={clients}: "
            f"leave clients out or ask for {len(names)}"
        )


def cells_of(split: str, data: Dataset, pool: Arrays) -> Array:
    """A table's inputs as numbers [row, column], a copy; NaN where a value is missing."""
    if pool.x.ndim != 2:
        raise BadInput(
            f"split {split} changes a table's columns, but {data.name} has inputs of shape "
            f"{list(pool.x.shape[1:])}: use a table, or the split clusters for pictures"
        )
    return np.array(pool.x, dtype=np.float64)


def columns_in(split: str, data: Dataset) -> tuple[str, ...]:
    """The names of a table's columns that become inputs."""
    if not isinstance(data.prepare, TabularPrepare):
        raise BadInput(
            f"split {split} takes values out of a table, but {data.name} has no rule for missing ones: use "
            "a table of files, heart-disease or tcga-brca"
        )
    return tuple(c.name for c in data.prepare.columns)


def numbers_of(split: str, data: Dataset) -> list[int]:
    """Which of a table's columns hold numbers, neither flags nor categories; where nothing says so, those of
    more than two values.
    """
    if isinstance(data.prepare, TabularPrepare):
        found = [i for i, c in enumerate(data.prepare.columns) if c.kind == "number"]
    else:
        found = [i for i, column in enumerate(data.train.x.T) if len(np.unique(column)) > 2]
    if not found:
        raise BadInput(f"split {split} moves columns of numbers, and {data.name} has none: use another split")
    return found
