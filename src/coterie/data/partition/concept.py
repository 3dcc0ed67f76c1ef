"""Concept shift: the same inputs mean another label in another cluster of clients, p(y|x) skew.

Sattler, Müller and Samek, "Clustered federated learning: model-agnostic distributed multitask optimization
under privacy constraints", 2021, permute labels by cluster. Here, in cluster c of M:

    y ← (y + c) mod K      for the first K classes; others keep their label

K is `classes`, M `clusters`. With two classes, cluster 1 has them the other way round. No model that sees
inputs alone can serve two clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.clusters import blocks
from coterie.data.partition.counts import class_total, client_names, how_many
from coterie.data.partition.iid import deal_equally, empty_note


@SPLITS.register("concept")
@dataclass(frozen=True)
class Concept:
    """Rows dealt as in iid; each cluster of clients has its labels moved on by one more.

    clusters   how many, at most as many as labels are moved
    classes    how many classes, from the first, have their labels moved; 0: all
    """

    clusters: int = 2
    classes: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise BadInput(f"split concept: clusters={self.clusters} must be at least 2: try 2")
        if self.classes < 0 or self.classes == 1:
            raise BadInput(f"split concept: classes={self.classes} must be 0, for all, or at least 2: try 0")

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        there = class_total("concept", data)
        moved = self.classes or there
        if moved > there:
            raise BadInput(
                f"split concept: classes={moved} must be at most {there}, all that there are: try 0"
            )
        if self.clusters > moved:
            raise BadInput(
                f"split concept: clusters={self.clusters} must be at most {moved}, the classes that move: "
                "lower it"
            )
        n = how_many("concept", data, clients, minimum=2)
        cluster = blocks(n, (1.0,) * self.clusters, "concept")
        owner = deal_equally(len(pool), n, key.at("rows", len(pool)).numpy())
        of = np.array(cluster)[owner]
        changed = int(((of > 0) & (pool.y < moved)).sum())
        said = (
            f"labels moved on by their cluster's number, among {moved} classes: {changed} of {len(pool)} rows"
        )
        return Deal(
            owner,
            client_names(n),
            clusters=cluster,
            rows=replace(pool, y=moved_on(pool.y, of, moved)),
            notes=(said, *empty_note(len(pool), n)),
        )


def moved_on(y: Array, cluster: Array, classes: int) -> Array:
    """(y + c) mod K for labels below K; the others stay."""
    return np.where(y < classes, (y + cluster) % classes, y).astype(y.dtype)
