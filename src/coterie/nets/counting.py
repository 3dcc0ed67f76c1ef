"""A net wrapped: what passes between the parties is counted.

Of every verb it is known which rows have to move where: a row that already lies at its receiver does not, nor
does one of which the receiver got a copy earlier in the round. Models are counted with their bytes, numbers
apart. Sealed replies go to helpers, who are not among the parties here: `sealed` counts them. Gradient steps
are counted where visits happen, from what the kernel plans for so many rows: a site need not tell them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from coterie.core.belief import Beliefs, Weights
from coterie.core.facts import kernel_fact
from coterie.core.held import COORDINATOR, Held
from coterie.core.kernel import Kernel, gradient_steps
from coterie.core.net import WRAPS, Beside, Distances, Net, Replies
from coterie.core.seeds import Key
from coterie.nets.wrapped import Wrapped


class Traffic(NamedTuple):
    """[sender, receiver] models, their bytes, and numbers that passed; the coordinator comes last.

    rows [site]: clients' rows that moved to the coordinator
    steps [party]: gradient steps of visits that were answered, where they were taken
    """

    models: np.ndarray
    bytes: np.ndarray
    numbers: np.ndarray
    rows: np.ndarray
    steps: np.ndarray


def nothing_passed(sites: int) -> Traffic:
    models, sizes, numbers = (np.zeros((sites + 1, sites + 1), dtype=np.int64) for _ in range(3))
    rows, steps = (np.zeros(parties, dtype=np.int64) for parties in (sites, sites + 1))
    return Traffic(models, sizes, numbers, rows, steps)


class _Book:
    """What passed since it was last read, and who got a copy of what in this round."""

    def __init__(self, sites: int) -> None:
        self.sites = sites
        self.traffic = nothing_passed(sites)
        self.known: dict[tuple[int, int], set[str]] = {}
        self.moved: set[tuple[tuple[int, ...], ...]] = set()

    def read(self) -> Traffic:
        found, self.traffic = self.traffic, nothing_passed(self.sites)
        return found

    def model(self, place: int, id: int, to: int, sizes: Mapping[str, int]) -> None:
        """One row goes to a place, unless it is there; its tensors have these names and sizes."""
        known = self.known.setdefault((id, to), set())
        new = sizes.keys() - known
        if new and place != to:
            self.traffic.models[place, to] += not known
            self.traffic.bytes[place, to] += sum(sizes[name] for name in new)
            known |= new

    def steps(self, kernel: Kernel, hosts: Sequence[int], sizes: Tensor, place: int | None = None) -> None:
        """Visits to hosts of these sizes [host]; all at one place, if one is named."""
        rows = sizes.tolist()
        each = {n: gradient_steps(kernel, n) for n in {rows[host] for host in hosts}}
        for host in hosts:
            self.traffic.steps[host if place is None else place] += each[rows[host]]

    def numbers(self, sender: int, count: int) -> None:
        if sender != COORDINATOR:
            self.traffic.numbers[sender, COORDINATOR] += count


@WRAPS.register("counting")
@dataclass(frozen=True, eq=False)
class Counting(Wrapped):
    """Counts models, bytes and numbers by sender and receiver; every run has it around all else."""

    book: _Book = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", _Book(len(self.net.roster)))

    def rows(self, held: Held, pairs: Iterable[tuple[int, int]]) -> None:
        """Rows of a handle go to places: (row, place) each."""
        wanted = list(pairs)
        for part in held.parts:
            sizes, places, ids = row_bytes(part.tensors), part.places.tolist(), part.ids.tolist()
            for row, to in wanted:
                self.book.model(places[row], ids[row], to, sizes)

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        replies = self.net.visit(kernel, beliefs, edges, key, slot, beside)
        answered = [(g, h) for g, h in replies.edges.tolist()]
        if kernel_fact(kernel, "together"):  # one reply for all the guests of a host
            hosts = {h for _, h in answered}
            self.rows(beliefs, [(g, h) for g, h in edges.tolist() if h in hosts])
        else:
            self.rows(beliefs, answered)
        where = {(g, h): e for e, (g, h) in enumerate(edges.tolist())}
        for name, held in (beside or {}).items():
            if name != "share":
                self.rows(held, [(where[p] if len(held) > 1 else 0, p[1]) for p in answered])
        told = sum(t[0].numel() for t in replies.numbers.values()) if answered else 0
        for _, host in answered:
            self.book.numbers(host, told)
        self.book.steps(kernel, [host for _, host in answered], self.roster.sizes)
        return replies

    def mix(self, weights: Weights, beliefs: Held, at: Tensor, in_turn: bool = False) -> Held:
        at = torch.as_tensor(at).reshape(-1)  # one place may be given as a number
        mixed = self.net.mix(weights, beliefs, at, in_turn)
        if self.seals:
            return mixed
        matrices = [weights] if isinstance(weights, Tensor) else [weights[name] for name in beliefs.names]
        heard = torch.stack([m != 0 for m in matrices]).any(dim=0)
        if not in_turn:
            self.rows(beliefs, [(row, int(at[i])) for i, row in heard.nonzero().tolist()])
            return mixed
        whose, now = {int(p): i for i, p in enumerate(beliefs.places)}, beliefs
        for i, place in enumerate(at.tolist()):
            self.rows(now, [(row, place) for row in heard[i].nonzero().flatten().tolist()])
            at_row, id = torch.tensor([whose[place]]), mixed.parts[0].ids[i : i + 1]
            now = Held(tuple(p._replace(ids=p.ids.index_copy(0, at_row, id)) for p in now.parts))
        return mixed

    def deliver(self, beliefs: Held, rows: Tensor, at: Tensor) -> Held:
        self.rows(beliefs, zip(rows.tolist(), at.tolist(), strict=True))
        return self.net.deliver(beliefs, rows, at)

    def share(self, beliefs: Held, to: Tensor) -> None:
        self.net.share(beliefs, to)
        self.rows(beliefs, [(row, place) for row in range(len(beliefs)) for place in to.tolist()])

    def distances(
        self, replies: Replies, to: Tensor, at: int, importance: Mapping[str, float] | None = None
    ) -> Distances:
        at = int(at)  # and as SERVER
        found = self.net.distances(replies, to, at, importance)
        if self.seals:
            return found
        assert replies.origin is not None
        self.rows(replies.beliefs, [(row, at) for row in range(len(replies))])
        self.rows(replies.origin, [(row, at) for row in torch.unique(replies.guests).tolist()])
        self.book.numbers(at, found.apart.numel() + found.lengths.numel())
        return found

    def open(self, beliefs: Held) -> Beliefs:
        self.rows(beliefs, [(row, COORDINATOR) for row in range(len(beliefs))])
        return self.net.open(beliefs)

    def in_one_place(self, groups: Sequence[Sequence[int]]) -> Net:
        chosen = tuple(tuple(group) for group in groups)
        if chosen not in self.book.moved:
            self.book.moved.add(chosen)
            for site in (i for group in chosen for i in group):
                self.book.traffic.rows[site] += int(self.roster.sizes[site])
        return _PooledSteps(self.net.in_one_place(groups), self.book, chosen, self.roster.sizes)

    def keep(self, live: Iterable[Held], round: int) -> None:
        self.book.known.clear()
        self.net.keep(live, round)

    def regroup(self, live: Iterable[Held], round: int) -> None:
        self.book.known.clear()
        self.net.regroup(live, round)


@dataclass(frozen=True, eq=False)
class _PooledSteps(Wrapped):
    """Sites whose rows moved to the coordinator: nothing passes any more, steps are counted."""

    book: _Book
    groups: tuple[tuple[int, ...], ...]
    sizes: Tensor

    def visit(self, kernel: Kernel, *told: Any, **more: Any) -> Replies:
        replies = self.net.visit(kernel, *told, **more)
        pools = torch.stack([self.sizes[list(group)].sum() for group in self.groups])
        self.book.steps(kernel, replies.hosts.tolist(), pools, COORDINATOR)
        return replies


def row_bytes(tensors: Beliefs) -> dict[str, int]:
    """Of one row, by name."""
    return {name: t.element_size() * t.numel() // max(1, len(t)) for name, t in tensors.items()}
