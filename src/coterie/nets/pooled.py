"""Rows of sites that moved to the coordinator, for yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.client import Client
from coterie.core.held import Held, hold
from coterie.core.kernel import Kernel
from coterie.core.learner import Learner
from coterie.core.net import Beside, Replies
from coterie.core.seeds import Key
from coterie.nets.courier import Courier
from coterie.nets.in_process import InProcess
from coterie.nets.site import client_of
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


def moved_rows(post: Courier, groups: Sequence[Sequence[int]], precision: torch.dtype) -> tuple[Client, ...]:
    """Clients with the rows of all sites in these groups; the others, whom nobody looks at, have any."""
    roster, sites = post.roster, sorted({i for group in groups for i in group})
    answers = post.ask({site: ({"do": "rows"}, {}) for site in sites})
    for site, (_, rows) in answers.items():
        post.check_rows(site, rows)
    clients = []
    for site, member in enumerate(roster.members):
        about = {"name": member.name, "features": roster.features, "classes": roster.classes}
        told = {
            **about,
            "cluster": member.cluster,
            "notes": member.notes,
            "censored": roster.task == "survival",
        }
        clients.append(client_of(told, answers[site if site in answers else sites[0]][1]).cast(precision))
        post.measured.rows[site] += member.train if site in answers else 0
    return tuple(clients)


def precision_of(learner: Learner) -> torch.dtype:
    return next(p.dtype for p in learner.training.parameters() if p.is_floating_point())
