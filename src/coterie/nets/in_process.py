"""All sites in one process: rows in memory, beliefs stacked, handles that cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs, Weights
from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, naming_flags_of
from coterie.core.facts import kernel_fact
from coterie.core.held import COORDINATOR, Held, hold
from coterie.core.kernel import Kernel, Look, Maker, Part, Scorer, Trainer, looks, makes, scores
from coterie.core.learner import Learner
from coterie.core.net import Beside, Distances, Net, Replies
from coterie.core.observer import Observer
from coterie.core.roster import Roster, roster_of
from coterie.core.seeds import Key
from coterie.engines.bank import Bank, adjoined
from coterie.engines.base import Engine, Visit
from coterie.engines.loop import solve
from coterie.engines.memory import keep_freed_memory
from coterie.engines.scoring import look_at, score, score_crowds
from coterie.engines.traits import Traits, traits_of
from coterie.kernels.solving import solves
from coterie.nets.slots import Slots, groups_of, told_groups
from coterie.nets.sound import diverged, misshapen, not_finite
from coterie.storage.checkpoint import by_name, named
from coterie.storage.tensors import write_tensors

CPU = torch.device("cpu")
PARTS: tuple[Part, ...] = ("train", "validation", "test")
Pair = tuple[int, int]
LEFT_OUT = "left_out"


class _Found(NamedTuple):
    """What a visit brought: the edges that answered, and [edge] their numbers, beliefs and memories."""

    edges: Tensor
    numbers: Mapping[str, Tensor]
    beliefs: Beliefs = MappingProxyType({})
    memory: Beliefs = MappingProxyType({})

    def only(self, index: Tensor) -> _Found:
        """Some of them, in the given order."""
        numbers = {n: v[index] for n, v in self.numbers.items()}
        return _Found(
            self.edges[index], numbers, tree.rows(self.beliefs, index), tree.rows(self.memory, index)
        )


@dataclass(frozen=True, eq=False)
class InProcess(Net):
    """A net whose sites are in this process. The engine decides only how trainers run.

    The clients' samples are moved into one bank for each part, so that they are held once, on the device
    where the beliefs are to visit them. `memory` is what an engine may use at once: see `engines/memory.py`.
    `host` is where replies come to rest, if all of it happens in one place: a pool's is the coordinator.
    `done` is called when the net is closed.
    """

    engine: Engine
    learner: Learner
    clients: tuple[Client, ...]
    device: torch.device = CPU
    memory: str = "half"
    known: Roster | None = None
    host: int | None = None
    done: Callable[[], None] = lambda: None
    banks: Mapping[Part, Bank] = field(init=False, repr=False)
    slots: Slots = field(init=False, repr=False)
    pools: dict[tuple[tuple[int, ...], ...], InProcess] = field(init=False, repr=False)
    odd: dict[str, str] = field(init=False, repr=False)
    holds_rows = True

    def __post_init__(self) -> None:
        keep_freed_memory()
        banks = {part: Bank.of([getattr(c, part) for c in self.clients], self.device) for part in PARTS}
        parts: list[dict[str, Any]] = [{p: banks[p].part(i) for p in PARTS} for i in range(len(self.clients))]
        clients = tuple(replace(c, **mine) for c, mine in zip(self.clients, parts, strict=True))
        made = {"banks": banks, "clients": clients, "slots": Slots(len(clients)), "pools": {}, "odd": {}}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @cached_property
    def roster(self) -> Roster:
        return self.known or roster_of(self.clients)

    def traits(self, beliefs: Beliefs) -> Traits:
        """What engines have to know of the model."""
        return traits_of(self.learner, beliefs, self.clients[0].train)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        looked_at = {name: held.tensors for name, held in (beside or {}).items()}
        edges, numbers, replied, _ = self.work(kernel, beliefs.tensors, edges, key, slot, looked_at)
        if not replied:
            return Replies(edges, numbers, None, beliefs)
        hosts = edges[:, 1] if self.host is None else torch.full((len(edges),), self.host)
        return Replies(edges, numbers, hold(replied, hosts), beliefs)

    def work(
        self,
        kernel: Kernel,
        beliefs: Beliefs,
        edges: Tensor,
        key: Key,
        slot: str,
        beside: Mapping[str, Beliefs],
        called: Sequence[Pair] | None = None,
    ) -> _Found:
        """A visit of tensors.

        `called` are the numbers that guests and hosts go by, where they are others than here: random numbers
        belong to these.
        """
        pairs = called or [(g, h) for g, h in edges.tolist()]
        if len(edges) == 0:
            return _Found(edges, {})
        if kernel_fact(kernel, "together"):
            shares = beside["share"]["share"] if "share" in beside else None
            answered, figures = score_crowds(self, cast(Scorer, kernel), beliefs, edges, shares, key)
            names = {host: called for host, (_, called) in zip(edges[:, 1].tolist(), pairs, strict=True)}
            ends: list[tuple[int | str, ...]] = [("crowd", names[host]) for host in answered[:, 1].tolist()]
            return _Found(answered, _told_of(kernel, figures, answered, key, ends))
        if scores(kernel):
            if looks(kernel):
                figures = look_at(self, cast(Look, kernel), edges[:, 1])
            else:
                figures = score(self, cast(Scorer, kernel), beliefs, edges, key, [g for g, _ in pairs])
            ends = [("guest", g, "host", h) for g, h in pairs]
            return _Found(edges, _told_of(kernel, figures, edges, key, ends))
        keys = [key.at("guest", g, "host", h) for g, h in pairs]
        if makes(kernel):
            replies, numbers = _made(cast(Maker, kernel), beliefs, edges, keys, beside, self.clients)
            wrong = misshapen(replies, tree.row(beliefs, int(edges[0, 0])))
            alike = self._sound(wrong, edges, key.round)
            found = _Found(edges, numbers, {}).only(alike)
            found = found._replace(beliefs=tree.stack([replies[i] for i in alike.tolist()]))
            return self._finite(found, key.round)
        return self._train(cast(Trainer, kernel), beliefs, edges, key.round, keys, slot, beside)

    def _finite(self, found: _Found, round: int) -> _Found:
        wrong = not_finite(found.beliefs, found.numbers)
        return found.only(self._sound(wrong, found.edges, round)) if wrong else found

    def _sound(self, wrong: Mapping[int, str], edges: Tensor, round: int) -> Tensor:
        """The numbers of the other replies [reply], the wrong ones being noted; if all are, that is it."""
        told = {i: (self.clients[int(edges[i, 1])].name, why) for i, why in sorted(wrong.items())}
        if len(wrong) == len(edges):
            raise diverged(round, *told[0])
        self.odd.update(told.values())
        return torch.tensor([i for i in range(len(edges)) if i not in wrong], dtype=torch.int64)

    def _train(
        self,
        kernel: Trainer,
        beliefs: Beliefs,
        edges: Tensor,
        round: int,
        keys: Sequence[Key],
        slot: str,
        beside: Mapping[str, Beliefs],
    ) -> _Found:
        hosts = edges[:, 1]
        if kernel.keeps and len(torch.unique(hosts)) < len(hosts):
            with naming_flags_of(kernel):
                raise BadInput("keep=true needs at most one visit to each client in a round: set keep=false")
        memory = self.slots.before(slot, round) if kernel.keeps else None
        if memory is None:
            memory = tree.stack([kernel.fresh(self.learner, tree.row(beliefs, 0))])
            memory = tree.repeat(memory, len(self.clients)) if kernel.keeps else memory
        visit = Visit(beliefs, edges, keys, memory, beside)
        answers = (solve if solves(kernel) else self.engine.train)(self, kernel, visit)
        told = {n: v.cpu() for n, v in answers.numbers.items()}
        found = self._finite(_Found(edges, told, answers.beliefs, answers.memory), round)
        if kernel.keeps:
            self.slots.write(slot, round, found.edges[:, 1], found.memory, memory)
        return found

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        if self.engine.apart:
            return hold(_mixed_apart(weights, beliefs, at, in_turn), at)
        if not in_turn:
            return hold(tree.mix(weights, beliefs.tensors), at)
        if not isinstance(weights, Tensor):
            raise BadInput("sums in turn take one matrix of weights for all tensors")
        whose = {place: i for i, place in enumerate(beliefs.places.tolist())}
        mixing, sources = tree.in_turn(weights, [whose[place] for place in at.tolist()])
        return hold(tree.mix(mixing, beliefs.tensors, sources), at)

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        return hold(tree.rows(beliefs.tensors, rows), at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        """Everything is everywhere here."""

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        assert replies.origin is not None
        names, replied = self.learner.trainable, replies.beliefs.tensors
        apart = tree.distances(replied, tree.rows(replied, to), names, importance)
        lengths = torch.zeros(len(replies), dtype=torch.float64)
        for guest in torch.unique(replies.guests).tolist():
            mine = (replies.guests == guest).nonzero().flatten()
            sent = tree.rows(replies.origin.tensors, torch.tensor([guest]))
            lengths[mine] = tree.distances(tree.rows(replied, mine), sent, names, importance)[:, 0]
        return Distances(apart, lengths)

    def open(self, beliefs: Held) -> Beliefs:
        return beliefs.tensors

    def peek(self, beliefs: Held) -> Beliefs | None:
        return beliefs.tensors

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> InProcess:
        chosen = tuple(tuple(group) for group in groups)
        if chosen not in self.pools:
            pools = []
            for some in ([self.clients[i] for i in group] for group in chosen):
                parts: dict[str, Any] = {part: joined([getattr(c, part) for c in some]) for part in PARTS}
                pools.append(replace(some[0], name="+".join(c.name for c in some), **parts))
            self.pools[chosen] = replace(self, clients=tuple(pools), known=None, host=COORDINATOR)
        return self.pools[chosen]

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.slots.drop(round)
        for net in self.pools.values():
            net.keep(live, round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        """Everybody is here."""
        self.odd.clear()

    def figures(self) -> dict[str, Any]:
        """Whose replies of the round were left out, and why."""
        found = dict[str, str]()
        for net in (self, *self.pools.values()):
            found |= net.odd
            net.odd.clear()
        return {LEFT_OUT: found} if found else {}

    def save(self, beliefs: Held, paths: Mapping[int, str]) -> None:
        for i, path in paths.items():
            write_tensors(path, tree.row(beliefs.tensors, i), {})

    def kept(self, live: Iterable[Held], round: int) -> Mapping[str, Tensor]:
        kept = named("own", self.slots.tensors())
        for groups, net in self.pools.items():
            kept |= named(told_groups(groups), net.slots.tensors())
        return kept

    def restore(self, kept: Mapping[str, Tensor], live: Iterable[Held], round: int) -> None:
        for mark, tensors in {"own": {}, **by_name(kept)}.items():
            net = self if mark == "own" else self.in_one_place(groups_of(mark))
            net.slots.load({name: t.to(self.device) for name, t in tensors.items()})
            net.slots.rewind(round)

    def keep_at(self, folder: str) -> None:
        """A checkpoint in this process has everything."""

    def observe(self, observer: Observer) -> None:
        """Nobody goes, comes or is waited for."""

    def close(self) -> None:
        """Nothing runs beside us; whoever lent the learner has it back."""
        self.done()


def _told_of(
    kernel: Any, figures: Mapping[str, Tensor], edges: Tensor, key: Key, ends: Sequence[tuple[int | str, ...]]
) -> Mapping[str, Tensor]:
    """What leaves of the figures [edge]: all, unless the scorer has a `tell`, with a key for each edge."""
    tell = kernel_fact(kernel, "tell")
    return figures if tell is None else tell(figures, edges[:, 1].tolist(), [key.at(*end) for end in ends])


def _mixed_apart(weights: Weights, beliefs: Held, at: Tensor, in_turn: bool) -> Beliefs:
    """Sums as each place makes them by itself, of what it listens to: to the last bit, whoever makes them."""
    tensors = beliefs.tensors
    if not in_turn:
        made = dict[int, Belief]()
        for place in dict.fromkeys(at.tolist()):
            here = (at == place).nonzero().flatten()
            made |= dict(zip(here.tolist(), _rows(_mixed_at(weights, tensors, here)), strict=True))
        return tree.stack([made[i] for i in range(len(at))])
    now, whose = {n: t.clone() for n, t in tensors.items()}, beliefs.places.tolist()
    sums = []
    for i, place in enumerate(at.tolist()):
        (found,) = _rows(_mixed_at(weights, now, torch.tensor([i])))
        sums.append(found)
        for name, t in found.items():
            now[name][whose.index(place)] = t
    return tree.stack(sums)


def _mixed_at(weights: Weights, tensors: Beliefs, receivers: Tensor) -> Beliefs:
    """The sums of some receivers, of the rows that any of them listens to."""
    by_name = {"*": weights} if isinstance(weights, Tensor) else {n: weights[n] for n in tensors}
    chosen = {n: w[receivers] for n, w in by_name.items()}
    heard = rows_heard(chosen)
    plain = {n: w[:, heard] for n, w in chosen.items()}
    return tree.mix(plain.get("*", plain), tree.rows(tensors, torch.tensor(heard)))


def rows_heard(weights: Mapping[str, Tensor]) -> list[int]:
    """The rows that any weight [receiver, row] of any name listens to; a sum of nothing still has a shape."""
    heard = torch.stack([w != 0 for w in weights.values()]).any(dim=0).any(dim=0)
    return heard.nonzero().flatten().tolist() or [0]


def _rows(beliefs: Beliefs) -> list[Belief]:
    return [tree.row(beliefs, i) for i in range(tree.count(beliefs))]


def _made(
    kernel: Maker,
    beliefs: Beliefs,
    edges: Tensor,
    keys: Sequence[Key],
    beside: Mapping[str, Beliefs],
    clients: Sequence[Client],
) -> tuple[list[Belief], dict[str, Tensor]]:
    """Beliefs and numbers that a maker makes, for each pair of guest and host as many as it has edges."""
    places: dict[Pair, list[int]] = {}
    for e, (guest, host) in enumerate(edges.tolist()):
        places.setdefault((guest, host), []).append(e)
    replies: dict[int, tuple[Belief, dict[str, float]]] = {}
    for (guest, host), mine in places.items():
        row = {n: tree.row(b, mine[0] if tree.count(b) > 1 else 0) for n, b in beside.items()}
        try:
            some, told = kernel.make(tree.row(beliefs, guest), row, len(mine), keys[mine[0]])
        except BadInput as error:
            raise BadInput(f"client {clients[host].name!r}: {error}") from None
        replies |= {e: (belief, told) for e, belief in zip(mine, some, strict=True)}
    order = [replies[e] for e in range(len(edges))]
    numbers = {n: torch.tensor([told[n] for _, told in order], dtype=torch.float64) for n in order[0][1]}
    return [belief for belief, _ in order], numbers


def joined(parts: Sequence[Samples]) -> Samples:
    return Samples(adjoined([p.x for p in parts]), adjoined([p.y for p in parts]))
