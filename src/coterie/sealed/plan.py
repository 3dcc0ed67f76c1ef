"""What a sum or a measurement asks of the parties: the same in one process and over a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.held import Held
from coterie.core.net import Distances
from coterie.sealed.parties import Slice
from coterie.sealed.ring import decoded, reach, summed_up, whole_weights

LONGEST = 48.0  # log2 of the length of a reply in the ring, whatever the weights: projections still see liars


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

    @property
    def room(self) -> float:
        """log2 of the length that replies may have in the ring, for none of these sums to overflow."""
        return float(min([LONGEST, *(reach(whole) for whole in self.whole.values())]))

    def sealed(self, words: np.ndarray, layout: Mapping[str, Slice], bits: int) -> dict[str, np.ndarray]:
        """By name, what was sealed, in the clear [receiver, word]: both servers' answers added up."""
        return {
            name: decoded(np.ascontiguousarray(words[:, start:end]), bits + self.points[name])
            * self.off[name][:, None]
            for name, (start, end) in layout.items()
        }

    def result(self, held: Held, words: np.ndarray, bits: int) -> Beliefs:
        """The sums, of a handle whose tensors are here."""
        tensors, made = held.tensors, dict[str, Tensor]()
        found = self.sealed(words, layout_of(held.like, self.floats), bits)
        for name, t in tensors.items():
            w = self.weights[name].double()
            if name not in self.floats:  # from the heaviest sender, in the clear
                made[name] = tree.mix({name: w}, {name: t})[name]
                continue
            total = torch.from_numpy(found[name])
            flat = t.detach().cpu().double().reshape(len(t), -1)
            total = total + w[:, self.near] @ flat[self.near]
            for row in self.far:
                if (base := self.bases[row]) is not None:
                    out = base.held.tensors[name][base.row].detach().cpu().double().reshape(1, -1)
                    total = total + w[:, [row]] @ out
            made[name] = total.reshape(len(w), *t.shape[1:]).to(device=t.device, dtype=t.dtype)
        return made


def sum_of(
    net: Any, place: int, weights: Mapping[str, Tensor], held: Held, far: list[int], heard: list[int]
) -> Sum:
    """The plan of sums with weights by name [receiver, row]."""
    ids = held.parts[0].ids.tolist()
    floats = [n for n, t in held.like.items() if t.is_floating_point()]
    whole, points, off = dict[str, np.ndarray](), dict[str, int](), dict[str, np.ndarray]()
    for name in floats:
        mine = weights[name][:, far].double().numpy()
        whole[name], points[name] = whole_weights(mine)
        off[name] = summed_up(mine, whole[name], points[name])
    return Sum(
        far,
        [row for row in heard if row not in far],
        {row: net.base_of(ids[row], place) for row in far},
        weights,
        whole,
        points,
        off,
        floats,
        len(next(iter(weights.values()))),
    )


def layout_of(like: Beliefs, names: Sequence[str]) -> dict[str, Slice]:
    """Where each tensor's words are in a reply; `like` has rows [row, ...]."""
    places, start = dict[str, Slice](), 0
    for name in names:
        end = start + like[name][0].numel()
        places[name] = (start, end)
        start = end
    return places


def groups_of(
    layout: Mapping[str, Slice], trainable: Sequence[str], importance: Mapping[str, float]
) -> tuple[list[list[Slice]], list[float]]:
    """Trained tensors by how much their squares count: those that count alike are one group, so that no more
    is opened than needed.
    """
    groups: dict[float, list[Slice]] = {}
    for name in trainable:
        if name in layout:
            groups.setdefault(float(importance.get(name, 1.0)), []).append(layout[name])
    return list(groups.values()), list(groups)


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
    apart, left = torch.zeros(replies, len(to), dtype=torch.float64), iter(roots[replies:])
    for i in range(replies):
        for k, j in enumerate(to):
            if i != j:
                apart[i, k] = next(left)
    return Distances(apart, roots[:replies])


def vector(belief: Belief, names: Sequence[str]) -> np.ndarray:
    """Tensors of these names one after the other, in float64."""
    flat = [belief[n].detach().cpu().double().reshape(-1) for n in names]
    return torch.cat(flat).numpy() if flat else np.zeros(0)
