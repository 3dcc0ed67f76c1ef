"""Random: every client averages with some others, drawn anew each round (Karlsson, 2021, algorithm 1).

    w_k ← (w_k + Σ_{j∈C_k} w_j) / (1 + |C_k|),   C_k ⊂ C \\ {k} at random,  |C_k| = m_selected

m_selected is `selected`. Deviation: whoever is gone leaves C_k, and the others share its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coterie.core.contract import Beliefs, Info, Key, Net, Partners, Roster
from coterie.core.method import METHODS
from coterie.core.partners import WEIGHTS
from coterie.methods.peers.picks import check_peers, draw_others
from coterie.methods.peers.rounds import Choices, Peers, play
from coterie.methods.peers.turns import State


@METHODS.register("random")
@dataclass(frozen=True)
class Random(Peers):
    """Everybody averages with some random others."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        shares="model",
        words={
            "en": "Others are drawn by lot; nothing is measured of them.",
            "fr": "Les autres sont tirés au sort ; rien n'est mesuré chez eux.",
            "de": "Die anderen werden ausgelost; von ihnen wird nichts gemessen.",
        },
    )

    selected: int = 1
    """With how many others to average (the thesis: 20 of 199)."""

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        said = super().check(roster, start, key)
        check_peers("selected", self.selected, len(roster) - 1)
        return said

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, draws = len(net.roster), key.at("peers").torch()
        asked = [[draw_others(n, k, self.selected, draws)] for k in range(n)]
        return play(self, state, net, key, Choices(asked))
