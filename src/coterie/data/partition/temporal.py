"""Temporal order: clients are tested on rows that are later than all that they were trained on.

Rows are in the order of a column of dates or numbers, or as they lie in the file. Either each client has a
period of its own (`periods`), so that what changes over time tells clients apart, or every client has rows of
all times. In both, a client's last rows are for testing, those before for validation, and the first for
training; rows of one time are never on both sides.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np

from coterie.core.errors import BadInput, shown
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal, column_of
from coterie.data.partition.counts import client_names, how_many


@SPLITS.register("temporal")
@dataclass(frozen=True)
class Temporal:
    """Rows in the order of time; a client trains on its first ones and is tested on its last.

    column    dates (2024-01-31) or numbers to go by; if left out, the order of the rows
    periods   whether each client has a period of its own, or rows of all times
    """

    column: str = ""
    periods: bool = True

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if data.test is not None:
            raise BadInput(
                f"split temporal holds out each client's last rows, but {data.name} has a published test "
                "set: use other data or another split"
            )
        n = how_many("temporal", data, clients, minimum=4)
        when = np.arange(len(pool), dtype=np.float64)
        if self.column:
            told = column_of("temporal", data, pool, self.column)
            if told.dtype.kind not in "biuf":
                told = np.array([time_of(value, self.column) for value in told.tolist()])
            when = told.astype(np.float64)
        known = np.flatnonzero(~np.isnan(when))
        times, rank = np.unique(when[known], return_inverse=True)
        if len(times) < (2 * n if self.periods else 2):
            raise BadInput(
                f"split temporal: {self.column} has {len(times)} different value(s), too few for {n} clients "
                "that are tested after they are trained: ask for fewer clients or go by another column"
            )
        owner = np.full(len(pool), -1, dtype=np.int64)
        owner[known] = periods_of(rank, n) if self.periods else in_turn(rank, n, key.at("rows", len(pool)))
        names = client_names(n)
        by = self.column or "the order of the rows"
        said = f"in the order of time, by {by}: each client is tested on rows after those that it trains on"
        notes = notes_on(owner, names, f"as {self.column} is missing")
        return Deal(owner, names, order=when, notes=(said, *notes))


def periods_of(rank: Array, clients: int) -> Array:
    """Owners [row]: contiguous times, of about as many rows and at least two times each."""
    sizes = np.bincount(rank)
    done, owner = np.cumsum(sizes), np.zeros(len(sizes), dtype=np.int64)
    begin = 0
    for k in range(clients - 1):
        wanted = done[-1] * (k + 1) / clients
        end = int(np.searchsorted(done, wanted, side="left")) + 1
        end = min(max(end, begin + 2), len(sizes) - 2 * (clients - 1 - k))
        owner[begin:end], begin = k, end
    owner[begin:] = clients - 1
    found: Array = owner[rank]
    return found


def in_turn(rank: Array, clients: int, key: Key) -> Array:
    """Owners [row]: rows in the order of time, of each so many in a row one to each client, at random."""
    rng = key.numpy()
    order = np.lexsort((rng.random(len(rank)), rank))
    blocks = [rng.permutation(clients) for _ in range(-(-len(rank) // clients))]
    owner = np.empty(len(rank), dtype=np.int64)
    owner[order] = np.concatenate(blocks)[: len(rank)]
    return owner


def time_of(value: object, name: str) -> float:
    if value is None or value != value:
        return float("nan")
    try:
        found = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise BadInput(
            f"split temporal: {name} holds {shown(str(value))}, neither a number nor a date like 2024-01-31: "
            "go by another column, or write dates so"
        ) from None
    return found.replace(tzinfo=found.tzinfo or datetime.UTC).timestamp()
