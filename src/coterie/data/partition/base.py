"""A split gives every row of a pool at most one owner.

Because the answer is one owner for each row, nothing can be dealt twice; -1 means nobody's.
A split is called once for each pool (training rows and, if published, test rows) with the same key:
what describes clients (proportions, sizes) is drawn from `key.at("clients")` and so is the same for
both, what shuffles rows from `key.at("rows", len(pool))`. The plainest split, `iid`, is here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.registry import Registry
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.counts import client_names, how_many


@dataclass(frozen=True, eq=False)
class Deal:
    """Who owns which row: `owner` [row] holds a client's number or -1.

    names      one for each client
    clusters   the true group of each client, where the split makes groups
    turns      the name of the picture transformation of each client ("identity", "rotate-180", ...)
    one_class  whether clients with a single class are the very point of this split
    rows       the pool as clients see it, where the split changes inputs or targets; the same rows in order
    order      [row] when it was, where a client is to be tested on rows after those that it trains on
    """

    owner: Array
    names: tuple[str, ...]
    clusters: tuple[int, ...] | None = None
    turns: tuple[str, ...] | None = None
    one_class: bool = False
    rows: Arrays | None = None
    order: Array | None = None
    notes: tuple[str, ...] = field(default=())


class Split(Protocol):
    """A frozen dataclass of options with this one function.

    `clients` is the number asked for, or None: then the split chooses a sensible one. A split that
    knows its number (bands, values) refuses another.
    """

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal: ...


SPLITS: Registry[Split] = Registry("split")


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


@SPLITS.register("iid")
@dataclass(frozen=True)
class Iid:
    """Rows shuffled and dealt in turn: sizes differ by at most one."""

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        return deal_equally("iid", data, pool, clients, key.at("rows", len(pool)).numpy())


def deal_equally(
    split: str, data: Dataset, pool: Arrays, clients: int | None, rng: np.random.Generator
) -> Deal:
    """Rows in a random order, sizes as equal as they can be; there may be fewer (test) rows than clients."""
    rows, n = len(pool), how_many(split, data, clients, minimum=2)
    owner = rng.permutation(np.arange(rows, dtype=np.int64) % n)
    said = f"clients that get none of {rows} rows: {n - rows} of {n}"
    return Deal(owner, client_names(n), notes=() if rows >= n else (said,))
