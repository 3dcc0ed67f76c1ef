"""A model for a requester, from replies of which some may be lies: its belief visits all, and a robust rule
takes the place of the mean, with its own reply as the one that it trusts.

    x_i ← LocalWork(x)     for each client i, x is the requester's
    x   ← (1 - s) x + s Rule(x_1, ..., x_n; x, own reply)

s is `server_step`. The rules and their papers are in `coterie/rules`, `coterie methods robust` lists them.
Each requester has its own belief at home; replies go from client to requester, which measures and mixes them:
the coordinator sees distances and weights, no model. So rules that go by distances run sealed. median,
trimmed-mean, meamed and bulyan look at each reply: the coordinator opens them, and what it makes of them
goes home.

Deviations. A requester that does not answer keeps its belief. When fewer answer than the rule's bound needs,
f is lowered for that round to the largest that holds; if not even f = 0 does, the requester takes its own
reply: it has trained alone. Info's extras say so under `rule`: f, and how often each sender's reply had no
weight. Weights in Info as `robust.py` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Replies, Reveals, Roster, Trainer
from coterie.core.held import together
from coterie.core.method import METHODS, asking, losses_of, scatter
from coterie.core.options import bounded, check_options
from coterie.core.partners import WEIGHTS, Partners
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.ruled import Sum, rule_figures, stepped, summed
from coterie.methods.server import requesters
from coterie.rules import Chain, chained, liars_of
from coterie.rules.chain import Liars, check_liars, unguarded
from coterie.rules.identities import alone


@dataclass(frozen=True, eq=False)
class State:
    """Each requester's belief [requester, ...], at home, and how many clients there are."""

    beliefs: Held
    clients: int


class _Turn(NamedTuple):
    """One requester's round: its belief [1, ...], shares and losses by client [client], and the sum."""

    belief: Held
    shares: Tensor
    loss: Tensor
    found: tuple[Sum, Tensor] | None = None


@METHODS.register("robust-personal")
@dataclass(frozen=True)
class RobustPersonal:
    """A model for each requester: a rule that trusts its own reply makes it of all replies."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "An average around your own model that bears some wrong partners.",
            "fr": "Une moyenne autour de votre propre modèle, qui supporte quelques partenaires défaillants.",
            "de": "Ein Durchschnitt um Ihr eigenes Modell, der einige fehlerhafte Partner verträgt.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    requester: str = "all"
    """The client that asks for a model, by name; all: each for itself, at as many times the work."""
    rule: str = "monna"
    """How replies become one model, with options: monna, fltrust, nnm+krum, ..."""
    f: Liars = "auto"
    """How many clients may lie; auto: the largest number with n > 3f that the rule allows."""
    server_step: float = bounded(1.0, "lie above 0 and up to 1", "try 1")
    """How far to go from the old model to the new one, above 0 and up to 1."""

    def __post_init__(self) -> None:
        check_options(self)
        check_liars(self.f)
        chained(self.rule)
        requesters.check_keeps(self.local, self.requester)

    @property
    def chain(self) -> Chain:
        return chained(self.rule)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        asking(self.requester, roster.names)
        return unguarded(self.chain, self.f, liars_of(self.chain, self.f, len(roster)), len(roster))

    def init(self, start: Held, net: Net) -> State:
        return State(requesters.first_at_home(self.requester, start, net), len(net.roster))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        names, n = net.roster.names, len(net.roster)
        who = asking(self.requester, names).tolist()
        beliefs, turns = requesters.guests_of(self.requester, state.beliefs, n), list[_Turn]()
        for some in requesters.by_room(who, state.beliefs, n):
            turns += self.turns(some, beliefs, net, key)
        heard = {names[r]: t.found for r, t in zip(who, turns, strict=True) if t.found is not None}
        return State(together([t.belief for t in turns]), n), Info(
            weights=requesters.rows_of(who, [t.shares for t in turns], empty=0.0),
            loss=requesters.own_losses(self.requester, [t.loss for t in turns]),
            extras={"rule": rule_figures(names, heard)},
        )

    def turns(self, some: Sequence[int], beliefs: Held, net: Net, key: Key) -> list[_Turn]:
        """The rounds of some requesters, whose beliefs go to all clients at once."""
        edges = torch.cartesian_prod(torch.tensor(some), torch.arange(len(net.roster)))
        own = requesters.by_requester(net.visit(self.local, beliefs, edges, key), some)
        return [self.turn(r, beliefs.rows(torch.tensor([r])), own[r], net) for r in some]

    def turn(self, r: int, old: Held, replies: Replies, net: Net) -> _Turn:
        """What one requester, client number r, makes of its replies."""
        n, me = len(net.roster), (replies.hosts == r).nonzero().flatten().tolist()
        nothing = torch.full((n,), math.nan, dtype=torch.float64)
        loss = losses_of(replies, n) if len(replies) else nothing
        if not me:
            return _Turn(old, torch.zeros(n, dtype=torch.float64), loss)
        f = liars_of(self.chain, self.f, n)
        found = summed(net, self.chain, f, replies, old, r, me[0], self.server_step)
        if found.belief is None:
            w = alone(len(replies) + 1, me[0])
            found = Sum(stepped(net, w, replies.beliefs, old, r, self.server_step), w[:-1])
        assert found.belief is not None
        shares = scatter(found.shares, replies.hosts, n, empty=0)
        return _Turn(found.belief, shares, loss, (found, replies.hosts))

    def models(self, state: State) -> Models:
        return requesters.models_for(self.requester, state.beliefs, state.clients)

    def reveals(self) -> Reveals:
        opens = self.chain.last.needs.opens
        measured = () if self.chain.reads == "nothing" else ("distances",)
        return Reveals(
            coordinator=opens, opened=opens, sites=True, numbers=(*numbers_of(self.local), *measured)
        )
