"""Nothing is learnt: each client always says the same, the mean or the shares of its own training rows.

    f_k(x) = b_k        kernels/constant.py has b_k

What any model has to beat before it is worth having, alone or together. A client's model is found in its
first round and stays as it is. No model moves but the first, and no number is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, asking, handed_out
from coterie.core.net import settle, to_own
from coterie.kernels.constant import Constant
from coterie.methods.baselines.local import by_oneself


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home."""

    beliefs: Held


@METHODS.register("nothing")
@dataclass(frozen=True)
class Nothing:
    """Always the same answer, a client's own mean or shares of classes: what any model has to beat."""

    chooses: ClassVar[Partners] = Partners(
        shares="model",
        words={
            "en": "Nobody learns anything: always the same answer, the mean or the rates of one's own "
            "training rows.",
            "fr": "Personne n'apprend rien : toujours la même réponse, la moyenne ou les fréquences de "
            "ses propres lignes d'entraînement.",
            "de": "Niemand lernt etwas: immer die gleiche Antwort, der Mittelwert oder die "
            "Häufigkeiten der eigenen Trainingszeilen.",
        },
    )

    only_work: ClassVar[str] = "constant"

    requester: str = "all"
    """The only client that has such a model, by name; the others keep the first. all: everybody has one."""

    @property
    def local(self) -> Trainer:
        """Its work, which nobody chooses."""
        return Constant()

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        asking(self.requester, roster.names)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        edges = to_own(n)[asking(self.requester, net.roster.names)]
        replies = net.visit(self.local, state.beliefs, edges, key)
        return State(settle(net, state.beliefs, replies)), by_oneself(n, replies)

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(numbers=())
