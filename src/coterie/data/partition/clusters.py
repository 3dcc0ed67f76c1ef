"""Groups of clients that see the same pictures turned differently.

Karlsson and Onoszko, "PENS: leveraging data heterogeneity in federated learning", 2021, section 3.4: rows
are dealt in equal numbers to N clients; one half of them keeps its pictures, the other half has them
rotated by 180 degrees (M = 2 clusters, client numbers in contiguous blocks). Ghosh et al., "An efficient
framework for clustered federated learning", 2020, arXiv:2006.04088, rotate the same pictures too.

    M -> `clusters`;  cluster index k_i of client i -> Deal.clusters[i];  P_k -> `turns[k]`

The thesis tests every client on the whole test set, turned as its cluster is; here a client's test rows are
its own part of it, since a row has at most one owner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import client_names, how_many, round_column
from coterie.data.partition.iid import deal_equally, empty_note
from coterie.data.partition.turns import TURNS, turn


@SPLITS.register("clusters")
@dataclass(frozen=True)
class Clusters:
    """Rows dealt as in iid; each cluster of clients has its pictures transformed in its own way.

    clusters   how many; as many as there are turns if left out
    turns      one transformation for each cluster
    shares     relative numbers of clients in the clusters; equal if left out
    """

    clusters: int | None = None
    turns: tuple[str, ...] = ("identity", "rotate-180")
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in self.turns:
            if name not in TURNS:
                raise UnknownName("turn", name, TURNS)
        if len(set(self.turns)) < len(self.turns):
            raise BadInput(
                f"split clusters: turns {', '.join(self.turns)} repeat one: give each cluster its own"
            )
        m = self.count
        if not 1 <= m <= len(self.turns):
            raise BadInput(
                f"split clusters: {m} clusters need 1 to {len(self.turns)}, one for each turn given "
                f"({', '.join(self.turns)}): name {max(m, 1)} of {', '.join(TURNS)}"
            )
        if self.shares and (len(self.shares) != m or not all(0 < s < float("inf") for s in self.shares)):
            raise BadInput(
                f"split clusters: shares {tuple(self.shares)} must be {m} numbers above 0, "
                "one for each cluster: for instance 3 1"
            )

    @property
    def count(self) -> int:
        """M, the number of clusters."""
        return len(self.turns) if self.clusters is None else self.clusters

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if pool.x.ndim != 4:
            raise BadInput(
                f"split clusters turns pictures, but {data.name} has inputs of shape "
                f"{list(pool.x.shape[1:])}: use picture data or another split"
            )
        n = how_many("clusters", data, clients, minimum=2)
        used = self.turns[: self.count]
        shown = pool.x[:1] if pool.x.dtype == np.uint8 else pool.x  # only numbers have a range to check
        for name in used:
            turn(name, shown)  # refuses what cannot be turned before anything is dealt
        cluster = blocks(n, self.shares or (1.0,) * self.count)
        return Deal(
            deal_equally(len(pool), n, key.at("rows", len(pool)).numpy()),
            client_names(n),
            clusters=cluster,
            turns=tuple(used[c] for c in cluster),
            notes=empty_note(len(pool), n),
        )


def blocks(clients: int, shares: tuple[float, ...], split: str = "clusters") -> tuple[int, ...]:
    """The cluster of each client: contiguous blocks, sizes by largest remainder."""
    parts = np.array(shares, dtype=np.float64)
    sizes = round_column(clients, parts / parts.sum(), np.zeros(len(parts)))
    if sizes.min() < 1:
        raise BadInput(
            f"split {split}: {clients} clients leave cluster {int(sizes.argmin())} of {len(parts)} empty: "
            "ask for more clients or more even shares"
        )
    return tuple(np.repeat(np.arange(len(parts)), sizes).tolist())
