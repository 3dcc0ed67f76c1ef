"""Rows of several clients one after the other, and sums over the rows of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Groups:
    """index   [row] which group a row is in, never falling
    sizes      [group] how many rows each has

    Both on the CPU, as are the rows. A sum adds the rows of a group one by one in their order, in float64: it
    has the same bits whoever else's rows lie beside them.
    """

    index: Tensor
    sizes: Tensor

    @staticmethod
    def of(sizes: Tensor) -> Groups:
        return Groups(torch.repeat_interleave(sizes), sizes)

    @staticmethod
    def one(rows: int) -> Groups:
        """All rows together."""
        return Groups(torch.zeros(rows, dtype=torch.int64), torch.tensor([rows]))

    def sum(self, values: Tensor) -> Tensor:
        """Of values [row]: [group]."""
        return added(self.index, len(self.sizes), values)

    def mean(self, values: Tensor) -> Tensor:
        """Of values [row]: [group], NaN for a group without rows."""
        return self.sum(values) / self.sizes

    def by(self, kinds: Tensor, of: int) -> _Cells:
        """The rows of each group by their kind [row], of which there are so many, from 0 on."""
        return _Cells(self.index * of + kinds, len(self.sizes), of)


class _Cells(NamedTuple):
    """Rows by group and kind: `places` [row] count all kinds of a group, then those of the next."""

    places: Tensor
    groups: int
    kinds: int

    def counts(self) -> Tensor:
        """How many rows: [group, kind]."""
        return torch.bincount(self.places, minlength=self.groups * self.kinds).view(-1, self.kinds)

    def sum(self, values: Tensor) -> Tensor:
        """Of values [row]: [group, kind]."""
        return added(self.places, self.groups * self.kinds, values).view(-1, self.kinds)


def added(index: Tensor, places: int, values: Tensor) -> Tensor:
    """Each value added to its place, one after the other: [place]."""
    return torch.zeros(places, dtype=torch.float64).index_add_(0, index, values.double())


def part_numbers(groups: Groups, apart: Tensor | None = None) -> Tensor:
    """[row] a number that two rows share if they are of one group, and in one part of it: that is 0 or 1 in
    `apart` [row].
    """
    return groups.index if apart is None else 2 * groups.index + apart


def each(kinds: Tensor, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """A function of the rows [n, ...] of one kind, a number for each, used on those of every kind: [n]."""
    order = kinds.argsort(stable=True)
    sizes = torch.unique_consecutive(kinds[order], return_counts=True)[1].tolist()
    parts = zip(*(torch.split(r[order], sizes) for r in rows), strict=True)
    found = torch.cat([function(*part) for part in parts])
    return torch.empty_like(found).index_copy_(0, order, found)


def whole(groups: Groups | None, rows: Tensor) -> Groups:
    """The given groups, or all rows as one."""
    return Groups.one(len(rows)) if groups is None else groups
