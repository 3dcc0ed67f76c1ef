"""All edges in lockstep: step s of every edge is one batched step, under torch.func.vmap.

Edges are sorted by their number of steps and cut into chunks that fit a memory budget. In a chunk,
shorter batches are padded with rows of weight 0, and an edge whose steps are over leaves the front of the
stack. The maths of a step is the kernel's own, so the numbers are the reference's up to the order of sums.

What couples the rows of a batch (batch norm) would see the padding, and what draws random numbers by itself
cannot be seeded edge by edge: such models are refused, `pool` takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput
from coterie.core.kernel import Plan, Tick, Trainer
from coterie.core.learner import Batch
from coterie.core.seeds import Key
from coterie.engines.base import ENGINES, Answers, InProcess
from coterie.engines.memory import budget_in_bytes
from coterie.engines.replay import Batched
from coterie.engines.threads import threads_for

LOCKSTEP = 256  # edges at once: more gain nothing and fall out of the caches


@ENGINES.register("stacked")
@dataclass(frozen=True)
class Stacked:
    """All edges in lockstep, ragged ones padded: for many small models."""

    memory: str = "half"
    """What may be used at once: half of what is free, or an amount such as 4G."""

    def __post_init__(self) -> None:
        budget_in_bytes(self.memory)

    def train(
        self, net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, key: Key, memory: Beliefs
    ) -> Answers:
        if why := net.traits(beliefs).lockless:
            raise BadInput(f"engine stacked cannot train a model with {why}: use pool or auto")
        bank, pairs = net.banks["train"], edges.tolist()
        sizes = bank.sizes.tolist()
        plans = [kernel.plan(sizes[h], key.at("guest", g, "host", h)) for g, h in pairs]
        order = sorted(range(len(pairs)), key=lambda e: -len(plans[e]))
        a_chunk = self.edges_at_once(net, beliefs, plans)
        done = []
        for first in range(0, len(order), a_chunk):
            index = torch.tensor(order[first : first + a_chunk])
            chosen = [plans[e] for e in index.tolist()]
            with threads_for(len(index) * chosen[0].rows.shape[1] * bank.x[0].numel()):
                done.append(lockstep(net, kernel, beliefs, edges[index], chosen, memory))
        back = torch.argsort(torch.tensor(order))
        if len(done) == 1 and order == list(range(len(order))):
            return done[0]
        answers: Answers = pytree.tree_map(lambda *parts: torch.cat(parts)[back], *done)
        return answers

    def edges_at_once(self, net: InProcess, beliefs: Beliefs, plans: Sequence[Plan]) -> int:
        """As many edges as the budget holds: eight copies of a belief, a batch and its activations."""
        batch = max(p.rows.shape[1] for p in plans)
        sample = net.banks["train"].x[:1]
        per_edge = 8 * tree.size_in_bytes(tree.row(beliefs, 0))
        per_edge += 8 * batch * sample.numel() * sample.element_size()
        return max(1, min(LOCKSTEP, budget_in_bytes(self.memory) // per_edge))


def lockstep(
    net: InProcess, kernel: Trainer, beliefs: Beliefs, edges: Tensor, plans: Sequence[Plan], memory: Beliefs
) -> Answers:
    """The replies of some edges, sorted by falling number of steps."""
    learner, bank = net.learner, net.banks["train"]
    guests, hosts = edges[:, 0], edges[:, 1]
    lengths = [len(p) for p in plans]
    rows = padded([p.rows for p in plans], -1)
    rates = padded([p.rates for p in plans], 0)
    seeds = padded([p.seeds for p in plans], 0)
    starts = bank.starts[hosts].unsqueeze(1)
    start = Batched(kernel.start, learner, (kernel, "start"))
    step = Batched(lambda c, b, t: kernel.step(learner, c, b, t), learner, (kernel, "step"))
    finish = Batched(kernel.finish, learner, (kernel, "finish"))
    carry = start(dict(tree.rows(beliefs, guests)), dict(tree.rows(memory, hosts)))
    over: list[Any] = []
    active = len(plans)
    for s in range(lengths[0]):
        still = sum(n > s for n in lengths[:active])
        if still < active:
            over.append(pytree.tree_map(lambda t, a=still: t[a:], carry))
            carry = pytree.tree_map(lambda t, a=still: t[:a], carry)
            active = still
        wanted = rows[:active, s]
        real = wanted >= 0
        index = (wanted.clamp(min=0) + starts[:active]).to(bank.x.device)
        weight = real.to(device=bank.x.device, dtype=bank.x.dtype)
        batch = Batch(gathered(bank.x, index), gathered(bank.y, index), weight)
        carry = step(carry, batch, Tick(rates[:active, s], seeds[:active, s]))
    whole = pytree.tree_map(lambda *parts: torch.cat(parts), carry, *reversed(over)) if over else carry
    return Answers(*finish(whole))


def gathered(rows: Tensor, index: Tensor) -> Tensor:
    """rows[index] for an index of any shape, copied row by row."""
    return rows.index_select(0, index.flatten()).view(*index.shape, *rows.shape[1:])


def padded(tensors: Sequence[Tensor], filler: float) -> Tensor:
    """Tensors of different extents as one, [tensor, ...], with `filler` where there is nothing."""
    if all(t.shape == tensors[0].shape for t in tensors):
        return torch.stack(list(tensors))
    extents = [max(t.shape[d] for t in tensors) for d in range(tensors[0].ndim)]
    out = tensors[0].new_full((len(tensors), *extents), filler)
    for i, t in enumerate(tensors):
        place: Any = (i, *(slice(n) for n in t.shape))
        out[place] = t
    return out
