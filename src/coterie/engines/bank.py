"""Many clients' samples by row number, held once.

An engine that trains many clients in lockstep gathers their batches from one tensor; scoring passes over
several clients' rows at once. So the samples of all clients lie one after the other, and each client's own
are a view of them. Where they do not lie so already and are many, joining them would hold them twice: they
stay where they are, and those that are asked for are joined, a few clients at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from coterie.core.client import Client, Samples

ROOM = 2**27  # bytes of inputs that are joined by a copy


class Rows:
    """Rows of several tensors, numbered one after the other; `whole` is all of them, if they are joined."""

    def __init__(self, tensors: Sequence[Tensor], device: torch.device | str) -> None:
        self._parts = [t for t in tensors if len(t)] or [tensors[0]]
        self._ends = list(accumulate(len(t) for t in self._parts))
        whole = _as_one(self._parts)
        few = sum(t.numel() * t.element_size() for t in self._parts) <= ROOM
        if whole is None and (few or str(device) != "cpu"):
            whole = torch.cat(self._parts)
        self.whole = None if whole is None else whole.to(device)
        self.first = (self._parts[0] if self.whole is None else self.whole)[:1]

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        """Some rows: a view of consecutive ones where they lie so, else a copy."""
        if self.whole is not None:
            return taken(self.whole, rows)
        if isinstance(rows, slice):
            first, end, _ = rows.indices(len(self))
            found, part = [], bisect_right(self._ends, first)
            while first < end:
                begin, stop = self._begin(part), min(end, self._ends[part])
                found.append(self._parts[part][first - begin : stop - begin])
                first, part = stop, part + 1
            return found[0] if len(found) == 1 else torch.cat([self.first[:0], *found])
        which = torch.bucketize(rows, torch.tensor(self._ends), right=True)
        out = self.first.new_empty((len(rows), *self.first.shape[1:]))
        for part in torch.unique(which).tolist():
            mine = (which == part).nonzero().flatten()
            out[mine] = taken(self._parts[part], rows[mine] - self._begin(part))
        return out

    def _begin(self, part: int) -> int:
        return self._ends[part] - len(self._parts[part])


def taken(tensor: Tensor, rows: Tensor | slice) -> Tensor:
    """Some rows: a view of consecutive ones, else a copy."""
    return tensor[rows] if isinstance(rows, slice) else tensor.index_select(0, rows.to(tensor.device))


@dataclass(frozen=True, eq=False)
class Bank:
    """Samples of all clients: those of client i are rows starts[i] to starts[i] + sizes[i].

    x and y are on the device where beliefs visit them; starts and sizes are for planning, on the CPU.
    """

    x: Rows
    y: Tensor
    starts: Tensor
    sizes: Tensor
    own: tuple[Samples, ...] = ()
    """Each client's, where they are not joined."""

    @staticmethod
    def of(parts: Sequence[Samples], device: torch.device | str = "cpu") -> Bank:
        once = {place(p): p for p in parts}  # clients may share samples, such as a common test set
        lengths = torch.tensor([len(p) for p in once.values()])
        begins = dict(zip(once, (lengths.cumsum(0) - lengths).tolist(), strict=True))
        x, y = Rows([p.x for p in once.values()], device), adjoined([p.y for p in once.values()])
        starts = torch.tensor([begins[place(p)] for p in parts])
        own = () if x.whole is not None else tuple(parts)
        return Bank(x, y.to(device), starts, torch.tensor([len(p) for p in parts]), own)

    def part(self, i: int) -> Samples:
        """A client's own samples, as a view."""
        if self.own:
            return self.own[i]
        rows = slice(int(self.starts[i]), int(self.starts[i] + self.sizes[i]))
        return Samples(self.x[rows], self.y[rows])

    def with_rows_of(self, clients: Tensor) -> tuple[Samples, Tensor]:
        """Samples in one piece with those of these clients among them; and where in it each one's begin."""
        if self.x.whole is not None:
            return Samples(self.x.whole, self.y), self.starts[clients]
        some, which = torch.unique(clients, return_inverse=True)
        parts = [self.part(i) for i in some.tolist()]
        joined = Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))
        return joined, (self.sizes[some].cumsum(0) - self.sizes[some])[which]


def banked(clients: Sequence[Client]) -> tuple[Client, ...]:
    """The same clients, whose samples lie one after the other where that holds nothing twice: a net's banks
    are then views of them.
    """
    train = Bank.of([c.train for c in clients])
    validation = Bank.of([c.validation for c in clients])
    test = Bank.of([c.test for c in clients])
    return tuple(
        replace(c, train=train.part(i), validation=validation.part(i), test=test.part(i))
        for i, c in enumerate(clients)
    )


def place(samples: Samples) -> tuple[object, ...]:
    """Where samples lie: the same for the same ones."""
    return tuple((t.data_ptr(), t.shape, t.stride()) for t in (samples.x, samples.y))


def adjoined(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors as one, along the first axis: a view if they already lie one after the other, else a copy."""
    full = [t for t in tensors if len(t)] or [tensors[0]]
    one = _as_one(full)
    return torch.cat(full) if one is None else one


def _as_one(full: Sequence[Tensor]) -> Tensor | None:
    """A view of tensors that lie one after the other; None if they do not."""
    first, place = full[0], full[0].data_ptr()
    if len(full) == 1:
        return first
    for t in full:
        same = t.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not (same and t.is_contiguous() and t.data_ptr() == place):
            return None
        place += t.numel() * t.element_size()
    total = sum(len(t) for t in full)
    return first.as_strided((total, *first.shape[1:]), first.stride(), first.storage_offset())
