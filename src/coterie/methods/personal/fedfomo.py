"""FedFomo: everybody tries some others' models on rows of its own, and moves towards those that do better.

Zhang, Sapra, Fidler, Yeung and Alvarez, 2021, "Personalized federated learning with first order model
optimization", ICLR, arXiv:2012.08565, sections 3 and 4.

    w_n = (L_i(θ_i⁻) - L_i(θ_n)) / ‖θ_n - θ_i⁻‖              for i's own reply and M others: merits
    θ_i ← θ_i⁻ + Σ_n w⁺_n (θ_n - θ_i⁻),   w⁺_n = max(0, w_n) / Σ_m max(0, w_m)      kept
    P_in ← P_in + w_n                                        for those that were tried

θ_i⁻ is what i had before the round, in `beliefs`, and θ_n what n's local work made of its own; L_i is the
mean loss on i's validation rows, M is `others`. The M others are chosen one by one: with chance ε anybody
that is left, else the one left with the largest P_in, by lot among equals (`chosen`). ε is `epsilon`, less
`decay` with each round. P begins with 0 for others: whoever was tried and did harm comes after those that
nobody tried.

As Σ w⁺ = 1, θ_i becomes Σ w⁺_n θ_n; w⁺ are Info's `weights`. Its matrices are `affinity` (P), `loss`
(L_i(θ_n), and L_i(θ_i⁻) less that in `gain`) and `distance`, NaN for who was not tried. If nobody does
better, not even its own work, a client stays with θ_i⁻: extras has its name under `stayed`, and its weight is
its own.

Deviations. Models go from client to client and are tried and mixed there; the coordinator, which is the
paper's server, sees losses and distances and chooses. The authors' program (NVlabs/FedFomo) adds w_n divided
by |Σ_m w_m| to P, which says more the more w cancel; here it is the w_n of the paper. Whoever is away keeps
its model and is not tried. ‖θ_n - θ_i⁻‖ is over trained parameters; where it is 0, so is w_n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Partners, Reveals, Roster, Trainer
from coterie.core.held import together
from coterie.core.method import METHODS, check_others, check_validation, handed_out, losses_of
from coterie.core.net import Net, Replies, edges_of, to_own
from coterie.core.options import bounded, check_options
from coterie.kernels.around import numbers_of
from coterie.kernels.score import Score
from coterie.kernels.sgd import SGD
from coterie.methods.personal.measured import seen_from


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], at home, and P [receiver, sender]."""

    beliefs: Held
    affinity: Tensor


@METHODS.register("fedfomo")
@dataclass(frozen=True)
class FedFomo:
    """Everybody weighs some others' models by how much less they lose on its validation rows."""

    chooses: ClassVar[Partners] = Partners(
        by={"gain": "high", "affinity": "high"},
        shares="model",
        words={
            "en": "Those count whose models do better on your rows than your own, the nearer to it the more.",
            "fr": "Comptent ceux dont les modèles réussissent mieux sur vos lignes que le vôtre, "
            "d'autant plus qu'ils en sont proches.",
            "de": "Es zählen die, deren Modelle auf Ihren Zeilen besser abschneiden als Ihr eigenes, "
            "umso mehr, je näher sie ihm sind.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    others: int = bounded(5, "be at least 1", "try 5, or use local")
    """How many others' models a client gets in a round; all, if there are fewer."""
    epsilon: float = bounded(0.3, "lie between 0 and 1", "try 0.3")
    """Chance that one of them is drawn at random instead of by affinity."""
    decay: float = bounded(0.05, "lie between 0 and 1", "try 0.05")
    """How much that chance falls with each round."""

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_others(roster, "fedfomo")
        check_validation(roster, "fedfomo", "use pens, which tries models on training rows")
        return ()

    def init(self, start: Held, net: Net) -> State:
        n = len(net.roster)
        return State(handed_out(start, net), torch.zeros(n, n, dtype=torch.float64))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        replies = net.visit(self.local, state.beliefs, to_own(n), key)
        here, loss = replies.hosts, losses_of(replies, n)
        if len(here) == 0:
            return state, Info(torch.zeros(n, n, dtype=torch.float64), loss)
        tried = self.tried(state.affinity, here, key)
        before, after = _tried_losses(net, replies, state.beliefs, tried, key)
        distance = _tried_distances(net, replies, state.beliefs, tried)
        gain = before.unsqueeze(1) - after
        merit = merits(gain, distance)
        weights = kept(merit)
        moving = (weights.sum(dim=1) > 0).nonzero().flatten()
        beliefs = state.beliefs
        if len(moving):
            beliefs = beliefs.put(moving, net.mix(weights[moving][:, here], replies.beliefs, moving))
        stay = here[weights[here].sum(dim=1) == 0]
        affinity = state.affinity + merit.nan_to_num(nan=0.0)
        info = Info(
            weights.index_put((stay, stay), torch.ones(len(stay), dtype=torch.float64)),
            loss,
            extras={"stayed": [net.roster.names[i] for i in stay.tolist()]},
            matrices={"affinity": affinity, "loss": after, "gain": gain, "distance": distance},
        )
        return State(beliefs, affinity), info

    def tried(self, affinity: Tensor, here: Tensor, key: Key) -> list[tuple[int, list[int]]]:
        """Of those that are here, each client and whose models it tries, its own first."""
        epsilon, draws = max(0.0, self.epsilon - (key.round - 1) * self.decay), key.at("tried").torch()
        found = []
        for i in here.tolist():
            others = [j for j in here.tolist() if j != i]
            picked = chosen(affinity[i], others, self.others, epsilon, draws)
            found.append((i, [i, *picked]))
        return found

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(
            sites=True, numbers=tuple(dict.fromkeys((*numbers_of(self.local), "loss", "distances")))
        )


def merits(gain: Tensor, distance: Tensor) -> Tensor:
    """w [receiver, sender]: what is gained on the way there, by its length; 0 where there is no way."""
    return torch.where(distance == 0, 0.0, gain / distance)


def kept(merit: Tensor) -> Tensor:
    """w⁺ [receiver, sender]: merits above 0, adding up to 1; rows of zeros where there are none."""
    above = merit.nan_to_num(nan=0.0).clamp(min=0)
    total = above.sum(dim=1, keepdim=True)
    return above / torch.where(total > 0, total, 1.0)


def chosen(
    affinity: Tensor, others: Sequence[int], most: int, epsilon: float, draws: torch.Generator
) -> list[int]:
    """Some of the others, one by one: with chance ε any that is left, else the one of largest affinity."""
    left = [others[k] for k in torch.randperm(len(others), generator=draws).tolist()]  # lots for equals
    coins = torch.rand(len(others), generator=draws, dtype=torch.float64).tolist()
    picked = list[int]()
    for coin in coins[:most]:
        best = left[0] if coin < epsilon else max(left, key=lambda j: float(affinity[j]))
        left.remove(best)
        picked.append(best)
    return picked


def _tried_losses(
    net: Net, replies: Replies, before: Held, tried: Sequence[tuple[int, list[int]]], key: Key
) -> tuple[Tensor, Tensor]:
    """L_i(θ_i⁻) [receiver] and L_i(θ_n) [receiver, sender], NaN for what was not tried: one visit."""
    n, rows = len(net.roster), {host: row for row, host in enumerate(replies.hosts.tolist())}
    pairs = [(rows[j], i) for i, some in tried for j in some] + [(len(rows) + i, i) for i, _ in tried]
    scored = net.visit(
        Score("validation", ("loss",)),
        together([replies.beliefs.only(before.names), before]),
        edges_of(pairs),
        key.at("tried"),
    )
    found = torch.full((n, len(rows) + n), math.nan, dtype=torch.float64)
    if len(scored):
        found[scored.hosts, scored.guests] = scored.numbers["loss"].double()
    after = torch.full((n, n), math.nan, dtype=torch.float64)
    after[:, replies.hosts] = found[:, : len(rows)]
    return found[:, len(rows) :].diagonal(), after


def _tried_distances(
    net: Net, replies: Replies, before: Held, tried: Sequence[tuple[int, list[int]]]
) -> Tensor:
    """‖θ_n - θ_i⁻‖ [receiver, sender], each measured by i; NaN for who was not tried."""
    n, rows = len(net.roster), {host: row for row, host in enumerate(replies.hosts.tolist())}
    found = torch.full((n, n), math.nan, dtype=torch.float64)
    for i, some in tried:
        mine = seen_from(i, replies.only(torch.tensor([rows[j] for j in some])), before)
        found[i, some] = net.distances(mine, torch.tensor([0]), i).lengths
    return found
