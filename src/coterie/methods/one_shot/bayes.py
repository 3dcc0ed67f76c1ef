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

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Replies, Reveals, Roster
from coterie.core.method import METHODS, first_of, handed_out
from coterie.core.net import settle
from coterie.core.options import chosen
from coterie.core.partners import NOBODY
from coterie.kernels.around import innermost
from coterie.kernels.bayes import Collector
from coterie.kernels.posterior import Draws, Natural, Visited, make_of
from coterie.kernels.swag import SWAG
from coterie.methods.baselines.local import by_oneself
from coterie.methods.one_shot.alone import Alone, collector, of_rank, rank_of, states
from coterie.methods.one_shot.fl_swag import at_home, crowds
from coterie.posteriors.precision import Form

By = Literal["client", "all"]


@dataclass(frozen=True, eq=False)
class State:
    """A belief for each posterior [posterior, ...]: at home, or of all data at the coordinator.

    drawn      at the end, the mean and draws of each of the posteriors numbered `whose`
    clients    how many there are
    """

    own: Held
    clients: int
    drawn: Held | None = None
    whose: Tensor | None = None


@METHODS.register("bayes-local")
@dataclass(frozen=True)
class BayesLocal(Alone):
    """Each client alone with a posterior of its own: what a calibrated collaboration has to beat."""

    chooses: ClassVar[Partners] = Partners(shares="model")

    form: Form = "low-rank"
    """Covariance of swag's Gaussian: diagonal, low-rank (a diagonal and the last deviations) or full."""
    floor: float = 1e-6
    """Smallest variance of a weight in swag's Gaussian; those below are raised to it. 0 refuses them."""
    temperature: float = 1.0
    """Factor of the covariance of swag's Gaussian; samplers have a temperature of their own."""
    by: By = chosen("client", By)
    """A posterior for each client, or one of all data in one place."""

    @property
    def work(self) -> Collector:
        """A sampler keeps as many states as are to be averaged."""
        made = collector(self.local)
        if isinstance(innermost(made), SWAG):
            return super().work
        return of_rank(made, max(2, self.samples))

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        clients = [(m.name, m.train) for m in roster.members]
        if self.by == "all":
            clients = [("all", sum(rows for _, rows in clients))]
        self.check_states(clients, key)
        self.check_room(start, len(clients))
        work, rounds = self.work, key.rounds - self.plain(key.rounds)
        if isinstance(innermost(work), SWAG):
            return []
        least = min(states(work, rows, rounds, key)[1] for _, rows in clients)
        if least >= self.samples:
            return []
        return [f"as few as {least} states for samples={self.samples}: some count more than once"]

    def init(self, start: Held, net: Net) -> State:
        own = first_of(start) if self.by == "all" else handed_out(start, net)
        return State(own, len(net.roster))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, shares = len(net.roster), net.roster.sizes / net.roster.sizes.sum()
        if self.by == "all":
            net = net.in_one_place([list(range(n))])
        replies = self.train(net, state.own, key)
        own = settle(net, state.own, replies)
        info = by_oneself(len(own), replies)
        if self.by == "all":
            info = Info(shares.double().expand(n, n), info.loss.expand(n))
        if key.round < key.rounds or len(replies) == 0:
            return State(own, n), info
        drawn = self.drawn(net, own, replies, key)
        if drawn is None or len(drawn) == 0:
            return State(own, n), info
        models = self.renewed(net, drawn.beliefs, drawn.hosts, key.at("refresh"))
        return State(own, n, models, torch.unique(drawn.hosts)), info

    def drawn(self, net: Net, own: Held, replies: Replies, key: Key) -> Replies | None:
        """Mean and draws of each that collected enough; the others stay with the model they have."""
        if not isinstance(innermost(self.work), SWAG):
            return net.visit(
                Visited(), replies.beliefs, at_home(replies.hosts, 1 + self.samples), key.at("draw")
            )
        kernel = Natural(self.form, self.floor, rank_of(self.work))
        natural = net.visit(kernel, replies.beliefs, at_home(replies.hosts), key.at("natural"))
        fit = self.fit(natural)
        if len(fit) == 0:
            return None
        mine, hosts = natural.beliefs.rows(fit), natural.hosts[fit]
        edges = at_home(hosts, 1 + self.samples)
        draw = Draws(make_of(own.like), temperature=self.temperature)
        return net.visit(draw, mine, edges, key.at("draw"))

    def models(self, state: State) -> Models:
        n, whose = state.clients, state.whose
        found = Models(state.own, torch.arange(len(state.own)))
        if state.drawn is not None and whose is not None:
            found = crowds(state.own, state.drawn, whose, self.samples)
        if self.by == "client":
            return found
        crowd = None if found.crowd is None else found.crowd.expand(n, -1)
        one = found.beliefs.rows(found.of)
        return Models(found.beliefs, found.of.expand(n), shared=one, crowd=crowd)

    def reveals(self) -> Reveals:
        if self.by == "all":
            return Reveals(numbers=(), rows=True)
        return super().reveals()


@METHODS.register("bayes-central")
@dataclass(frozen=True)
class BayesCentral(BayesLocal):
    """One posterior of all data in one place: a yardstick, not an option for those who cannot share."""

    chooses: ClassVar[Partners] = NOBODY

    by: By = "all"
    """A posterior for each client, or one of all data in one place."""
