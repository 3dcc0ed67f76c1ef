"""Oracle: random, but only among those known to have the same kind of data (Karlsson, 2021, table 3.6).

    C_k ⊂ {j ≠ k : cluster of j = cluster of k} at random,   |C_k| = m_selected, or all if they are fewer

A yardstick: what would perfect knowledge of one's own kind be worth? The clusters are the net's `clusters`,
which a synthetic split gives; no other method looks at them. m_selected is `selected`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.errors import BadData
from coterie.core.method import METHODS
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.peers.picks import Asked, draw_from
from coterie.methods.peers.random import Random


@METHODS.register("oracle")
@dataclass(frozen=True)
class Oracle(Random):
    """Random, but only with others of the same true cluster: a yardstick that knows what nobody knows."""

    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        check_clusters(net.names, net.clusters)
        draws = key.at("peers").torch()
        return [[draw_from(kin, self.selected, draws)] for kin in kin_of(net.clusters)]


def check_clusters(names: Sequence[str], clusters: Sequence[int | None]) -> None:
    size = Counter(clusters)
    for name, cluster in zip(names, clusters, strict=True):
        if cluster is None:
            raise BadData(
                f"client {name!r} has no cluster, which oracle needs: use a split that makes clusters"
            )
        if size[cluster] < 2:
            raise BadData(
                f"client {name!r} is alone in cluster {cluster}; oracle needs at least 2 in each: "
                "add clients or make fewer clusters"
            )


def kin_of(clusters: Sequence[int | None]) -> list[Tensor]:
    """Everybody's others of the same cluster."""
    return [
        torch.tensor([j for j, other in enumerate(clusters) if other == mine and j != k], dtype=torch.int64)
        for k, mine in enumerate(clusters)
    ]
