"""What ranking methods share: from costs to circles, and training within them.

    U_r = {r} ∪ {the others chosen by cost, of those that clear the bar}      choose, `bar.py`
    w_r ← Σ_{j∈U_r} p_rj LocalWork_j(w_r),   p_rj = n_j / Σ_{i∈U_r} n_i      circle_weights, train

r is a requester, j another client, n_j are the roster's `sizes`; a cost is lower for a better client, and NaN
for one that is not ranked or does not clear the bar. Whoever does not ask, whose ranking is empty, or for
whom nobody clears the bar, trains alone: U_r = {r}. As in FedAvg, clients that do not answer leave the sum,
and the others' weights are normalised without them; if nobody of a circle answers, its model stays.

A requester publishes its circle before it trains with it (Ndoye 2020, as Grimberg 2020 has it in section 4):
each of the others learns in whose circles it is, with how many others and which share, and may withdraw. Who
does is out of that circle from then on, and nobody takes its place.

w_r lives with its requester, and that is where the replies are summed: no model reaches the coordinator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core.belief import without
from coterie.core.contract import Held, Info, Key, Net, Replies, Roster, Scorer, Trainer
from coterie.core.errors import BadData, BadInput
from coterie.core.method import UNTRAINED, asking, loss_by_reply
from coterie.kernels.around import numbers_of
from coterie.kernels.fold import Fold, HeldOut
from coterie.kernels.relative import Relative
from coterie.kernels.score import Score

AT_ONCE = 64  # circles that train in one visit: more gain nothing, and their replies have to be held


@dataclass(frozen=True, eq=False)
class State:
    """Each client's belief [client, ...], at home; costs [requester, other] once ranked.

    first   the belief that a ranking sends to everybody, at the coordinator, if it sends one
    stays   [requester, other] who did not withdraw from circles when they were published
    """

    beliefs: Held
    costs: Tensor | None = None
    first: Held | None = None
    stays: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """Costs [requester, other], matrices to show, losses [client], and on which rows; `clears` has who may be
    chosen at all, everybody if there is no bar.
    """

    costs: Tensor
    matrices: Mapping[str, Tensor]
    loss: Tensor
    held_out: str
    clears: Tensor | None = None

    def open(self) -> Tensor:
        """The costs of who may be chosen, NaN for the others."""
        return self.costs if self.clears is None else self.costs.where(self.clears, math.nan)


def check_choice(threshold: float, folds: int = 0) -> None:
    if math.isnan(threshold):
        raise BadInput("threshold=nan compares with nothing: give a number")
    if folds < 0 or folds == 1:
        raise BadInput(f"folds={folds} must be at least 2, or 0 for the validation rows: try 5")


def check_clients(roster: Roster, requester: str, folds: int) -> None:
    """Somebody has to ask and somebody else to be ranked; every client holds each of its folds out once."""
    if len(roster) < 2:
        raise BadInput(f"a ranking needs at least 2 clients; got {len(roster)}: add clients, or use local")
    asking(requester, roster.names)
    least = int(roster.sizes.argmin())
    if int(roster.sizes[least]) < folds:
        raise BadData(
            f"client {roster.names[least]!r} has {int(roster.sizes[least])} training row(s), too few to hold "
            f"out folds={folds} parts of them: lower folds, or leave the client out"
        )
    for member in roster.members if not folds else ():
        if not member.validation:
            raise BadInput(
                f"client {member.name!r} has no validation samples to score on: hold some out with "
                "validation=0.2, or set folds to 2 or more"
            )


def judge(roster: Roster, scorer: Score | HeldOut) -> Scorer:
    """A scorer whose loss can be compared between clients."""
    return Relative(scorer) if roster.task == "survival" else scorer


def looks(local: Trainer, folds: int, passes: int, key: Key) -> list[tuple[Fold, Score | HeldOut]]:
    """How to look at held-out rows: by what to train, and on what to score; one pair for each fold."""
    if not folds:
        return [(Fold(local, passes=passes), Score("validation", ("loss", "samples")))]
    seed = key.at("folds").integer()
    return [(Fold(local, folds, k, seed, passes), HeldOut(folds, k, seed)) for k in range(folds)]


def revealed_numbers(local: Trainer) -> tuple[str, ...]:
    """Numbers that reach the coordinator: those of local work, and of the looks at held-out rows."""
    return tuple(dict.fromkeys((*numbers_of(local), "loss", "samples")))


def words_for(folds: int) -> str:
    return f"{folds}-fold cross-validation on training rows" if folds else "validation rows"


def choose(costs: Tensor, best: int, bound: float) -> Tensor:
    """Of each row the `best` lowest costs (0: all) that lie below the bound: [requester, other], bool."""
    places = costs.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (costs < bound) & (places < (best or len(costs)))


def circle_weights(chosen: Tensor, sizes: Tensor) -> Tensor:
    """p_rj: each client's own data and the chosen ones', by their sizes: [receiver, sender]."""
    members = chosen | torch.eye(len(chosen), dtype=torch.bool)
    parts = members * sizes.double()
    return parts / parts.sum(dim=1, keepdim=True)


def conclude(state: State, ranking: Ranking, weights: Tensor, net: Net, key: Key) -> tuple[State, Info]:
    """A round that leaves the beliefs alone, publishes circles and fills the matrix; without any cost, the
    next ranks anew.
    """
    known = ~ranking.costs.isnan()
    ranked = int(known.sum())
    stays = net.offer(weights, torch.arange(len(weights))) if ranked else None
    extras = {"ranked_pairs": ranked, "held_out": ranking.held_out}
    if stays is not None:  # who they are of is in the weights, and who withdrew among the withdrawals
        alone = (weights > 0).sum(dim=1) <= 1
        extras["published"] = int((~alone).sum())
        asked = known.any(dim=1)
        extras["nobody"] = [name for name, some in zip(net.roster.names, alone & asked, strict=True) if some]
    if key.round == key.rounds:
        extras["note"] = UNTRAINED
    info = Info(
        weights=torch.zeros_like(weights) if stays is None else without(weights, stays),
        loss=ranking.loss,
        extras=extras,
        matrices=ranking.matrices,
        mixed=False,
    )
    return (replace(state, costs=ranking.open(), stays=stays) if ranked else state), info


def train(local: Trainer, state: State, weights: Tensor, net: Net, key: Key) -> tuple[State, Info]:
    """One round of averaging in every circle, without who withdrew from it."""
    n = len(net.roster)
    weights = weights if state.stays is None else without(weights, state.stays)
    # a host that keeps something keeps it for each circle, so each circle pays its own visit
    groups = torch.split(torch.arange(n), 1 if local.keeps else AT_ONCE)
    beliefs, listened, seen = state.beliefs, torch.zeros(n, n, dtype=torch.float64), []
    for i, group in enumerate(groups):
        edges = weights[group].nonzero() + torch.stack([group[0], torch.tensor(0)])
        replies = net.visit(local, state.beliefs, edges, key, slot=f"circle {i}")
        if len(replies) == 0:
            continue
        listened[replies.guests, replies.hosts] = weights[replies.guests, replies.hosts]
        receivers = torch.unique(replies.guests)
        listened[receivers] /= listened[receivers].sum(dim=1, keepdim=True)
        shares = (receivers.unsqueeze(1) == replies.guests) * listened[replies.guests, replies.hosts]
        beliefs = beliefs.put(receivers, net.mix(shares, replies.beliefs, receivers))
        seen.append(replies)
    return replace(state, beliefs=beliefs), Info(weights=listened, loss=mean_loss(seen, n))


def mean_loss(visits: Sequence[Replies], n: int) -> Tensor:
    """Each client's mean training loss over the visits it received, NaN without any: [client]."""
    total, count = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for replies in visits:
        if len(replies):
            total.index_add_(0, replies.hosts, loss_by_reply(replies).double())
            count += torch.bincount(replies.hosts, minlength=n)
    return total / count  # 0 / 0 is NaN
