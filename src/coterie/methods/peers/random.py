"""Random: every client averages with some others, drawn anew each round (Karlsson, 2021, algorithm 1).

    w_k ← (w_k + Σ_{j∈C_k} w_j) / (1 + |C_k|),   C_k ⊂ C \\ {k} at random,  |C_k| = m_selected

m_selected is `selected`. Deviation: whoever is gone leaves C_k, and the others share its weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from coterie.core.method import METHODS
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.peers.picks import Asked, check_peers, draw_others
from coterie.methods.peers.rounds import Peers


@METHODS.register("random")
@dataclass(frozen=True)
class Random(Peers):
    """Everybody averages with some random others."""

    selected: int = 1
    """With how many others to average (the thesis: 20 of 199)."""

    def check(self, names: Sequence[str], rounds: int) -> None:
        super().check(names, rounds)
        check_peers("selected", self.selected, len(names) - 1)

    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        n, draws = len(net.names), key.at("peers").torch()
        return [[draw_others(n, k, self.selected, draws)] for k in range(n)]
