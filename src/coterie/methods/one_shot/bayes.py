"""A posterior without an exchange: each client's own, or that of all data in one place.

    θ_1, θ_2, ... ← the work on D_k (or on ∪_k D_k), collected on the way
    p(y|x) ≈ 1/S Σ_s p(y|x, θ_s)

For a sampler (sgld, psgld, hmc) the θ_s are the last S states that it collected; for swag they are drawn
from the Gaussian that it fits, N(θ̄, T Σ), as in `fl_swag.py`. S is `samples`. Until the last round the models
are the states that training has reached. With all data in one place (Makni, 2022, section 8.1: SGLD and pSGLD
"are not subject to the constraints") this is a yardstick and no option for those who cannot share.

States that a sampler visited have seen forward passes, their averages have not: batch norm's statistics of a
draw are renewed by a pass over the data it was trained on, as in `fl_swag.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import UnknownName
from coterie.core.method import METHODS, Facts, Info, Models
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.kernels.bayes import Collector
from coterie.kernels.posterior import collected
from coterie.kernels.swag import SWAG
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import Alone, collector, states
from coterie.posteriors import sample
from coterie.posteriors.precision import Form

By = Literal["client", "all"]


@dataclass(frozen=True, eq=False)
class State:
    """A belief and memory for each posterior [posterior, ...].

    drawn      at the end, the mean and draws of each: [posterior · (1 + S), ...]
    """

    own: Beliefs
    memory: Beliefs | None = None
    drawn: Beliefs | None = None


@METHODS.register("bayes-local")
@dataclass(frozen=True)
class BayesLocal(Alone):
    """Each client alone with a posterior of its own: what a calibrated collaboration has to beat."""

    form: Form = "low-rank"
    """Covariance of swag's Gaussian: diagonal, low-rank (a diagonal and the last deviations) or full."""
    floor: float = 1e-6
    """Smallest variance of a weight in swag's Gaussian; those below are raised to it. 0 refuses them."""
    temperature: float = 1.0
    """Factor of the covariance of swag's Gaussian; samplers have a temperature of their own."""
    by: By = "client"
    """A posterior for each client, or one of all data in one place."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in get_args(By):
            raise UnknownName("by", str(self.by), get_args(By))

    @property
    def work(self) -> Collector:
        """A sampler keeps as many states as are to be averaged."""
        made = collector(self.local)
        if isinstance(made, SWAG):
            return super().work
        return replace(made, rank=max(2, self.samples))  # type: ignore[type-var]

    def look(self, clients: Sequence[Facts], key: Key) -> Sequence[str]:
        if self.by == "all":
            clients = [clients[0]._replace(name="all", train=sum(c.train for c in clients))]
        notes, work = [*super().look(clients, key)], self.work
        if not isinstance(work, SWAG):
            rounds = key.rounds - self.plain(key.rounds)
            least = min(states(work, c.train, rounds, key)[1] for c in clients)
            if least < self.samples:
                notes.append(
                    f"as few as {least} states for samples={self.samples}: some count more than once"
                )
        return notes

    def init(self, beliefs: Beliefs, clients: int) -> State:
        self.check_room(beliefs, 1 if self.by == "all" else clients)
        if self.by == "all":
            return State(tree.rows(beliefs, torch.tensor([0])))
        return State(tree.repeat(beliefs, clients))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, shares = len(net.names), net.sizes / net.sizes.sum()
        if self.by == "all":
            net = net.pool([list(range(n))])
        replies = self.train(net, state.own, state.memory, key)
        own = net.settle(state.own, replies)
        info = by_oneself(len(net.names), replies)
        if self.by == "all":
            nothing = torch.zeros(n, dtype=torch.int64)
            info = Info(shares.double().expand(n, n), nothing, nothing, info.loss.expand(n))
        if key.round < key.rounds:
            return State(own, replies.memory), info
        # who did not answer in the last round, or collected too little, stays with the model it has
        drawn = tree.rows(own, torch.arange(tree.count(own)).repeat_interleave(1 + self.samples))
        found = net.open(replies) if len(replies) else {}
        for i, host in enumerate(replies.hosts.tolist()):
            if not self.enough(int(found["count"][i]), int(found["columns"][i])):
                continue
            places = host * (1 + self.samples) + torch.arange(1, 1 + self.samples)
            draws = self.drawn(tree.row(found, i), net.names[host], key.at("draw", host))
            drawn = {**drawn, **tree.put({name: drawn[name] for name in draws}, places, draws)}
        return State(own, None, self.renewed(net, drawn, key.at("refresh"))), info

    def drawn(self, reply: Belief, name: str, key: Key) -> Beliefs:
        """θ_s of one posterior, of its trained parameters alone: [S, ...]."""
        if not self.samples:
            return {}
        visited = collected(reply).draws
        if visited:
            return tree.rows(visited, spread_over(tree.count(visited), self.samples))
        return sample(self.gaussian(reply, name) * (1 / self.temperature), self.samples, key)

    def models(self, state: State, clients: int) -> Models:
        groups = torch.arange(clients) if self.by == "client" else torch.zeros(clients, dtype=torch.int64)
        shared = 0 if self.by == "all" else None
        if state.drawn is None:
            return Models(state.own, groups, shared)
        of = groups * (1 + self.samples)
        crowd = of.unsqueeze(1) + torch.arange(1, 1 + self.samples) if self.samples else None
        return Models(state.drawn, of, shared, crowd)


@METHODS.register("bayes-central")
@dataclass(frozen=True)
class BayesCentral(BayesLocal):
    """One posterior of all data in one place: a yardstick, not an option for those who cannot share."""

    by: By = "all"
    """A posterior for each client, or one of all data in one place."""


def spread_over(values: int, wanted: int) -> Tensor:
    """So many of the numbers below `values`, evenly spaced, the last among them: [wanted]."""
    return ((torch.arange(1, wanted + 1) * values) / wanted).ceil().long() - 1
