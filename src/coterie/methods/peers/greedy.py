"""Greedy: average with those on whose data one's own model does best (Karlsson, 2021, algorithm 2).

    C_sampled  = m_sample others at random;   a_j = accuracy of w_k on D_j,  j ∈ C_sampled
    C_selected = the m_selected of C_sampled with the highest a_j
    w_k ← (w_k + Σ_{j∈C_selected} w_j) / (1 + |C_selected|)

m_sample is `sampled`, m_selected `selected`, D_j are training data, a_j Info's matrix `accuracy`. The papers
disagree on whose model tries whose data: `direction` theirs-on-mine takes the lowest losses of w_j on D_k.
A regression goes by the lowest losses either way. Of equals, the one that was drawn first is picked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from coterie.core.errors import UnknownName
from coterie.core.method import METHODS, Facts
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.peers.picks import Asked, check_peers, draw_others, highest
from coterie.methods.peers.rounds import Direction, Peers

SAMPLED = 3  # if nothing is said


@METHODS.register("greedy")
@dataclass(frozen=True)
class Greedy(Peers):
    """Everybody averages with those, of some random others, on whose data its model does best."""

    selected: int = 1
    """With how many of the sampled to average (the thesis: 4)."""
    sampled: int = 0
    """How many others to ask (the thesis: 20 of 199); 0: three, or all if they are fewer."""
    direction: Direction = "mine-on-theirs"
    """My model on their data by accuracy, as in the thesis, or theirs-on-mine by loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in get_args(Direction):
            raise UnknownName("direction", str(self.direction), get_args(Direction))

    def check(self, names: Sequence[str], rounds: int) -> None:
        super().check(names, rounds)
        asked = self.to_ask(len(names))
        check_peers("sampled", asked, len(names) - 1)
        check_peers("selected", self.selected, asked, "those sampled", "lower it or raise sampled")

    def look(self, clients: Sequence[Facts], key: Key) -> list[str]:
        fewer = not self.sampled and len(clients) - 1 < SAMPLED
        said = [f"sampled: all {len(clients) - 1} others, fewer than the {SAMPLED} of the default"]
        return [*super().look(clients, key), *(said if fewer else [])]

    def to_ask(self, clients: int) -> int:
        """How many of these clients each asks."""
        return self.sampled or min(SAMPLED, clients - 1)

    def scoring(self, key: Key) -> Direction | None:
        return self.direction

    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        n, draws = len(net.names), key.at("peers").torch()
        return [[draw_others(n, k, self.to_ask(n), draws)] for k in range(n)]

    def pick(self, asked: Sequence[Tensor], merit: Tensor, key: Key) -> list[Tensor]:
        return [highest(sampling, merit, self.selected) for sampling in asked]
