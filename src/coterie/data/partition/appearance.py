"""Appearance skew: the same label looks different in another cluster of clients, p(x|y) skew, for tables.

Every cluster but the first has, for each class y and each column j of numbers, an offset of its own:

    x_j ← x_j + s d_j z_cyj,     z_cyj ~ N(0, 1)

s is `strength` and d_j the deviation of the column over all known training values. Offsets differ by class,
as one that all rows of a client share would be taken out again where each client scales by its own mean. For
pictures, the split `clusters` turns them. Targets that are no classes have one offset in each cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.clusters import blocks
from coterie.data.partition.columns import cells_of, numbers_of
from coterie.data.partition.counts import Shares, class_total, client_names, how_many
from coterie.data.partition.iid import deal_equally, empty_note


@SPLITS.register("appearance")
@dataclass(frozen=True)
class Appearance:
    """Rows dealt as in iid; in each cluster of clients, a class has its columns of numbers elsewhere.

    clusters   how many; the first is left as it is
    strength   how far, in deviations of a column
    """

    clusters: int = 2
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise BadInput(f"split appearance: clusters={self.clusters} must be at least 2: try 2")
        if not 0 < self.strength < math.inf:
            raise BadInput(f"split appearance: strength={self.strength} must be above 0 and finite: try 1")

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        x, columns = cells_of("appearance", data, pool), numbers_of("appearance", data)
        n = how_many("appearance", data, clients, minimum=2)
        cluster = blocks(n, (1.0,) * self.clusters, "appearance")
        owner = deal_equally(len(pool), n, key.at("rows", len(pool)).numpy())
        of = np.array(cluster)[owner]
        labelled = data.task == "classification"
        classes = class_total("appearance", data) if labelled else 1
        label = pool.y if labelled else np.zeros(len(pool), dtype=np.int64)
        spread = np.nanstd(cells_of("appearance", data, data.train)[:, columns], axis=0)
        offsets = self.offsets(classes, spread, key.at("clients").numpy())
        x[:, columns] += offsets[of, label]
        said = (
            f"columns of numbers moved by cluster and class, by {self.strength:g} deviations or so, in all "
            f"but the first cluster: {len(columns)} columns, {int((of > 0).sum())} of {len(pool)} rows"
        )
        rows = replace(pool, x=x.astype(np.asarray(pool.x).dtype))
        return Deal(owner, client_names(n), cluster, rows=rows, notes=(said, *empty_note(len(pool), n)))

    def offsets(self, classes: int, spread: Shares, rng: np.random.Generator) -> Shares:
        """[cluster, class, column], 0 in the first cluster."""
        drawn: Shares = self.strength * spread * rng.normal(size=(self.clusters, classes, len(spread)))
        drawn[0] = 0
        return drawn
