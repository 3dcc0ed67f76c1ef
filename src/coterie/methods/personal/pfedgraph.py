"""pFedGraph: who learns from whom is a graph, found anew in each round from how alike models have become.

Ye, Ni, Wu, Chen and Wang, 2023, "Personalized federated learning with inferred collaboration graphs", ICML
(PMLR 202), proceedings.mlr.press/v202/ye23b.html.

    s_ij = cos(θ_i - θ⁰, θ_j - θ⁰)                                     similarity, 1 where above 0.9
    G_i  = argmin_{g ≥ 0, Σ g = 1}  α ‖g - p‖² - Σ_j s_ij g_j           graph,  p_j = n_j / Σ n
    θ̄_i = Σ_j G_ij θ_j
    θ_i ← LocalWork on F_i(θ) - λ cos(θ, θ̄_i), from θ̄_i               Leaning(local, strength)

α is `alpha`, λ is `strength`, θ⁰ is `first`, what each client began with; θ̄ is `beliefs`, what a client has
after a round. G is Info's `weights`, s its matrix `similarity`, ‖θ_i - θ_j‖ its matrix `distance`. The first
round is local work without the pull, as there is no θ̄ yet.

The quadratic program needs no solver. α ‖g - p‖² - ⟨s, g⟩ = α ‖g - (p + s / 2α)‖² + a constant, so that G_i
is the point of the simplex nearest to p + s / 2α, and that is max(0, p + s / 2α - τ) with the τ for which it
adds up to 1 (`onto_simplex`). A small α makes few friends, a large one makes everybody listen to all by size.

Deviations. The paper's server holds all models; here client i gets those of the others, measures and mixes
them, and the coordinator sees distances. Whoever is away is in nobody's sum, and p is over those who are
there. The authors' program (MediaBrain-SJTU/pFedGraph, pytorch/pfedgraph_cosine) adds + λ ⟨θ / ‖θ‖, Σ_j G_ij
θ_j / ‖θ_j‖⟩ to the loss, which pushes away where it has that sign; here the sign is that of a pull, and it is
towards the direction of θ̄_i. It solves the program by cvxpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, check_others, handed_out, losses_of
from coterie.core.net import to_own
from coterie.core.options import bounded, check_options
from coterie.kernels.around import numbers_of
from coterie.kernels.leaning import Leaning
from coterie.kernels.sgd import SGD
from coterie.methods.personal.measured import cosines, laid_out, measure
from coterie.methods.server.fedavg import averaging_weights

ALIKE = 0.9  # as in the authors' program: from here on two models count as the same


@dataclass(frozen=True, eq=False)
class State:
    """Each client's own belief [client, ...], and what it began with [client, ...], both at home."""

    beliefs: Held
    first: Held


@METHODS.register("pfedgraph")
@dataclass(frozen=True)
class PFedGraph:
    """Everybody's own mean of all models, by a graph of how alike these have become."""

    chooses: ClassVar[Partners] = Partners(
        by={"similarity": "high"},
        shares="model",
        words={
            "en": "Those count more whose training has gone the same way as yours.",
            "fr": "Comptent davantage ceux dont l'entraînement est allé dans la même direction que le vôtre.",
            "de": "Mehr zählen die, deren Training in dieselbe Richtung gegangen ist wie Ihres.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    alpha: float = bounded(0.8, "be above 0 and finite", "try 0.8")
    """How much sizes count against likeness: near 0 few friends, large everybody by size."""
    strength: float = bounded(0.01, "be at least 0 and finite", "try 0.01")
    """How strongly local work is pulled towards the direction of a client's mean, the paper's lambda."""

    solved_by: ClassVar[str] = ""
    small_steps: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        check_options(self)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_others(roster, "pfedgraph")
        return ()

    def init(self, start: Held, net: Net) -> State:
        own = handed_out(start, net)
        return State(own, own)

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n = len(net.roster)
        work = self.local if key.round == 1 else Leaning(self.local, self.strength)
        replies = net.visit(work, state.beliefs, to_own(n), key)
        here, loss = replies.hosts, losses_of(replies, n)
        if len(here) == 0:
            return state, Info(torch.zeros(n, n, dtype=torch.float64), loss)
        measured = measure(net, replies, state.first)
        alike = similarity(cosines(measured))
        weights = graph(alike, averaging_weights(net.roster.sizes[here], weighted=True), self.alpha)
        mixed = net.mix(weights, replies.beliefs, here)
        matrices = {"similarity": laid_out(alike, here, n), "distance": laid_out(measured.apart, here, n)}
        info = Info(laid_out(weights, here, n, empty=0.0), loss, matrices=matrices)
        return State(state.beliefs.put(here, mixed), state.first), info

    def models(self, state: State) -> Models:
        return Models(state.beliefs, of=torch.arange(len(state.beliefs)))

    def reveals(self) -> Reveals:
        return Reveals(sites=True, numbers=(*numbers_of(self.local), "distances"))


def similarity(cosine: Tensor) -> Tensor:
    """s: cosines, those above 0.9 as 1."""
    return torch.where(cosine > ALIKE, 1.0, cosine)


def graph(alike: Tensor, shares: Tensor, alpha: float) -> Tensor:
    """G [receiver, sender] of similarities s and shares p [sender]."""
    return onto_simplex(shares + alike / (2 * alpha))


def onto_simplex(points: Tensor) -> Tensor:
    """The nearest points [row, ...] with coordinates of at least 0 that add up to 1.

    Sorted downwards, the k largest are above τ_k = (their sum - 1) / k for k up to some K; τ is τ_K.
    """
    falling = points.sort(dim=1, descending=True).values
    k = torch.arange(1, points.shape[1] + 1, dtype=points.dtype)
    thresholds = (falling.cumsum(dim=1) - 1) / k
    last = (falling > thresholds).sum(dim=1, keepdim=True) - 1
    near = (points - thresholds.gather(1, last)).clamp(min=0)
    return near / near.sum(dim=1, keepdim=True)
