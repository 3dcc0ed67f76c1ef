"""A client: data that never travels, with a name."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor

Task = Literal["classification", "regression", "survival"]
EVENTS = ("no event seen", "event seen")
"""The two kinds of rows of a survival, in the order in which they are counted."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs x [n, ...] and targets y [n]: integer labels, numbers for a regression, or times of a survival,
    negative where the event was not seen (`survival.py`).
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Samples({len(self)} of shape {list(self.x.shape[1:])})"

    def cast(self, dtype: torch.dtype, times: bool = False) -> Samples:
        """In another precision; times lose none, since ties between them decide who is compared with whom."""
        kind = torch.promote_types(self.y.dtype, dtype) if times else dtype
        return Samples(self.x.to(dtype), self.y.to(kind) if self.y.is_floating_point() else self.y)


@dataclass(frozen=True, eq=False)
class Client:
    """One participant: its own training, validation and test samples, and what they are called.

    `cluster` is the group a synthetic split put it in, if any: no method sees it but Oracle.
    `notes` say what was done to its data; they end up in the run's record and report.
    `preparation` made its inputs of a table's raw rows, and is kept with its model; None where it took them
    as they are. `recipe` is how these rows were read, if that was by one. `censored` says that targets are
    times until an event, which no kind of number tells by itself. `again` is what training rows are read from
    anew at each epoch, if they are (`data/intake.py`).
    """

    name: str
    train: Samples
    test: Samples
    validation: Samples
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    cluster: int | None = None
    notes: tuple[str, ...] = field(default=())
    preparation: Any = None
    units: Any = None
    recipe: Any = None
    censored: bool = False
    again: Any = None

    def __repr__(self) -> str:
        parts = ", ".join(f"{part} {len(getattr(self, part))}" for part in ("train", "validation", "test"))
        what = (
            f"classes {', '.join(self.classes[:10]) or 'by number'}"
            if self.task == "classification"
            else self.task
        )
        return f"Client({self.name!r}: rows {parts}; inputs {list(self.train.x.shape[1:])}; {what})"

    def _repr_html_(self) -> str:
        """For notebooks; a name may have any signs in it."""
        return f"<p><b>Client</b> {html.escape(repr(self).removeprefix('Client(').removesuffix(')'))}</p>"

    def cast(self, dtype: torch.dtype) -> Client:
        """The same client with its inputs, and numbers to predict, in another precision."""
        return replace(
            self,
            train=self.train.cast(dtype, self.censored),
            validation=self.validation.cast(dtype, self.censored),
            test=self.test.cast(dtype, self.censored),
        )

    @property
    def task(self) -> Task:
        if self.censored:
            return "survival"
        return "regression" if self.train.y.is_floating_point() else "classification"


def class_count(clients: Sequence[Client]) -> int:
    """How many classes the clients have together; 1 output where there are none."""
    if clients[0].task != "classification":
        return 1
    highest = max(int(s.y.max()) for c in clients for s in (c.train, c.validation, c.test) if len(s))
    return max(len(clients[0].classes), highest + 1, 2)


def counts_of(client: Client, classes: int) -> tuple[tuple[int, ...], ...] | None:
    """How many rows of each class, or with and without an event, are for training, validation and testing;
    None for a regression.
    """
    if client.task == "regression":
        return None
    parts = [part.y.cpu() for part in (client.train, client.validation, client.test)]
    if client.task == "survival":
        parts, classes = [(y > 0).long() for y in parts], len(EVENTS)
    return tuple(tuple(torch.bincount(y, minlength=classes).tolist()) for y in parts)


def digest_of(*clients: Client, tensors: Mapping[str, Tensor] = MappingProxyType({})) -> str:
    """Clients' names and rows, and further tensors by name, in a few letters."""
    total = hashlib.sha256()
    for client in clients:
        total.update(client.name.encode())
        for part in (client.train, client.validation, client.test):
            total.update(bytes_of(part.x))
            total.update(bytes_of(part.y))
    add_tensors(total, tensors)
    return total.hexdigest()[:16]


def bytes_of(tensor: Tensor) -> memoryview:
    """A tensor of any kind as it lies in memory; numpy itself does not know all of them."""
    flat = tensor.cpu().contiguous().reshape(-1)
    if flat.stride() != (1,):  # one number of a longer row counts as contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().data if len(flat) else memoryview(b"")


def add_tensors(total: Any, tensors: Mapping[str, Tensor]) -> None:
    """Names and numbers go into a hash."""
    for name, tensor in tensors.items():
        total.update(name.encode())
        total.update(bytes_of(tensor))
