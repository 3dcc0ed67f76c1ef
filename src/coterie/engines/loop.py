"""The reference engine: one edge at a time, one step after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief, Beliefs
from coterie.core.client import Samples
from coterie.core.devices import seeded, widest
from coterie.core.kernel import Marker, Reply, Tick, Trainer, batch_of
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.engines.base import ENGINES, Answers, InProcess, stacked_replies


@ENGINES.register("loop")
@dataclass(frozen=True)
class Loop:
    """One edge at a time: the reference for all others."""

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Answers:
        replies = []
        for guest, host in edges.tolist():
            mine = key.at("guest", guest, "host", host)
            # whatever a module draws by itself, beside dropout, comes from this edge's seed too
            with seeded(mine.at("module").integer(), net.device):
                belief, kept = tree.row(beliefs, guest), tree.row(memory, host if kernel.keeps else 0)
                replies.append(visit(kernel, net.learner, belief, kept, net.clients[host].train, mine))
        return stacked_replies(kernel, replies)


def visit(
    kernel: Trainer, learner: Learner, belief: Belief, memory: Belief, data: Samples, key: Key
) -> Reply:
    """One belief at one client: plan, start, a step for each batch, a mark where planned, finish."""
    plan = kernel.plan(len(data), key)
    carry, device = kernel.start(belief, memory), data.x.device
    for s in range(len(plan)):
        batch = batch_of(data.x, data.y, plan.rows[s])
        seed = torch.tensor(plan.seed + s, device=device)
        carry = kernel.step(learner, carry, batch, Tick(plan.rates[s].to(device, widest(device)), seed))
        if plan.marks is not None and plan.marks[s]:
            carry = cast(Marker, kernel).mark(carry)
    return kernel.finish(carry)
