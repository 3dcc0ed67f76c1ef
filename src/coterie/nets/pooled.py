"""Rows of sites that moved to the coordinator, for yardsticks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core import belief as tree
from coterie.core.held import Held, hold
from coterie.core.kernel import Kernel
from coterie.core.net import Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.courier import Courier
from coterie.nets.in_process import InProcess
from coterie.nets.slots import Slots
from coterie.nets.wrapped import Wrapped


@dataclass(frozen=True, eq=False)
class Pooled(Wrapped):
    """The coordinator trains on rows that moved to it; its beliefs are in its store."""

    net: InProcess
    post: Courier

    @property
    def slots(self) -> Slots:
        return self.net.slots

    def visit(
        self,
        kernel: Kernel,
        beliefs: Held,
        edges: Tensor,
        key: Key,
        slot: str = "",
        beside: Beside | None = None,
    ) -> Replies:
        """Handles come out of the store as tensors, and replies go into it."""
        there = hold(self.post.tensors(beliefs), beliefs.places)
        looked = {n: hold(self.post.tensors(b), b.places) for n, b in (beside or {}).items()}
        replies = self.net.visit(kernel, there, edges, key, slot, looked)
        if replies.held is None:
            return replies
        (part,) = replies.held.parts
        for i, id in enumerate(part.ids.tolist()):
            self.post.store[id] = dict(tree.row(part.tensors, i))
        empty = {n: t.to("meta") for n, t in part.tensors.items()}
        return Replies(replies.edges, replies.numbers, Held((part._replace(tensors=empty),)), beliefs)
