"""PENS: find the neighbours worth having by how models do on data, then learn with them alone.

Karlsson and Onoszko, 2021, "PENS: Leveraging Data Heterogeneity in Federated Learning",
algorithm 4 (Performance-based Neighbour Selection; also Onoszko, Karlsson, Mogren and Zec, 2021).

    step 1, R rounds    n_samplings times: pick m_selected of m_sample random others, as greedy does
                        all picks enter the history, only the last are averaged with
    neighbours          N_k = {j : c_kj > T_k},   T_k = Σ_j c_kj / (N - 1)     expected_count, neighbours_of
    step 2              random, drawing from N_k only

c_kj, how often k picked j, is Info's matrix `history`, N_k by the history so far its `circle`; R is
`rounds_step1`, n_samplings `samplings`, m_sample `sampled`, m_selected `selected`, N the number of clients.
Nobody missing, T_k = m_selected R n_samplings / (N - 1), what blind picks would give. Algorithm 4 divides by
the number of clients ever sampled, which in the end is N - 1. A subclass may set another `threshold`.

Deviations. Whoever was away in some rounds of step 1 has fewer picks, and its T_k is as much lower. Whoever
finds nobody trains alone in step 2. Early stopping looks at step 2 only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.kernel import Trainer
from coterie.core.method import CIRCLE, METHODS, Facts
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.methods.peers.greedy import Greedy
from coterie.methods.peers.picks import Asked, check_peers, counts, draw_from, draw_others
from coterie.methods.peers.rounds import Direction, Shown
from coterie.methods.peers.turns import Turns

NEIGHBOURS = 20  # if nothing is said


@METHODS.register("pens")
@dataclass(frozen=True)
class PENS(Greedy):
    """Neighbours are those picked more often than by chance in step 1; step 2 learns with them alone."""

    samplings: int = 10
    """How often, in a round of step 1, to sample and pick."""
    rounds_step1: int = 20
    """Rounds of step 1; step 2 has the rest."""
    neighbours: int = 0
    """With how many of its neighbours to average in a round of step 2, at most; 0: 20, as in the thesis."""
    epochs1: int = 0
    """Local epochs in step 1; 0: as in the local work."""
    epochs2: int = 0
    """Local epochs in step 2; 0: as in the local work."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, least in (
            ("samplings", 1),
            ("rounds_step1", 1),
            ("neighbours", 0),
            ("epochs1", 0),
            ("epochs2", 0),
        ):
            if getattr(self, option) < least:
                raise BadInput(f"{option}={getattr(self, option)} must be at least {least}: try {least}")
        in_epochs = getattr(self.local, "epochs", 0) and not getattr(self.local, "steps", 0)
        if (self.epochs1 or self.epochs2) and not in_epochs:
            raise BadInput("epochs1 and epochs2 need local work in epochs: set steps=0, or both to 0")

    def check(self, names: Sequence[str], rounds: int) -> None:
        super().check(names, rounds)
        if self.neighbours:
            check_peers("neighbours", self.neighbours, len(names) - 1)

    def look(self, clients: Sequence[Facts], key: Key) -> list[str]:
        never = key.rounds <= self.rounds_step1
        said = [f"rounds={key.rounds} leave none for step 2 of pens: rounds_step1={self.rounds_step1}"]
        return [*super().look(clients, key), *(said if never else [])]

    def step(self, key: Key) -> int:
        """1 while the history is collected, then 2."""
        return 1 if key.round <= self.rounds_step1 else 2

    def threshold(self, picks: Tensor, clients: int) -> Tensor:
        """How often [client] somebody has to be picked more than, after so many picks [client] in all."""
        return expected_count(picks, clients)

    def begin(self, clients: int) -> Mapping[str, Tensor]:
        return {"history": torch.zeros(clients, clients, dtype=torch.int64)}

    def scoring(self, key: Key) -> Direction | None:
        return self.direction if self.step(key) == 1 else None

    def ask(self, net: Net, notes: Mapping[str, Tensor], key: Key) -> Asked:
        n, draws = len(net.names), key.at("peers").torch()
        if self.step(key) == 1:
            asked = self.to_ask(n)
            return [[draw_others(n, k, asked, draws) for _ in range(self.samplings)] for k in range(n)]
        return [[draw_from(found, self.neighbours or NEIGHBOURS, draws)] for found in self.circles(notes)]

    def circles(self, notes: Mapping[str, Tensor]) -> list[Tensor]:
        """Each client's neighbours, by the history so far."""
        history = notes["history"]
        return neighbours_of(history, self.threshold(history.sum(dim=1), len(history)))

    def pick(self, asked: Sequence[Tensor], merit: Tensor, key: Key) -> list[Tensor]:
        return super().pick(asked, merit, key) if self.step(key) == 1 else list(asked)

    def watching(self, key: Key) -> bool:
        return self.step(key) == 2

    def learn(self, notes: Mapping[str, Tensor], turns: Turns, key: Key) -> Mapping[str, Tensor]:
        if self.step(key) == 2:
            return notes
        return {"history": notes["history"] + counts(turns.picked, len(turns.here))}

    def work(self, key: Key) -> Trainer:
        epochs = self.epochs1 if self.step(key) == 1 else self.epochs2
        return (
            cast(Trainer, dataclasses.replace(cast(Any, self.local), epochs=epochs)) if epochs else self.local
        )

    def show(self, turns: Turns, notes: Mapping[str, Tensor], key: Key) -> Shown:
        circles = self.circles(notes)
        extras = {"step": self.step(key), "circles": [len(found) for found in circles]}
        if self.step(key) == 2:
            return extras, {}
        circle = counts([[found] for found in circles], len(circles)).double()
        return extras, {"history": notes["history"].double(), CIRCLE: circle}


def expected_count(picks: Tensor, clients: int) -> Tensor:
    """T_k: how often each of the N - 1 others would have been picked by chance; [client]."""
    return picks.double() / (clients - 1)


def neighbours_of(history: Tensor, threshold: Tensor) -> list[Tensor]:
    """N_k: those picked more often than the threshold [client] says."""
    return [row.nonzero().flatten() for row in history > threshold.unsqueeze(1)]
