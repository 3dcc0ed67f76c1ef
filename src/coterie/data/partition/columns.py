"""Splits by a column of the original table: what bands and silos share."""

from __future__ import annotations

from coterie.core.errors import BadInput, UnknownName
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array


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
