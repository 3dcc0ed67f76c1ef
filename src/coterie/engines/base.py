"""What engines are given and what they give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Client
from coterie.core.kernel import Part, Reply, Trainer
from coterie.core.learner import Learner
from coterie.core.registry import Registry
from coterie.core.seeds import Key
from coterie.engines.bank import Bank
from coterie.engines.traits import Traits


class Ground(Protocol):
    """What an engine works on: clients in memory, their rows in banks, and a model to call through."""

    @property
    def learner(self) -> Learner: ...

    @property
    def clients(self) -> tuple[Client, ...]: ...

    @property
    def banks(self) -> Mapping[Part, Bank]: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def memory(self) -> str: ...

    def traits(self, beliefs: Beliefs) -> Traits: ...


class Visit(NamedTuple):
    """What an engine computes: beliefs [guest, ...] along edges [edge, 2], with a key for each.

    memory    what hosts remember [host, ...], or one fresh memory for all
    beside    by name, what else the kernel looks at: [1 or edge, ...]
    """

    beliefs: Beliefs
    edges: Tensor
    keys: Sequence[Key]
    memory: Beliefs
    beside: Mapping[str, Beliefs]

    def besides(self, edge: int) -> dict[str, Belief]:
        """What one edge has beside it."""
        return {name: tree.row(b, edge if tree.count(b) > 1 else 0) for name, b in self.beside.items()}


class Answers(NamedTuple):
    """Replies of all edges, stacked [edge, ...], in the order of the edges."""

    beliefs: Beliefs
    memory: Beliefs
    numbers: Mapping[str, Tensor]


class Engine(Protocol):
    """How trainers run. It is registered by a `name`."""

    name: ClassVar[str] = ""
    apart: ClassVar[bool] = False  # sums too are made place by place, as by sites that are elsewhere

    def train(self, net: Ground, kernel: Trainer, visit: Visit) -> Answers: ...


ENGINES: Registry[Engine] = Registry("engine")


def stacked_replies(kernel: Trainer, replies: Sequence[Reply]) -> Answers:
    """Replies of one edge each, as one; memory that is not kept is not carried either."""
    numbers = {n: torch.stack([r.numbers[n] for r in replies]) for n in replies[0].numbers}
    memory = tree.stack([r.memory for r in replies]) if kernel.keeps else {}
    return Answers(tree.stack([r.belief for r in replies]), memory, numbers)
