"""Partial pooling: each site's coefficients around a common mean, and how far apart is learnt.

    w_k ~ N(c, τ²),  c ~ N(0, σ²)                 intercepts likewise, with τ₀ and a free mean
    (σ, τ, τ₀, c) ← what makes all rows most likely, from sums over sites       `linear/evidence.py`
    w_k = argmin L_k(w) + ½ (w - c)' T^{-1} (w - c)                             at site k

The hierarchical model of statistics (Lindley and Smith, 1972, "Bayes estimates for the linear model"; Gelman
and Hill, 2007, "Data Analysis Using Regression and Multilevel/Hierarchical Models", chapter 12), its
strengths learnt by empirical Bayes. τ = 0 makes it `pooled` with intercepts of the sites' own, a large τ
training alone with one strength for all: it is personal by nature, and never far from the better of the two.

A site may have nothing in common with the others, which one τ for all cannot say. So each asks its own rows:
held out, do they lose more near the mean of the others, in which they have no part, than by a model of its
own (`ridge`)? If so by more than two standard errors, the site keeps that one. For this it gets the sums over
all sites; where there are two, that is what the other told.

What leaves a site are sums over its rows, for each way of a grid in which sites may differ; the coordinator
needs their sums over sites alone, and makes them through `mix`, sealed if the run is. How much of a site's
model comes from its own rows (`share`) is told, for the weights that are shown: who learns from whom, and how
much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.method import METHODS, handed_out, scatter
from coterie.core.partners import WEIGHTS
from coterie.kernels.curvature import ALL, SCALE, Near
from coterie.kernels.newton import Newton
from coterie.methods.linear.pooled import of_all
from coterie.methods.linear.sums import Common, check_linear, first_common, one_more_step


@dataclass(frozen=True, eq=False)
class State:
    """The common model, and each client's own [client, ...], at home."""

    common: Common
    own: Held


@METHODS.register("partial")
@dataclass(frozen=True)
class Partial:
    """Each client's linear model around a common one, as far from it as all rows together make likely."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "All learn from all: the others count the more, the fewer rows a site has and the "
            "more alike the sites are.",
            "fr": "Tous apprennent de tous : les autres comptent d'autant plus qu'un site a moins de "
            "lignes et que les sites se ressemblent.",
            "de": "Alle lernen von allen: Die anderen zählen umso mehr, je weniger Zeilen ein Standort "
            "hat und je ähnlicher die Standorte sind.",
        },
    )

    only_work: ClassVar[str] = "newton"
    works: ClassVar[bool] = False

    @property
    def local(self) -> Trainer:
        """Newton's steps, of sums that sites tell: nobody chooses them."""
        return Newton()

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        check_linear("partial", roster, start)
        return ()

    def init(self, start: Held, net: Net) -> State:
        common = first_common(start, net)
        return State(common, handed_out(common.beliefs, net))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        if state.common.settled:
            return state, _who_learns(state.common, net)
        common = one_more_step(state.common, net, key, apart=True)
        if common.scale is None or common.whole is None or not bool(common.there.any()):
            return State(common, state.own), _who_learns(common, net)
        tau, level, _, noise = common.learnt.tolist()
        hosts = common.there.nonzero().flatten()
        near = net.deliver(common.beliefs, torch.zeros(len(hosts), dtype=torch.int64), hosts)
        edges = torch.stack([torch.arange(len(hosts)), hosts], 1)
        beside = {SCALE: common.scale, ALL: common.whole}
        replies = net.visit(Near(tau, level, noise), near, edges, key.at("near"), beside=beside)
        own = state.own
        if len(replies):
            own = own.put(replies.hosts, replies.beliefs.only(own.names))
            alone = scatter(replies.numbers["alone"], replies.hosts, len(net.roster), empty=0)
            common = replace(common, shares=torch.maximum(common.shares, alone))
        return State(common, own), _who_learns(common, net)

    def models(self, state: State) -> Models:
        return Models(state.own, torch.arange(len(state.own)), state.common.beliefs)

    def reveals(self) -> Reveals:
        return Reveals(coordinator=True, numbers=("loss", "samples", "share", "alone"))


def _who_learns(state: Common, net: Net) -> Info:
    """A client has its share from its own rows, and the rest from the common mean."""
    info = of_all(state, net)
    own = torch.where(state.there, state.shares, 0.0)
    mixed = (1 - own).unsqueeze(1) * info.weights + torch.diag(own)
    return replace(info, weights=torch.where(state.there.unsqueeze(1), mixed, 0.0))
