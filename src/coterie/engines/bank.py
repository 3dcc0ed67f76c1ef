"""Many clients' samples in one piece of memory, held once.

An engine that trains many clients in lockstep gathers their batches from one tensor; scoring passes over
several clients' rows at once. So the samples of all clients lie one after the other, and each client's own
are a view of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core.client import Client, Samples


@dataclass(frozen=True, eq=False)
class Bank:
    """Samples of all clients: those of client i are rows starts[i] to starts[i] + sizes[i].

    x and y are on the device where beliefs visit them; starts and sizes are for planning, on the CPU.
    """

    x: Tensor
    y: Tensor
    starts: Tensor
    sizes: Tensor

    @staticmethod
    def of(parts: Sequence[Samples], device: torch.device | str = "cpu") -> Bank:
        once = {place(p): p for p in parts}  # clients may share samples, such as a common test set
        lengths = torch.tensor([len(p) for p in once.values()])
        begins = dict(zip(once, (lengths.cumsum(0) - lengths).tolist(), strict=True))
        x, y = adjoined([p.x for p in once.values()]), adjoined([p.y for p in once.values()])
        starts = torch.tensor([begins[place(p)] for p in parts])
        return Bank(x.to(device), y.to(device), starts, torch.tensor([len(p) for p in parts]))

    def part(self, i: int) -> Samples:
        """A client's own samples, as a view."""
        rows = slice(int(self.starts[i]), int(self.starts[i] + self.sizes[i]))
        return Samples(self.x[rows], self.y[rows])


def banked(clients: Sequence[Client]) -> tuple[Client, ...]:
    """The same clients, whose samples lie one after the other: a net's banks are then views of them."""
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
    full = [t for t in tensors if len(t)]
    if len(full) < 2:
        return full[0] if full else tensors[0]
    first, place = full[0], full[0].data_ptr()
    for t in full:
        same = t.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not (same and t.is_contiguous() and t.data_ptr() == place):
            return torch.cat(full)
        place += t.numel() * t.element_size()
    total = sum(len(t) for t in full)
    return first.as_strided((total, *first.shape[1:]), first.stride(), first.storage_offset())
