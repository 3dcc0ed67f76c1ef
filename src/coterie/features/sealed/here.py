"""All parties of the protocol in this process: for simulations, and to hold the real ones against.

Each party is an object of its own that is handed what it would be sent, and nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from coterie.core import belief as tree
from coterie.core.errors import Refused
from coterie.core.held import COORDINATOR, Held, hold
from coterie.core.net import Distances
from coterie.features.sealed.parties import Dealer, Server, Terms, TooLong, masked, refuse_long
from coterie.features.sealed.plan import (
    Look,
    Sent,
    Sum,
    keys_of,
    layout_of,
    measured,
    received,
    vector,
    wanted_pairs,
)
from coterie.features.sealed.ring import SEED, room_for_distances


class Chamber:
    """Hosts, two servers and a dealer."""

    def __init__(self, names: Sequence[str], bound: float, bits: int, projections: int) -> None:
        self.names, self.bits, self.projections = list(names), bits, projections
        self.dealer = Dealer()
        self.a, self.b = (Server(side, bound, projections) for side in ("a", "b"))
        self.sealed = Sent()
        self.numbers = itertools.count()
        self.count, self.bytes = 0, 0

    def mix(self, plan: Sum, held: Held, place: int) -> Held:
        """Sums [receiver] at a place: what is far comes sealed, the rest lies there."""
        names, layout = self.seal(held, plan.far, plan.bases, plan.floats, plan.room), plan.layout(held)
        receiver = "coordinator" if place == COORDINATOR else self.names[place]
        told = (names, plan.whole, layout, receiver, secrets.token_bytes(SEED))
        first, second = self.a.mix(*told), self.b.mix(*told)
        self.bytes += first.nbytes + second.nbytes
        bases = [tree.row(b.held.tensors, b.row) for b in plan.bases.values() if b is not None]
        near, like = [tree.row(held.tensors, row) for row in plan.near], held.like
        taken = {n: held.tensors[n][plan.heaviest(n)].unbind() for n in like if n not in plan.floats}
        about = plan.receiver_dict(like, self.bits)
        made = received(about, plan.factors(), first + second, near, bases, taken)
        made = {n: t.to(held.tensors[n].device) for n, t in made.items()}
        return hold(made, torch.full((plan.receivers,), place))

    def distances(self, look: Look, held: Held, to: Sequence[int]) -> Distances:
        rows = list(look.bases)
        names = self.seal(held, rows, look.bases, look.floats, room_for_distances())
        pairs, wanted = wanted_pairs(names, to)
        products, blind = self.dealer.products(pairs, look.groups), secrets.token_bytes(SEED)
        first, second = (
            server.distances(pairs, wanted, look.groups, dealt, blind)
            for server, dealt in zip((self.a, self.b), products, strict=True)
        )
        self.bytes += first.nbytes + second.nbytes
        return measured(first + second, look.counts, to, len(rows), self.bits)

    def seal(
        self, held: Held, rows: Sequence[int], bases: Mapping[int, Any], floats: Sequence[str], room: float
    ) -> list[str]:
        """Hosts mask some rows and send them to both servers, once in a round; the names of their masks."""
        (part,) = held.parts
        words = sum(end - start for start, end in layout_of(held.like, floats).values())
        terms, keys = Terms(self.bits, room, words), keys_of(held, rows, bases, floats)
        names = {row: self.sealed.find(keys[row], room) for row in rows}
        called = {row: f"{next(self.numbers)}" for row, name in names.items() if name is None}
        seeds = self.dealer.deal(list(called.values()), words)
        self.a.take_seeds({name: pair[0] for name, pair in seeds.items()})
        self.b.take_seeds({name: pair[1] for name, pair in seeds.items()})
        vectors, long = dict[int, Any](), dict[str, str]()
        hosts = {row: self.names[int(part.places[row])] for row in called}
        for row, host in hosts.items():
            vectors[row] = vector(tree.row(part.tensors, row), floats)
            if (base := bases[row]) is not None:
                vectors[row] = vectors[row] - vector(tree.row(base.held.tensors, base.row), floats)
            try:
                refuse_long(vectors[row], terms, host)
            except TooLong as error:
                long |= error.why
        if long:
            raise TooLong(long)
        for row, name in called.items():
            sent = masked(vectors[row], seeds[name], terms)
            for server in (self.a, self.b):
                server.take(name, sent, terms, hosts[row], str(int(part.ids[row])))
            self.sealed.note(keys[row], name, room)
            self.bytes += 2 * sent.nbytes + 4 * SEED
            self.count += 1
        if self.projections and called:
            self._check({name: hosts[row] for row, name in called.items()})
        return [name or called[row] for row, name in names.items()]

    def _check(self, hosts: Mapping[str, str]) -> None:
        """Both draw a coin after all has come, and look at projections; of replies by name whose they are."""
        names = list(hosts)
        coin = hashlib.sha256(secrets.token_bytes(SEED) + secrets.token_bytes(SEED)).digest()
        mine, theirs = self.a.project(names, coin), self.b.project(names, coin)
        self.bytes += mine.nbytes + theirs.nbytes
        if found := {*self.a.judge(names, mine, theirs), *self.b.judge(names, theirs, mine)}:
            who = ", ".join(sorted({hosts[name] for name in found}))
            raise Refused(
                f"the sealed reply of {who} is none that an honest site can have sent: leave it out"
            )

    def forget(self) -> None:
        """A round is over."""
        self.sealed.clear()
        for party in (self.dealer, self.a, self.b):
            party.forget()

    def read(self) -> dict[str, Any]:
        """Replies that were sealed, bytes that passed for it, and the largest leverage, since last asked."""
        found = {"replies": self.count, "bytes": self.bytes, "leverage": self.a.guard.read()}
        self.count = self.bytes = 0
        return found
