"""Oracle: random, but only among those known to have the same kind of data (Karlsson, 2021, table 3.6).

    C_k ⊂ {j ≠ k : cluster of j = cluster of k} at random,   |C_k| = m_selected, or all if they are fewer

A yardstick: what would perfect knowledge of one's own kind be worth? The clusters are the net's `clusters`,
which a synthetic split gives; beside `central` by cluster no other method looks at them. m_selected is
`selected`. Whoever is alone in its cluster trains alone, and the run's notes say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.method import METHODS, Facts, true_clusters
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.peers.picks import Asked, draw_from
from coterie.methods.peers.random import Random


@METHODS.register("oracle")
@dataclass(frozen=True)
class Oracle(Random):
    """Random, but only with others of the same true cluster: a yardstick that knows what nobody knows."""

    def look(self, clients: Sequence[Facts], key: Key) -> list[str]:
        clusters = true_clusters([c.name for c in clients], [c.cluster for c in clients], "oracle")
        alone = [c.name for c, kin in zip(clients, kin_of(clusters), strict=True) if not len(kin)]
        said = [f"alone in a cluster, and so training alone: {', '.join(alone)}"] if alone else []
        return [*super().look(clients, key), *said]

    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        kin, draws = kin_of(true_clusters(net.names, net.clusters, "oracle")), key.at("peers").torch()
        return [[draw_from(mine, self.selected, draws)] for mine in kin]


def kin_of(clusters: Sequence[int]) -> list[Tensor]:
    """Everybody's others of the same cluster."""
    return [
        torch.tensor([j for j, other in enumerate(clusters) if other == mine and j != k], dtype=torch.int64)
        for k, mine in enumerate(clusters)
    ]
