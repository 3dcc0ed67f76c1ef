"""Everyone draws from the same distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import Counts, client_names, how_many


@SPLITS.register("iid")
@dataclass(frozen=True)
class Iid:
    """Rows shuffled and dealt in turn: sizes differ by at most one."""

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        n = how_many("iid", data, clients, minimum=2)
        owner = deal_equally(len(pool), n, key.at("rows", len(pool)).numpy())
        return Deal(owner, client_names(n), notes=empty_note(len(pool), n))


def deal_equally(rows: int, clients: int, rng: np.random.Generator) -> Counts:
    """Owners [row] in a random order, sizes as equal as they can be."""
    return rng.permutation(np.arange(rows, dtype=np.int64) % clients)


def empty_note(rows: int, clients: int) -> tuple[str, ...]:
    """What to say when there are fewer (test) rows than clients."""
    said = f"clients that get none of {rows} rows: {clients - rows} of {clients}"
    return () if rows >= clients else (said,)
