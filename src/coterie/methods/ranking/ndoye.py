"""The adapted Ndoye factor: others ranked by how well their models transfer to one's own data.

Grimberg, 2020, "Privacy-preserving and Personalized Federated Machine Learning for Medical Data", section
4.3. For a requester r and another client i:

    f_i = A(S_i)                                       each client trains a model alone
    L_ri = L_{S_r}(f_i) - L̂^CV_{D_i}(f_i)             its transfer loss to requester r: the lower, the better
    U_r = {r} ∪ {the k others of lowest L_ri}  and/or  {r} ∪ {i : L_ri < θ}
    then FedAvg within U_r

A is the local work done `passes` times over, S_i are client i's training rows, L̂^CV is cross-validation in
`folds` folds on S_i, k is `best`, θ is `threshold`. The loss at home is taken off because f_i may do badly
at r for two reasons, other patients or few of them, and only the first speaks against learning together.
Nobody is chosen who does not clear the bar (`bar.py`), however low its transfer loss is beside the others'.

Losses at two clients are compared here. That of a survival is therefore by event, and against a model that
knows nothing (`relative.py`); folds without an event are left out, and who has none at all is not ranked.

The first round ranks and leaves the beliefs alone; from the second on the circles train (`circles`). A run
of one round is a ranking and nothing else. Test rows are never looked at.

The paper leaves A, k, θ and the folds open and tries none, so the defaults are ours. Deviations: the paper
chooses the k best however bad they are, which bar="none" does. With folds=0 the loss at home is that of f_i
on client i's validation rows. Who does not answer in the ranking round is not ranked, and is in no other's
circle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.facts import ALL
from coterie.core.method import METHODS, NOBODYS, asking, handed_out
from coterie.core.net import settle, to_own
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.fold import Fold
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.ranking import circles
from coterie.methods.ranking.bar import (
    THERE,
    Bar,
    Beside,
    Home,
    Part,
    beside,
    elsewhere,
    parts,
    scored_at_home,
)
from coterie.methods.ranking.circles import Ranking, State


@METHODS.register("ndoye")
@dataclass(frozen=True)
class Ndoye:
    """Ranks others by how well their models transfer, then trains with the best of them."""

    chooses: ClassVar[Partners] = Partners(
        by={"transfer loss": "low"},
        shares="model",
        ranks=True,
        words={
            "en": "A circle of those whose models, trained alone, do well on your rows.",
            "fr": "Un cercle de ceux dont les modèles, entraînés seuls, réussissent bien sur vos lignes.",
            "de": "Ein Kreis derer, deren allein trainierte Modelle auf Ihren Zeilen gut abschneiden.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = ALL
    """The client that wants a ranking and a circle, or all; whoever does not ask trains alone."""
    best: int = bounded(2, "be at least 0", "0 sets no bound")
    """How many others to choose at most, the first of the ranking; 0 sets no bound."""
    threshold: float = math.inf
    """Choose only others whose transfer loss lies below this; inf sets no bound."""
    folds: int = 5
    """Folds of the cross-validation at home; 0 scores on validation rows instead."""
    passes: int = bounded(5, "be at least 1", "try 5")
    """How many times over the local work is done to train the models that are ranked."""
    bar: Bar = chosen("own", Bar)
    """Choose only others whose model does no worse on one's own rows than one's own model by more than a
    standard error (own), or better by more than that (better); none chooses the best, however bad."""

    def __post_init__(self) -> None:
        check_options(self)
        circles.check_choice(self.threshold, self.folds)

    @property
    def visits(self) -> int:
        """Times that everybody trains for a ranking: once for its model, and once for each fold."""
        return 1 + self.folds

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        circles.check_clients(roster, self.requester, self.folds)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if state.costs is not None:
            return circles.train(self.local, state, self.weights(state.costs, net), net, key)
        ranking = self.rank(state.beliefs, net, key)
        return circles.conclude(state, ranking, self.weights(ranking.open(), net), net, key)

    def weights(self, costs: Tensor, net: Net) -> Tensor:
        return circles.circle_weights(circles.choose(costs, self.best, self.threshold), net.roster.sizes)

    def rank(self, beliefs: Held, net: Net, key: Key) -> Ranking:
        n = len(net.roster)
        replies = net.visit(Fold(self.local, passes=self.passes), beliefs, to_own(n), key.at("model"))
        models = settle(net, beliefs, replies)
        home = self.at_home(beliefs, models, replies.hosts, net, key)
        requesters = asking(self.requester, net.roster.names)
        owners = torch.arange(n).where(torch.isin(torch.arange(n), replies.hosts), NOBODYS)
        judge = circles.judge(net.roster, Score("train", ("loss",)))
        there = elsewhere(net, judge, models, owners, requesters, key.at("transfer"))
        total = torch.stack([(h.loss * h.rows).where(h.rows > 0, 0.0) for h in home]).sum(dim=0)
        at_home = total / torch.stack([h.rows for h in home]).sum(dim=0)  # 0 / 0 is NaN: not scored
        losses = transfer_loss(there, at_home)
        ranking = Ranking(
            costs=losses,
            matrices={"transfer loss": losses, THERE: there},
            loss=circles.mean_loss([replies], n),
            held_out=circles.words_for(self.folds),
        )
        if self.bar == "none":
            return ranking
        held = self.beside(models, home, owners, requesters, net, key)
        shown = {**ranking.matrices, **held.matrices(), THERE: there}
        return replace(ranking, matrices=shown, clears=held.clears(self.bar))

    def at_home(self, beliefs: Held, models: Held, hosts: Tensor, net: Net, key: Key) -> list[Home]:
        """L̂_{D_i}(f_i) of each client that answered, fold by fold; NaN for the others."""
        own, found = to_own(len(net.roster))[hosts], []
        for k, (trainer, scorer) in enumerate(circles.looks(self.local, self.folds, self.passes, key)):
            judged = models
            if self.folds:
                judged = settle(net, beliefs, net.visit(trainer, beliefs, own, key.at("fold", k)))
            judge = circles.judge(net.roster, scorer)
            found.append(scored_at_home(net, judge, judged, own, key.at("home", k)))
        return found

    def beside(
        self, models: Held, home: Sequence[Home], owners: Tensor, requesters: Tensor, net: Net, key: Key
    ) -> Beside:
        """Others' models on the rows on which each requester's own was tried."""
        seen, own = [], to_own(len(net.roster))[owners != NOBODYS]
        for k, part in enumerate(parts(self.folds, key)):
            place, scorer = key.at("bar", k), circles.judge(net.roster, part)
            mine = home[k] if self.folds else scored_at_home(net, scorer, models, own, place.at("own"))
            seen.append(Part(elsewhere(net, scorer, models, owners, requesters, place), *mine))
        return beside(seen, len(net.roster))

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=circles.revealed_numbers(self.local))


def transfer_loss(there: Tensor, home: Tensor) -> Tensor:
    """L_ri = L_{S_r}(f_i) - L̂_{D_i}(f_i): [requester, other] from [requester, other] and [other]."""
    return there - home
