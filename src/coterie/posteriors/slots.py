"""Beliefs as flat float64 vectors, and back: which coordinate belongs to which tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.belief import Belief, Beliefs
from coterie.core.errors import BadInput


class Slot(NamedTuple):
    """A tensor of a model: where its numbers stand is the sum of the sizes before it."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Slots = tuple[Slot, ...]


def slots_of(belief: Belief) -> Slots:
    """A model's tensors in the order of their names."""
    for name, t in belief.items():
        if not t.is_floating_point():
            raise BadInput(f"{name!r} holds {t.dtype}, a posterior has real numbers only: leave it out")
    slots = tuple(Slot(name, tuple(belief[name].shape), belief[name].dtype) for name in sorted(belief))
    if size(slots) == 0:
        raise BadInput("a posterior of 0 parameters: give a model that has some")
    return slots


def size(slots: Slots) -> int:
    """p, the number of parameters."""
    return sum(s.size for s in slots)


def same_model(a: Slots, b: Slots) -> None:
    """Refuses tensors of other names or shapes."""
    mine, other = ({s.name: list(s.shape) for s in slots} for slots in (a, b))
    for name in sorted(mine | other):
        if name not in mine or name not in other:
            raise BadInput(f"posteriors of different models: only one has {name!r}: join those of one model")
        if mine[name] != other[name]:
            raise BadInput(
                f"posteriors of different models: {name!r} has shapes {mine[name]} and {other[name]}: "
                "join those of one model"
            )


def flat(slots: Slots, belief: Beliefs, lead: Sequence[int] = ()) -> Tensor:
    """[..., parameter] of tensors [..., *shape], where `lead` are the axes in front."""
    cut = len(lead)
    found = tuple(Slot(n, tuple(t.shape[cut:]), t.dtype) for n, t in belief.items())
    same_model(slots, found)
    for name, t in belief.items():
        if tuple(t.shape[:cut]) != tuple(lead):
            raise BadInput(f"{name!r} has {list(t.shape[:cut])} rows where others have {list(lead)}: cut it")
    parts = [belief[s.name].detach().cpu().double().reshape(*lead, s.size) for s in slots]
    return torch.cat(parts, dim=-1)


def tree(slots: Slots, vector: Tensor) -> Beliefs:
    """Tensors [..., *shape] in the model's own dtypes from [..., parameter]."""
    parts = torch.split(vector, [s.size for s in slots], dim=-1)
    return {
        s.name: t.reshape(vector.shape[:-1] + s.shape).to(s.dtype) for s, t in zip(slots, parts, strict=True)
    }


def place(slots: Slots, index: int) -> str:
    """A coordinate as people write it: weight[0, 3]."""
    for slot in slots:
        if index < slot.size:
            at = [int(i) for i in torch.unravel_index(torch.tensor(index), slot.shape)]
            return f"{slot.name}{at}" if slot.shape else slot.name
        index -= slot.size
    raise IndexError(index)
