"""The roster: what is public of the sites before anything runs, and all that methods and records know of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from coterie.core.client import Client, Task, class_count, counts_of, digest_of


@dataclass(frozen=True)
class Member:
    """What a site says of itself.

    train, validation, test   numbers of its rows
    labels      for each of the three parts, how many rows of each class, or without and with an event; None
                for a regression, and for a site that keeps them to itself
    cluster     the group a synthetic split put it in, if any: for yardsticks and for measuring only
    notes       what was done to its data
    digest      its data in a few letters, to find the same again
    """

    name: str
    train: int
    validation: int
    test: int
    labels: tuple[tuple[int, ...], ...] | None = None
    cluster: int | None = None
    notes: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class Roster:
    """Sites by number, and what they have in common: task, shape of an input, outputs of a model, columns,
    classes.

    A column has a name; inputs that are no table have none. Classes without names are numbers.
    """

    members: tuple[Member, ...]
    task: Task
    shape: tuple[int, ...]
    outputs: int
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def names(self) -> list[str]:
        return [m.name for m in self.members]

    @cached_property
    def sizes(self) -> Tensor:
        """[site] numbers of training rows."""
        return torch.tensor([m.train for m in self.members])

    @property
    def clusters(self) -> list[int | None]:
        return [m.cluster for m in self.members]


def roster_of(clients: Sequence[Client], digests: bool = False) -> Roster:
    """Of clients in this process, whose labels are public here; with digests where a run is recorded."""
    first, outputs = clients[0], class_count(clients)
    members = tuple(member_of(c, outputs, digest_of(c) if digests else "") for c in clients)
    shape = tuple(first.train.x.shape[1:])
    return Roster(members, first.task, shape, outputs, first.features, first.classes)


def member_of(client: Client, outputs: int, digest: str = "") -> Member:
    """What a client says of itself."""
    parts = (client.train, client.validation, client.test)
    train, validation, test = map(len, parts)
    labels = counts_of(client, outputs)
    return Member(client.name, train, validation, test, labels, client.cluster, client.notes, digest)
