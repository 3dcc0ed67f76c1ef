"""The reference engine: one edge at a time, one step after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Belief
from coterie.core.client import Samples
from coterie.core.devices import seeded, widest
from coterie.core.kernel import Marker, Reply, Tick, Trainer, batch_of
from coterie.core.learner import Learner
from coterie.core.seeds import Key
from coterie.core.wire import aligned
from coterie.engines.base import ENGINES, Answers, Engine, Ground, Visit, stacked_replies
from coterie.engines.threads import threads_for
from coterie.kernels.solving import solves


@ENGINES.register("loop")
@dataclass(frozen=True)
class Loop(Engine):
    """One edge at a time: the reference for all others."""

    apart: ClassVar[bool] = True  # sums too are made place by place, as by sites that are elsewhere

    def train(self, net: Ground, kernel: Trainer, visit: Visit) -> Answers:
        replies = []
        for edge, (guest, host) in enumerate(visit.edges.tolist()):
            mine, memory = visit.keys[edge], tree.row(visit.memory, host if kernel.keeps else 0)
            # whatever a module draws by itself, beside dropout, comes from this edge's seed too
            with seeded(mine.at("module").integer(), net.device):
                # where it would lie by itself, so that it rounds alike whoever lies before it
                belief = {name: aligned(t) for name, t in tree.row(visit.beliefs, guest).items()}
                client, beside, units = net.clients[host], visit.besides(edge), None
                data = client.train
                # [row] a number for whom it is about, where several may be about one
                if solves(kernel) and client.units is not None and len(client.units) == len(data):
                    units = torch.from_numpy(client.units)
                replies.append(alone(kernel, net.learner, belief, memory, beside, data, mine, units))
        return stacked_replies(kernel, replies)


def solve(net: Ground, kernel: Trainer, visit: Visit) -> Answers:
    """Work that branches on values, one edge at a time whatever the engine: as many threads as its rows are
    worth, so that it rounds alike on every net.
    """
    most = max(net.clients[host].train.x.numel() for host in visit.edges[:, 1].tolist())
    with threads_for(most):
        return Loop().train(net, kernel, visit)


def alone(
    kernel: Trainer,
    learner: Learner,
    belief: Belief,
    memory: Belief,
    beside: Mapping[str, Belief],
    data: Samples,
    key: Key,
    units: Tensor | None = None,
) -> Reply:
    """One belief at one client: plan, start, a step for each batch, a mark where planned, finish."""
    plan = kernel.plan(len(data), key)
    carry, device = kernel.start(belief, memory, beside), data.x.device
    for s in range(len(plan)):
        learner.watch.check()
        seed = torch.tensor(plan.seed + s, device=device)
        batch = learner.drawn(batch_of(data.x, data.y, plan.rows[s]), seed)
        if units is not None:
            learner = learner.about(units[plan.rows[s][plan.rows[s] >= 0]])
        carry = kernel.step(learner, carry, batch, Tick(plan.rates[s].to(device, widest(device)), seed))
        if plan.marks is not None and plan.marks[s]:
            carry = cast(Marker, kernel).mark(carry)
    return kernel.finish(carry)
