"""One model for all, from replies of which some may be lies: the server's belief visits all, and a robust
rule takes the place of the mean.

    x_i ← LocalWork(x)     for each client i of the round's sample
    x   ← Rule(x_1, ..., x_n; x)

The rules and their papers are in `coterie/rules`, `coterie methods robust` lists them. Those that go by
distances need the net's `distances` and one `mix`, so that they run sealed; median, trimmed-mean, meamed and
bulyan look at each reply (`open`). At most `f` of the replies may be lies. monna and fltrust trust one
reply, that of the client `root`; it takes part in every round.

Deviations. When fewer answer than the rule's bound needs, f is lowered for that round to the largest that
holds; if not even f = 0 does, or the root is away, x stays. Info's extras say so under `rule`: f, and whose
reply had no weight. Info's weights are the senders' part of the sum, adding up to 1; the share of what went
out, if a rule has one, is in the extras as `stayed`. Rules that open have no weights but one for every number
of the model: shown are equal ones of the replies that they use. Batch norm's statistics have the rule's
weights and do not count in distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from coterie.core.contract import Beliefs, Held, Info, Key, Models, Net, Partners, Reveals, Roster, Trainer
from coterie.core.errors import BadInput, UnknownName
from coterie.core.held import COORDINATOR
from coterie.core.method import METHODS, first_of
from coterie.core.net import from_server
from coterie.core.options import bounded, check_options
from coterie.core.partners import WEIGHTS
from coterie.kernels.around import numbers_of
from coterie.kernels.sgd import SGD
from coterie.methods.ruled import Sum, rule_figures, summed
from coterie.methods.server.fedavg import sample_clients, server_info
from coterie.methods.server.norms import models_of
from coterie.rules import Chain, chained, liars_of
from coterie.rules.chain import Liars, check_liars, unguarded


@dataclass(frozen=True, eq=False)
class State:
    """The server's belief [1, ...], and how many clients there are."""

    beliefs: Held
    clients: int


@METHODS.register("robust")
@dataclass(frozen=True)
class Robust:
    """One model for all: a rule that holds against some liars makes it of the replies."""

    chooses: ClassVar[Partners] = Partners(
        by={WEIGHTS: "high"},
        words={
            "en": "One common model, by a rule that bears some wrong partners.",
            "fr": "Un modèle commun, selon une règle qui supporte quelques partenaires défaillants.",
            "de": "Ein gemeinsames Modell nach einer Regel, die einige fehlerhafte Partner verträgt.",
        },
    )

    local: Trainer = SGD()
    """The work of a client in a round."""
    rule: str = "nnm+krum"
    """How replies become one model, with options: krum, nnm+krum, centred-clipping:radius=0.5, ..."""
    f: Liars = "auto"
    """How many clients may lie; auto: the largest number with n > 3f that the rule allows."""
    root: str = ""
    """The client whose reply is trusted, by name, for monna and fltrust."""
    sample: float = bounded(1.0, "lie above 0 and up to 1", "try 0.1")
    """Share of the clients that take part in a round, drawn anew each time; at least one does."""

    def __post_init__(self) -> None:
        check_options(self)
        check_liars(self.f)
        rooted = self.chain.last.needs.root
        if rooted and not self.root:
            raise BadInput(
                f"{self.rule} needs a reply to trust, and a server has none of its own: "
                "name a client with root, or use robust-personal"
            )
        if self.root and not rooted:
            raise BadInput(
                f"root={self.root!r} is for monna and fltrust, and the rule is {self.rule}: leave it out"
            )

    @property
    def chain(self) -> Chain:
        return chained(self.rule)

    def check(self, roster: Roster, start: Beliefs, key: Key) -> Sequence[str]:
        if self.root and self.root not in roster.names:
            raise UnknownName("root", self.root, roster.names)
        return unguarded(self.chain, self.f, self.liars(len(roster)), len(roster))

    def liars(self, clients: int) -> int:
        """f, for as many replies as a round has if all asked answer."""
        return liars_of(self.chain, self.f, max(1, round(self.sample * clients)))

    def init(self, start: Held, net: Net) -> State:
        return State(first_of(start), len(net.roster))

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        n, names = len(net.roster), net.roster.names
        hosts = sample_clients(n, self.sample, key.at("sample"))
        if self.root:
            hosts = torch.unique(torch.cat([hosts, torch.tensor([names.index(self.root)])]))
        replies = net.visit(self.local, state.beliefs, from_server(hosts), key)
        root = (replies.hosts == names.index(self.root)).nonzero().flatten().tolist() if self.root else [None]
        if root:
            found = summed(net, self.chain, self.liars(n), replies, state.beliefs, COORDINATOR, root[0])
        else:
            found = Sum(None, torch.zeros(len(replies), dtype=torch.float64))
        info = server_info(n, replies, found.shares)
        extras = {"rule": rule_figures(names, {"server": (found, replies.hosts)})}
        return State(found.belief or state.beliefs, n), replace(info, extras=extras)

    def models(self, state: State) -> Models:
        return models_of(state.beliefs, None, state.clients)

    def reveals(self) -> Reveals:
        measured = () if self.chain.reads == "nothing" else ("distances",)
        return Reveals(
            coordinator=True, opened=self.chain.last.needs.opens, numbers=(*numbers_of(self.local), *measured)
        )
