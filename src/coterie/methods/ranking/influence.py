"""Influence: how much each participant lowers the requester's held-out loss.

An idea of Grimberg, 2020, "Privacy-preserving and Personalized Federated Machine Learning for Medical Data",
sections 2.2 and 6, which leave it to be worked out. Here:

    w_j = LocalWork_j(w),   w̄ = Σ_j p_j w_j,   p_j = n_j / Σ n       one round of FedAvg on everybody
    w̄_{-j} = Σ_{i≠j} p_i w_i / (1 - p_j) = w̄ + ε_j (w̄ - w_j),   ε_j = p_j / (1 - p_j)
    I_rj = L_r(w̄_{-j}) - L_r(w̄)                                     exact leave-one-out
    I_rj ≈ ε_j ⟨∇L_r(w̄), w̄ - w_j⟩                                   first order: its derivative at ε = 0
    U_r = {r} ∪ {the k others of highest I_rj, of those with I_rj - θ > se_rj that clear the bar}
    then FedAvg within U_r

L_r is the mean loss on rows that requester r holds out, k is `best`, θ is `threshold`, se_rj is the standard
error of I_rj over folds, and the bar is that of `bar.py`, for w_j beside w_r; with bar="none", I_rj > θ is
enough. LocalWork is done `passes` times over. Above 0, j helps. The horizon is one round: for it, leaving j
out of the average is exact, as w_i does not depend on who else takes part; what j would change in later
rounds is not seen.

Held out are `folds` folds of the training rows, in turn: in turn k every client trains without its k-th fold,
and each requester scores on its own. With folds=0 everybody trains on all training rows and requesters score
on their validation rows. Test rows are never looked at. The first order needs one gradient from each
requester instead of a score for each participant, and it is exact, not a difference quotient: see
`slopes.py`. It sees trained parameters only, and the loss as in training (dropout, batch statistics).

The w_j go to each requester, which makes and scores the averages at home; the coordinator sees losses or
slopes, no model. The first round ranks and leaves the beliefs alone; from the second on the circles train
(`circles`). Of several initial beliefs the first is the one that visits everybody, as in FedAvg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import ALL
from coterie.core.method import METHODS, asking, first_of, handed_out, scatter
from coterie.core.net import Net, Replies, from_server
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.fold import HeldOut
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.kernels.slopes import WHOLE, Slopes
from coterie.methods.ranking import circles
from coterie.methods.ranking.bar import (
    Bar,
    Part,
    beside,
    elsewhere,
    error_name,
    parts,
    scored_at_home,
    standard_error,
)
from coterie.methods.ranking.circles import Ranking, State
from coterie.methods.server.fedavg import averaging_weights

INFLUENCE = "influence"
Estimate = Literal["exact", "first-order"]


@METHODS.register("influence")
@dataclass(frozen=True)
class Influence:
    """Ranks others by how much they lower one's held-out loss, then trains with those that do."""

    chooses: ClassVar[Partners] = Partners(
        by={"influence": "high"},
        shares="model",
        ranks=True,
        words={
            "en": "A circle of those without whom your model would do worse.",
            "fr": "Un cercle de ceux sans qui votre modèle serait moins bon.",
            "de": "Ein Kreis derer, ohne die Ihr Modell schlechter wäre.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = ALL
    """The client that wants a ranking and a circle, or all; whoever does not ask trains alone."""
    best: int = bounded(0, "be at least 0", "0 sets no bound")
    """How many others to choose at most, the first of the ranking; 0 sets no bound."""
    threshold: float = 0.0
    """Choose only others whose influence lies above this; -inf sets no bound."""
    estimate: Estimate = chosen("exact", Estimate)
    """Leave each participant out (exact), or go by the gradient (first-order)."""
    folds: int = 5
    """Folds of the training rows that are held out in turn; 0 scores on validation rows instead."""
    passes: int = bounded(1, "be at least 1", "try 5")
    """How many times over the local work is done before the models are averaged."""
    bar: Bar = chosen("own", Bar)
    """Choose only others whose influence lies above the threshold by more than a standard error, and whose
    model does no worse on one's own rows than one's own by more than that (own), or better by more (better);
    none asks for neither."""

    def __post_init__(self) -> None:
        check_options(self)
        circles.check_choice(self.threshold, self.folds)
        if self.estimate == "first-order" and not self.folds:
            raise BadInput("estimate=first-order needs a gradient, which training rows give: set folds to 5")

    @property
    def visits(self) -> int:
        """Training visits of a ranking: everybody's for each fold, and the requesters' for their slopes."""
        return max(1, self.folds) * (1 if self.estimate == "exact" else 2)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        circles.check_clients(roster, self.requester, self.folds)
        return ()

    def init(self, start: Held, net: Net) -> State:
        return State(handed_out(start, net), first=first_of(start))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if state.costs is not None:
            return circles.train(self.local, state, self.weights(state.costs, net), net, key)
        assert state.first is not None
        ranking = self.rank(state.first, net, key)
        return circles.conclude(state, ranking, self.weights(ranking.open(), net), net, key)

    def weights(self, costs: Tensor, net: Net) -> Tensor:
        chosen = circles.choose(costs, self.best, -self.threshold)
        return circles.circle_weights(chosen, net.roster.sizes)

    def rank(self, start: Held, net: Net, key: Key) -> Ranking:
        n = len(net.roster)
        requesters = asking(self.requester, net.roster.names)
        visits, looks, seen = [], [_nothing_seen(n)], list[Part]()
        for k, (trainer, whole) in enumerate(circles.looks(self.local, self.folds, self.passes, key)):
            replies = net.visit(trainer, start, from_server(torch.arange(n)), key.at("fold", k))
            visits.append(replies)
            if len(replies) < 2:
                continue
            for i, scorer in enumerate([whole] if self.folds or self.bar == "none" else parts(0, key), k):
                place = key.at("influence", i)
                if self.estimate == "exact":
                    looks.append(leave_one_out(net, replies, scorer, requesters, place))
                else:
                    slopes = Slopes(replace(trainer, inner=WHOLE, passes=1, inside=True))
                    looks.append(first_order(net, replies, slopes, requesters, place))
                if self.bar != "none":
                    seen.append(_tried(net, replies, scorer, requesters, key.at("bar", i)))
        values, rows = (torch.stack(some).sum(dim=0) for some in zip(*looks, strict=True))
        influence = (values / rows.unsqueeze(1)).fill_diagonal_(float("nan"))
        ranking = Ranking(
            costs=-influence,
            matrices={INFLUENCE: influence},
            loss=circles.mean_loss(visits, n),
            held_out=circles.words_for(self.folds),
        )
        if self.bar == "none":
            return ranking
        error, held = error_of(looks[1:], n), beside(seen, n)
        return replace(
            ranking,
            matrices={**ranking.matrices, error_name(INFLUENCE): error, **held.matrices()},
            clears=held.clears(self.bar) & (influence - error > self.threshold),
        )

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        slopes = ("slope",) if self.estimate == "first-order" else ()
        return Reveals(sites=True, numbers=(*circles.revealed_numbers(self.local), *slopes))


class Look(NamedTuple):
    """What one set of held-out rows says.

    values     [requester, other] influence times held-out rows, NaN where there is nothing to say
    rows       [requester] how many rows were held out
    """

    values: Tensor
    rows: Tensor


def _nothing_seen(n: int) -> Look:
    return Look(torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64))


def error_of(looks: Sequence[Look], n: int) -> Tensor:
    """[requester, other] the standard error of the influence, over sets of held-out rows."""
    each = [look.values / look.rows.unsqueeze(1) for look in looks]
    unknown = torch.full((n, n, 1), float("nan"), dtype=torch.float64)
    return standard_error(torch.stack(each, dim=-1) if each else unknown)


def _tried(net: Net, replies: Replies, scorer: Score | HeldOut, requesters: Tensor, key: Key) -> Part:
    """Everybody's model at the requesters, beside their own at home."""
    own = torch.stack([torch.arange(len(replies)), replies.hosts], dim=1)
    own = own[torch.isin(replies.hosts, requesters)]
    mine = scored_at_home(net, scorer, replies.beliefs, own, key.at("own"))
    return Part(elsewhere(net, scorer, replies.beliefs, replies.hosts, requesters, key), *mine)


def leave_one_out(net: Net, replies: Replies, scorer: Score | HeldOut, requesters: Tensor, key: Key) -> Look:
    """L_r(w̄_{-j}) - L_r(w̄): each requester forms the averages and scores them."""
    n, shares = len(net.roster), averaging_weights(net.roster.sizes[replies.hosts], weighted=True)
    others = shares * (1 - torch.eye(len(shares), dtype=shares.dtype))  # p_i / (1 - p_j): [j, i]
    ways = torch.cat([shares.unsqueeze(0), others / others.sum(dim=1, keepdim=True)])
    values, rows = _nothing_seen(n)
    values.fill_(float("nan"))
    for r in requesters[torch.isin(requesters, replies.hosts)].tolist():  # who is there
        averages = net.mix(ways, replies.beliefs, torch.full((len(ways),), r))
        edges = torch.stack([torch.arange(len(ways)), torch.full((len(ways),), r)], dim=1)
        scores = net.visit(scorer, averages, edges, key.at("at", r))
        if len(scores):
            losses, rows[r] = scores.numbers["loss"], scores.numbers["samples"][0]
            lost = (losses[1:] - losses[0]) * rows[r]
            values[r, replies.hosts] = lost if rows[r] else torch.zeros_like(lost)
    return Look(values, rows)


def first_order(net: Net, replies: Replies, slopes: Slopes, requesters: Tensor, key: Key) -> Look:
    """ε_j ⟨∇L_r(w̄), w̄ - w_j⟩, from one gradient at each requester."""
    n, shares = len(net.roster), averaging_weights(net.roster.sizes[replies.hosts], weighted=True)
    requesters = requesters[torch.isin(requesters, replies.hosts)]  # who is there
    if len(requesters) == 0:
        return _nothing_seen(n)
    means = net.mix(shares.expand(len(requesters), -1), replies.beliefs, requesters)
    edges = torch.stack([torch.arange(len(requesters)), requesters], dim=1)
    others = {str(j): replies.beliefs.rows(torch.tensor([j])) for j in range(len(replies))}
    found = net.visit(slopes, means, edges, key, beside=others)
    if len(found) == 0:
        return _nothing_seen(n)
    products = torch.stack([found.numbers[f"slope/{j}"] for j in others], dim=1)
    rows = scatter(found.numbers["samples"], found.hosts, n, empty=0)
    values = torch.full((n, n), float("nan"), dtype=torch.float64)
    values[found.hosts.unsqueeze(1), replies.hosts] = products * shares / (1 - shares)
    return Look(values * rows.unsqueeze(1), rows)
