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

Defaults (docs/methods/peers.md has the figures). In the thesis one's own model is tried on others' data, by
accuracy, after 2 to 50 local epochs a round. After one, as other methods have it, that does not tell kinds
apart: by default others' models are tried on one's own data, by loss, as in `dac`. Two thirds of the others
are asked, so that one's own kind is among them though it may be rare; and step 1 takes half of a short run.

Deviations. If all others are sampled, every sampling of a round picks the same, but for equals: one is made,
and c_kj and T_k are as much lower. Whoever was away in some rounds of step 1 has fewer picks, and its T_k is
as much lower; with `tell` choices one sampling is made a round, as a client ranks whoever visits it at once.
Whoever finds nobody trains alone in step 2. Early stopping looks at step 2 only. In the order
`trained`, round 1 is step 1's training before its first picks.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Net, Partners, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import kernel_fact
from coterie.core.method import CIRCLE, METHODS
from coterie.core.options import bounded
from coterie.kernels.around import reworked
from coterie.methods.peers.greedy import Greedy
from coterie.methods.peers.picks import check_peers, counts, draw_from
from coterie.methods.peers.rounds import Choices, Direction, Notes, Shown, first_averaging, play
from coterie.methods.peers.turns import State

# if nothing is said
NEIGHBOURS = 20
LEAST, MOST = 3, 20  # to ask
ROUNDS = 20  # of step 1, at most


@METHODS.register("pens")
@dataclass(frozen=True)
class PENS(Greedy):
    """Neighbours are those picked more often than by chance in step 1; step 2 learns with them alone."""

    chooses: ClassVar[Partners] = Partners(
        by={**Greedy.chooses.by, "history": "high"},
        shares="model",
        words={
            "en": "Those are kept whose models do well on your rows.",
            "fr": "Sont gardés ceux dont les modèles réussissent bien sur vos lignes.",
            "de": "Behalten werden die, deren Modelle auf Ihren Zeilen gut abschneiden.",
        },
    )

    sampled: int = 0
    """How many others to ask (the thesis: 5 to 20); 0: two thirds of them, at least 3 and at most 20."""
    direction: Direction = "theirs-on-mine"
    """Their models on my data by loss, or mine-on-theirs by accuracy, as in the thesis."""
    samplings: int = bounded(10, "be at least 1", "try 1")
    """How often, in a round of step 1, to sample and pick; if all others are sampled, once will do."""
    rounds_step1: int = bounded(0, "be at least 0", "try 0")
    """Rounds of step 1, step 2 has the rest (the thesis: 20 of 353); 0: half of the run's, at most 20."""
    neighbours: int = bounded(0, "be at least 0", "try 0")
    """With how many of its neighbours to average in a round of step 2, at most; 0: 20, as in the thesis."""
    epochs1: int = bounded(0, "be at least 0", "try 0")
    """Local epochs in step 1; 0: as in the local work."""
    epochs2: int = bounded(0, "be at least 0", "try 0")
    """Local epochs in step 2; 0: as in the local work."""

    def __post_init__(self) -> None:
        super().__post_init__()
        in_epochs = kernel_fact(self.local, "epochs") and not kernel_fact(self.local, "steps")
        if (self.epochs1 or self.epochs2) and not in_epochs:
            raise BadInput("epochs1 and epochs2 need local work in epochs: set steps=0, or both to 0")

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        said, first, least = super().check(roster, start, key), self.step_1(key), first_averaging(self.order)
        if self.neighbours:
            check_peers("neighbours", self.neighbours, len(roster) - 1)
        if first < least:
            raise BadInput(
                f"rounds_step1={first} leaves no round to pick in, as order={self.order} trains first: "
                f"set at least {least}"
            )
        if not (self.sampled and self.rounds_step1):
            asked = f"{self.to_ask(len(roster))} of {len(roster) - 1} others"
            said.append(
                f"pens asks {asked}, and step 1 takes {min(first, key.rounds)} of {key.rounds} rounds"
            )
        if self.selected == len(roster) - 1:
            said.append(
                "pens picks all others in every round, so nobody more often than by chance: step 2 trains "
                "alone; add clients, lower selected, or use random"
            )
        if key.rounds <= first:
            said.append(f"rounds={key.rounds} leave none for step 2 of pens: rounds_step1={first}")
        return said

    def to_ask(self, clients: int) -> int:
        others = clients - 1
        return self.sampled or min(others, max(LEAST, min(MOST, math.ceil(2 * others / 3))))

    def times(self, clients: int) -> int:
        """Samplings in a round: of all others, they would all be the same; choices are made of one."""
        return 1 if self.to_ask(clients) == clients - 1 or self.keep else self.samplings

    def step_1(self, key: Key) -> int:
        """Rounds of step 1: if nothing is said, half of the run's, and one at least to pick in."""
        return self.rounds_step1 or max(first_averaging(self.order), min(ROUNDS, key.rounds // 2))

    @property
    def paced(self) -> str:
        """Nothing if step 1 has a length of its own."""
        said = "picks in the first half of its rounds (unless rounds_step1 is given)"
        return "" if self.rounds_step1 else said

    def step(self, key: Key) -> int:
        """1 while the history is collected, then 2."""
        return 1 if key.round <= self.step_1(key) else 2

    def threshold(self, picks: Tensor, clients: int) -> Tensor:
        """How often [client] somebody has to be picked more than, after so many picks [client] in all."""
        return expected_count(picks, clients)

    def init(self, start: Held, net: Net) -> State:
        n = len(net.roster)
        return self.begun(start, net, {"history": torch.zeros(n, n, dtype=torch.int64)})

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, draws = len(net.roster), key.at("peers").torch()
        if self.step(key) == 1:
            choices = Choices(
                self.draw(n, draws, self.times(n)),
                direction=self.direction,
                keep=self.keep,
                pick=self.pick,
                learn=lambda notes, turns: {"history": notes["history"] + counts(turns.picked, n)},
                show=lambda turns, notes: self.show(notes, 1),
                work=_in_epochs(self.local, self.epochs1),
                watching=False,
            )
        else:
            circles = self.circles(state.notes)
            choices = Choices(
                [[draw_from(found, self.neighbours or NEIGHBOURS, draws)] for found in circles],
                show=lambda turns, notes: self.show(notes, 2),
                work=_in_epochs(self.local, self.epochs2),
            )
        return play(self, state, net, key, choices)

    def circles(self, notes: Notes) -> list[Tensor]:
        """Each client's neighbours, by the history so far."""
        history = notes["history"]
        return neighbours_of(history, self.threshold(history.sum(dim=1), len(history)))

    def show(self, notes: Notes, step: int) -> Shown:
        circles = self.circles(notes)
        extras = {"step": step, "circles": [len(found) for found in circles]}
        if step == 2:
            return extras, {}
        circle = counts([[found] for found in circles], len(circles)).double()
        return extras, {"history": notes["history"].double(), CIRCLE: circle}


def _in_epochs(local: Trainer, epochs: int) -> Trainer:
    """The work for so many epochs; 0: as it is."""
    if not epochs:
        return local
    made: Trainer = reworked(local, lambda work: dataclasses.replace(work, epochs=epochs))
    return made


def expected_count(picks: Tensor, clients: int) -> Tensor:
    """T_k: how often each of the N - 1 others would have been picked by chance; [client]."""
    return picks.double() / (clients - 1)


def neighbours_of(history: Tensor, threshold: Tensor) -> list[Tensor]:
    """N_k: those picked more often than the threshold [client] says."""
    return [row.nonzero().flatten() for row in history > threshold.unsqueeze(1)]
