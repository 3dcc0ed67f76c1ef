"""The reference engine: one edge at a time, one step after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.kernel import Reply, Tick, Trainer, batch_of
from coterie.core.seeds import Key
from coterie.engines.base import ENGINES, InProcess


@ENGINES.register("loop")
@dataclass(frozen=True)
class Loop:
    """One edge at a time: the reference for all others."""

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Iterator[Reply]:
        for guest, host in edges.tolist():
            data = net.clients[host].train
            mine = key.at("guest", guest, "host", host)
            plan = kernel.plan(len(data), mine)
            carry = kernel.start(tree.row(beliefs, guest), tree.row(memory, host))
            # whatever a module draws by itself, beside dropout, comes from this edge's seed too
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(mine.at("module").integer())
                for s in range(len(plan)):
                    batch = batch_of(data.x, data.y, plan.rows[s])
                    carry = kernel.step(net.learner, carry, batch, Tick(plan.rates[s], plan.seeds[s]))
            yield kernel.finish(carry)
