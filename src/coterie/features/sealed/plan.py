"""What a sum or a measurement asks of the parties: the same in one process and over a network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.held import Held
from coterie.core.net import Distances
from coterie.features.sealed.parties import Slice
from coterie.features.sealed.ring import LOAD, WHOLE, decoded, reach, summed_up, whole_weights

# log2 of the length of a reply in the ring, if weights leave room for it:
LONGEST = 48.0  # with whole ones, where projections still see liars
USUAL = LOAD - WHOLE - 1.0  # with others, that add up to 2 at the most: one sealing serves for all such sums


@dataclass(frozen=True)
class Sum:
    """Sums at one place.

    far        rows of the handle that come sealed; `bases` has what each is sealed less of, or None
    near       rows that lie at the place or at the coordinator
    weights    by name [receiver, row] of the whole handle
    whole      by name, whole weights [receiver, far]; `points` has the bits behind their point
    off        by name, factors [receiver] that make up for weights that were rounded
    floats     names that are averaged; the others are taken from one sender
    """

    far: list[int]
    near: list[int]
    bases: Mapping[int, Any]
    weights: Mapping[str, Tensor]
    whole: Mapping[str, np.ndarray]
    points: Mapping[str, int]
    off: Mapping[str, np.ndarray]
    floats: list[str]
    receivers: int

    @staticmethod
    def of(
        net: Any, place: int, weights: Mapping[str, Tensor], held: Held, far: list[int], heard: list[int]
    ) -> Sum:
        """With weights by name [receiver, row]."""
        ids = held.parts[0].ids.tolist()
        floats = [n for n, t in held.like.items() if t.is_floating_point()]
        whole, points, off = dict[str, np.ndarray](), dict[str, int](), dict[str, np.ndarray]()
        for name in floats:
            mine = weights[name][:, far].double().numpy()
            whole[name], points[name] = whole_weights(mine)
            off[name] = summed_up(mine, whole[name], points[name])
        bases = {row: net.base_of(ids[row], place) for row in far}
        for row, base in bases.items():  # a reply may bring more home than went out
            if base is not None and not set(floats) <= set(base.held.names):
                bases[row] = None
        near, many = [row for row in heard if row not in far], len(next(iter(weights.values())))
        return Sum(far, near, bases, weights, whole, points, off, floats, many)

    @property
    def room(self) -> float:
        """log2 of the length that replies may have in the ring, for none of these sums to overflow."""
        usual = USUAL if any(self.points.values()) else LONGEST
        return float(min([usual, *(reach(whole) for whole in self.whole.values())]))

    def layout(self, held: Held) -> dict[str, Slice]:
        return layout_of(held.like, self.floats)

    def receiver_dict(self, like: Beliefs, bits: int) -> dict[str, Any]:
        """What a receiver has to know beside rows and weights (`received`), as JSON holds it."""
        kinds = {n: [str(t.dtype).removeprefix("torch."), list(t.shape[1:])] for n, t in like.items()}
        return {"like": kinds, "floats": self.floats, "points": dict(self.points), "bits": bits}

    def factors(self) -> dict[str, Tensor]:
        """And the weights: of what lies near, of bases, and what makes up for rounding, by name."""
        found = dict[str, Tensor]()
        for name in self.floats:
            w = self.weights[name].double()
            found[f"near/{name}"] = w[:, self.near]
            found[f"base/{name}"] = w[:, [row for row in self.far if self.bases[row] is not None]]
            found[f"off/{name}"] = torch.from_numpy(np.ascontiguousarray(self.off[name]))
        return found

    def heaviest(self, name: str) -> list[int]:
        """[receiver] from which row a tensor comes that is not averaged."""
        return [int(row) for row in self.weights[name].argmax(dim=1)]


def received(
    told: Mapping[str, Any],
    factors: Mapping[str, Tensor],
    words: np.ndarray,
    near: Sequence[Belief],
    bases: Sequence[Belief],
    taken: Mapping[str, Sequence[Tensor]],
) -> dict[str, Tensor]:
    """The sums [receiver, ...] by name: what both servers sent, added up, with what a receiver knows itself.

    `words` [receiver, word]; `near` and `bases` are beliefs; `taken` has what is not averaged, [receiver].
    """
    made, start = dict[str, Tensor](), 0
    for name, (kind, shape) in told["like"].items():
        dtype, size = getattr(torch, str(kind)), int(np.prod(shape, dtype=np.int64))
        if name not in told["floats"]:
            made[name] = torch.stack(list(taken[name]))
            continue
        opened = np.ascontiguousarray(words[:, start : start + size])
        total = torch.from_numpy(decoded(opened, int(told["bits"]) + int(told["points"][name])))
        total = total * factors[f"off/{name}"].unsqueeze(1)
        for part, some in (("near", near), ("base", bases)):
            if some:
                rows = torch.stack([b[name].detach().cpu().double().reshape(-1) for b in some])
                total = total + factors[f"{part}/{name}"] @ rows
        made[name] = total.reshape(len(total), *shape).to(dtype)
        start += size
    return made


class Look(NamedTuple):
    """A measurement of all rows of a handle.

    bases    what each is sealed less of
    groups   words whose squares are added up; `counts` is how often each group's count
    """

    bases: Mapping[int, Any]
    floats: list[str]
    groups: list[list[Slice]]
    counts: list[float]

    @staticmethod
    def of(net: Any, at: int, held: Held, trainable: Sequence[str], importance: Mapping[str, float]) -> Look:
        """Of distances between replies, told to a place. Trained tensors whose squares count alike are one
        group, so that no more is opened than needed.
        """
        floats = [n for n, t in held.like.items() if t.is_floating_point()]
        layout, groups = layout_of(held.like, floats), dict[float, list[Slice]]()
        for name in trainable:
            if name in layout:
                groups.setdefault(float(importance.get(name, 1.0)), []).append(layout[name])
        bases = {row: net.base_of(id, at) for row, id in enumerate(held.parts[0].ids.tolist())}
        return Look(bases, floats, list(groups.values()), list(groups))


def layout_of(like: Beliefs, names: Sequence[str]) -> dict[str, Slice]:
    """Where each tensor's words are in a reply; `like` has rows [row, ...]."""
    ends = list(itertools.accumulate((like[name][0].numel() for name in names), initial=0))
    return dict(zip(names, itertools.pairwise(ends), strict=True))


def wanted_pairs(
    names: Sequence[str], to: Sequence[int]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs whose products are needed, each once; and what is opened: lengths (a reply with itself), then
    distances [reply, to] between two.
    """
    wanted = [(name, name) for name in names] + [(i, names[j]) for i in names for j in to if i != names[j]]
    pairs = dict.fromkeys((name, name) for name in names)
    for i, j in wanted:
        if (j, i) not in pairs:
            pairs[i, j] = None
    return list(pairs), wanted


def measured(
    opened: np.ndarray, counts: Sequence[float], to: Sequence[int], replies: int, bits: int
) -> Distances:
    """Lengths and distances from squares in the ring [wanted, group]; a reply is 0 apart from itself."""
    found = torch.from_numpy(decoded(opened, 2 * bits) @ np.asarray(counts, dtype=np.float64))
    roots = found.clamp(min=0).sqrt()
    apart = torch.zeros(replies, len(to), dtype=torch.float64)
    apart[torch.arange(replies).unsqueeze(1) != torch.tensor(to)] = roots[replies:]
    return Distances(apart, roots[:replies])


def vector(belief: Belief, names: Sequence[str]) -> np.ndarray:
    """Tensors of these names one after the other, in float64."""
    flat = [belief[n].detach().cpu().double().reshape(-1) for n in names]
    return torch.cat(flat).numpy() if flat else np.zeros(0)


class Sent:
    """What has been sealed in a round, and with how much room: one that was sealed with less serves too."""

    def __init__(self) -> None:
        self._names: dict[tuple[Any, ...], tuple[str, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def find(self, key: tuple[Any, ...], room: float) -> str | None:
        name, have = self._names.get(key, ("", math.inf))
        return name if have <= room else None

    def note(self, key: tuple[Any, ...], name: str, room: float) -> None:
        self._names[key] = name, room

    def clear(self) -> None:
        self._names.clear()


def keys_of(
    held: Held, rows: Sequence[int], bases: Mapping[int, Any], floats: Sequence[str]
) -> dict[int, tuple[Any, ...]]:
    """By what sealed contents are known again: content, names, and whether a base was taken off."""
    ids = held.parts[0].ids.tolist()
    return {row: (ids[row], tuple(floats), bases[row] is not None) for row in rows}
