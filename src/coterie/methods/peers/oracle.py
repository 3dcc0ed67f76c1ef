"""Oracle: random, but only among those known to have the same kind of data (Karlsson, 2021, table 3.6).

    C_k ⊂ {j ≠ k : cluster of j = cluster of k} at random,   |C_k| = m_selected, or all if they are fewer

A yardstick: what would perfect knowledge of one's own kind be worth? The clusters are the roster's
`clusters`, which a synthetic split gives; beside `central` by cluster no other method looks at them.
m_selected is `selected`. Whoever is alone in its cluster trains alone, and the run's notes say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Info, Key, Net, Partners, Roster
from coterie.core.method import METHODS, true_clusters
from coterie.core.partners import WEIGHTS
from coterie.methods.peers.picks import draw_from
from coterie.methods.peers.random import Random
from coterie.methods.peers.rounds import Choices, play
from coterie.methods.peers.turns import State


@METHODS.register("oracle")
@dataclass(frozen=True)
class Oracle(Random):
    """Random, but only with others of the same true cluster: a yardstick that knows what nobody knows."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        shares="model",
        words={
            "en": "Others of the same true cluster, drawn by lot: outside of a trial nobody knows that "
            "cluster.",
            "fr": "D'autres du même vrai groupe, tirés au sort : hors d'un essai, personne ne connaît "
            "ce groupe.",
            "de": "Andere aus demselben wahren Cluster, ausgelost: Außerhalb eines Versuchs kennt ihn "
            "niemand.",
        },
    )

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        said, clusters = super().check(roster, start, key), true_clusters(roster, "oracle")
        alone = [name for name, kin in zip(roster.names, kin_of(clusters), strict=True) if not len(kin)]
        if alone:
            said.append(f"alone in a cluster, and so training alone: {', '.join(alone)}")
        return said

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        kin, draws = kin_of(true_clusters(net.roster, "oracle")), key.at("peers").torch()
        asked = [[draw_from(mine, self.selected, draws)] for mine in kin]
        return play(self, state, net, key, Choices(asked))


def kin_of(clusters: Sequence[int]) -> list[Tensor]:
    """Everybody's others of the same cluster."""
    return [
        torch.tensor([j for j, other in enumerate(clusters) if other == mine and j != k], dtype=torch.int64)
        for k, mine in enumerate(clusters)
    ]
