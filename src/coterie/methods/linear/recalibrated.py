"""The cheapest personal model: a common one, or a partner's, put right at each site by level and slope.

    c       `pooled` where linear models are solved, else `fedavg`; with a `partner`, what it trains alone
    w_k     the same with outputs a_k + b_k η, found on site k's own rows        `kernels/recalibrate.py`

Two numbers ask for few rows. What a site finds stays at home.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass, replace
from typing import Any, ClassVar, get_type_hints

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import UnknownName
from coterie.core.facts import kernel_fact
from coterie.core.method import METHODS, handed_out
from coterie.core.partners import NOBODY
from coterie.kernels.newton import Newton
from coterie.kernels.recalibrate import Recalibrate
from coterie.kernels.ridge import Ridge
from coterie.methods.baselines.local import Local
from coterie.methods.linear.pooled import Pooled
from coterie.methods.server.fedavg import FedAvg


@METHODS.register("recalibrated")
@dataclass(frozen=True)
class Recalibrated:
    """A common model, or a partner's, put right at each client by level and slope."""

    chooses: ClassVar[Partners] = NOBODY
    scales_targets: ClassVar[bool] = False  # what is solved here is the same in any unit

    local: Trainer = Newton()
    """The work of a client in a round, where the common model is trained and not solved."""
    partner: str = ""
    """The client whose own model is put right by all, by name; by default one of all."""
    trust: float = 4.0
    """How strongly slopes are drawn towards 1."""

    def __post_init__(self) -> None:
        Recalibrate(self.trust)

    @property
    def way(self) -> Any:
        """What makes the model that is put right."""
        solved = kernel_fact(self.local, "solves")
        if self.partner:
            return Local(Ridge() if solved else self.local, self.partner)
        return Pooled() if solved else FedAvg(self.local)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if self.partner and self.partner not in roster.names:  # nor "all", which is nobody's model
            raise UnknownName("partner", self.partner, roster.names)
        said: Sequence[str] = self.way.check(roster, start, key)
        return said

    def state_type(self) -> type:
        """What the way that makes the common model carries on, and each client's own model, at home."""
        return _state_type(get_type_hints(type(self.way).init)["return"])

    def init(self, start: Held, net: Net) -> Any:
        return self.state_type()(self.way.init(start, net), handed_out(start, net))

    def round(self, state: Any, net: Net, key: Key) -> tuple[Any, Info]:
        common, info = self.way.round(state.common, net, key)
        models = self.way.models(common)
        n = len(net.roster)
        whose = net.roster.names.index(self.partner) if self.partner else 0
        row = int(models.of[whose])
        hosts = torch.arange(n)
        there = net.deliver(models.beliefs, torch.full((n,), row), hosts)
        edges = torch.stack([hosts, hosts], 1)
        replies = net.visit(Recalibrate(self.trust), there, edges, key.at("recalibrate"))
        own = state.own.put(replies.hosts, replies.beliefs) if len(replies) else state.own
        weights = info.weights
        if self.partner:
            weights = torch.zeros(n, n, dtype=torch.float64)
            weights[:, whose] = 1
        return replace(state, common=common, own=own), Info(weights, info.loss, info.extras)

    def models(self, state: Any) -> Models:
        return Models(state.own, torch.arange(len(state.own)))

    def reveals(self) -> Reveals:
        found: Reveals = self.way.reveals()
        if not self.partner:
            return found
        return Reveals(sites=True, numbers=found.numbers)


@functools.cache
def _state_type(kind: type) -> type:
    """A frozen dataclass with a state of that kind, so that a checkpoint knows what it reads."""
    return make_dataclass("State", [("common", kind), ("own", Held)], frozen=True, eq=False)
