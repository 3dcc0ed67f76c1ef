"""A split gives every row of a pool at most one owner.

Because the answer is one owner for each row, nothing can be dealt twice; -1 means nobody's.
A split is called once for each pool (training rows and, if published, test rows) with the same key:
what describes clients (proportions, sizes) is drawn from `key.at("clients")` and so is the same for
both, what shuffles rows from `key.at("rows", len(pool))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coterie.core.registry import Registry
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array


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
