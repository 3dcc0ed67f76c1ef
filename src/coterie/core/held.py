"""Handles: beliefs that have a place.

A `Held` stands for beliefs [row, ...], each of which lies somewhere: at the coordinator, or with a site.
Methods carry handles about, pick rows and put rows together; none of that moves or shows a single number.
What moves beliefs is a verb of the net, and only its `open` gives tensors.

    place     COORDINATOR, or the number of a site
    id        of a row's content: the same content has the same id wherever copies of it are

A belief may lie in parts (a shared body at the coordinator, norms at home), which a visit brings together:
each part has tensors of its own names, its own ids and places. In one process the tensors are there, stacked,
and a handle costs nothing. On other nets they are torch's `meta` tensors: shapes without numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput

COORDINATOR = -1

_next = 0


class Part(NamedTuple):
    """Some tensors of every row, by name [row, ...]; and of each row its id and its place."""

    tensors: Beliefs
    ids: Tensor
    places: Tensor


@dataclass(frozen=True, eq=False)
class Held:
    """Beliefs [row, ...] that lie somewhere; usually in one part."""

    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.parts[0].ids)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.tensors)

    @property
    def places(self) -> Tensor:
        """[row] of a belief in one part."""
        if len(self.parts) > 1:
            raise BadInput("a belief in several parts has no single place: look at one part with only()")
        return self.parts[0].places

    @property
    def tensors(self) -> Beliefs:
        """What lies there, all parts together: for nets alone to look at."""
        if len(self.parts) == 1:
            return self.parts[0].tensors
        return {name: t for part in self.parts for name, t in part.tensors.items()}

    @property
    def like(self) -> Beliefs:
        """Names, shapes and kinds of number, without the numbers: [row, ...]."""
        return {name: t.to("meta") for name, t in self.tensors.items()}

    def rows(self, index: Tensor) -> Held:
        """Some rows in the given order, repeats allowed."""
        return Held(
            tuple(Part(tree.rows(p.tensors, index), p.ids[index], p.places[index]) for p in self.parts)
        )

    def spread(self, n: int) -> Held:
        """One row as n of them; in memory it is still one."""
        if len(self) == n:
            return self
        parts = []
        for p in self.parts:
            tensors = {name: t.expand(n, *t.shape[1:]) for name, t in p.tensors.items()}
            parts.append(Part(tensors, p.ids.expand(n), p.places.expand(n)))
        return Held(tuple(parts))

    def only(self, names: Collection[str]) -> Held:
        """The tensors of these names alone."""
        parts = [p._replace(tensors={n: t for n, t in p.tensors.items() if n in names}) for p in self.parts]
        return Held(tuple(p for p in parts if p.tensors) or (parts[0],))

    def without(self, names: Collection[str]) -> Held:
        """All tensors but those of these names."""
        return self.only([n for n in self.names if n not in names])

    def put(self, index: Tensor, new: Held) -> Held:
        """The rows at `index` replaced by others; what these have beyond our names is left out."""
        if len(index) == 0:
            return self
        parts = []
        for p in self.parts:
            (other,), mine = new.only(p.tensors).parts, p.tensors
            if any(
                t.device.type == "meta" for t in other.tensors.values()
            ):  # the net knows others by their ids
                mine = {name: t.to("meta") for name, t in mine.items()}
            ids, places = p.ids.index_copy(0, index, other.ids), p.places.index_copy(0, index, other.places)
            parts.append(Part(tree.put(mine, index, other.tensors), ids, places))
        return Held(tuple(parts))


def hold(tensors: Beliefs, places: Tensor) -> Held:
    """A handle to new content [row, ...] at these places [row]."""
    return Held((Part(tensors, fresh_ids(len(places)), places),))


def together(some: Sequence[Held]) -> Held:
    """The rows of several handles one after the other."""
    if len(some) == 1:
        return some[0]
    made = []
    for parts in zip(*(h.parts for h in some), strict=True):
        tensors: dict[str, Tensor] = {}
        for name in parts[0].tensors:
            each = [p.tensors[name] for p in parts]
            if any(t.device.type == "meta" for t in each):  # the net knows others by their ids
                each = [t.to("meta") for t in each]
            tensors[name] = torch.cat(each)
        made.append(Part(tensors, torch.cat([p.ids for p in parts]), torch.cat([p.places for p in parts])))
    return Held(tuple(made))


def side_by_side(left: Held, right: Held) -> Held:
    """Beliefs in parts: row i has the tensors of both rows i; a handle of one row goes with every row."""
    n = max(len(left), len(right))
    return Held((*left.spread(n).parts, *right.spread(n).parts))


def at_coordinator(rows: int) -> Tensor:
    return torch.full((rows,), COORDINATOR, dtype=torch.int64)


def fresh_ids(n: int) -> Tensor:
    """Ids that nothing in this process has had."""
    global _next
    _next += n
    return torch.arange(_next - n, _next)


def reserve(ids: Iterable[int]) -> None:
    """No new content gets one of these ids: they came from an earlier process."""
    global _next
    _next = max([_next, *(i + 1 for i in ids)])


def handles_in(value: object) -> Iterator[Held]:
    """Every handle in a state: a dataclass, or lists, tuples and maps of such."""
    if isinstance(value, Held):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from handles_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from handles_in(inner)
    elif hasattr(value, "__dataclass_fields__"):
        yield from handles_in(vars(value))
