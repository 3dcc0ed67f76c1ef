"""All edges in lockstep: step s of every edge is one batched step, under torch.func.vmap.

Edges are sorted by their number of steps and cut into chunks that fit a memory budget. In a chunk,
shorter batches are padded with rows of weight 0, and an edge whose steps are over leaves the front of the
stack. The maths of a step is the kernel's own, so the numbers are the reference's up to the order of sums.
After a step that some edges have marked, these alone are marked.

What couples the rows of a batch (batch norm) would see the padding, and what draws random numbers by itself
cannot be seeded edge by edge: such models are refused, `pool` takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.devices import widest
from coterie.core.errors import BadInput
from coterie.core.kernel import Plan, Trainer
from coterie.engines.bank import Bank
from coterie.engines.base import ENGINES, Answers, Engine, Ground, Visit
from coterie.engines.memory import budget_in_bytes
from coterie.engines.replay import BatchedKernel, Stretch
from coterie.engines.threads import threads_for

STRETCH = 1024  # steps in a row
LOCKSTEP = 128  # edges at once: more gain nothing, fall out of the caches and take memory


@ENGINES.register("stacked")
@dataclass(frozen=True)
class Stacked(Engine):
    """All edges in lockstep, ragged ones padded: for many small models."""

    def train(self, net: Ground, kernel: Trainer, visit: Visit) -> Answers:
        if why := net.traits(visit.beliefs).lockless:
            raise BadInput(f"engine stacked cannot train a model with {why}: use pool or auto")
        bank = net.banks["train"]
        sizes = bank.sizes[visit.edges[:, 1]].tolist()
        plans = [kernel.plan(size, key) for size, key in zip(sizes, visit.keys, strict=True)]
        a_chunk = min(len(plans), self.edges_at_once(net, visit.beliefs, plans, visit.memory))
        numbers = a_chunk * plans[0].rows.shape[1] * bank.x.first.numel()
        with torch.no_grad(), threads_for(numbers):
            return _in_chunks(a_chunk, net, kernel, visit, plans)

    def edges_at_once(self, net: Ground, beliefs: Beliefs, plans: Sequence[Plan], memory: Beliefs) -> int:
        """As many edges as the budget holds: eight copies of a belief, a batch and its activations, and two
        of what is remembered.
        """
        batch = max(p.rows.shape[1] for p in plans)
        sample = net.banks["train"].x.first
        per_edge = 8 * tree.size_in_bytes(tree.row(beliefs, 0)) + 2 * tree.size_in_bytes(tree.row(memory, 0))
        per_edge += 8 * batch * sample.numel() * sample.element_size()
        return max(1, min(LOCKSTEP, budget_in_bytes(net.memory) // per_edge))


def _in_chunks(a_chunk: int, net: Ground, kernel: Trainer, visit: Visit, plans: Sequence[Plan]) -> Answers:
    """The replies of all edges, so many at once, those with most steps first."""
    if len(plans) == a_chunk and all(len(a) >= len(b) for a, b in pairwise(plans)):
        return lockstep(net, kernel, visit, plans)
    order = sorted(range(len(plans)), key=lambda e: -len(plans[e]))
    whole: Any = None
    for first in range(0, len(order), a_chunk):
        some = order[first : first + a_chunk]
        index = torch.tensor(some)
        beside = {n: tree.rows(b, index) if tree.count(b) > 1 else b for n, b in visit.beside.items()}
        chosen = visit._replace(edges=visit.edges[index], beside=beside)
        done = lockstep(net, kernel, chosen, [plans[e] for e in some])
        if whole is None:
            whole = pytree.tree_map(lambda t: t.new_empty((len(order), *t.shape[1:])), done)
        pytree.tree_map(lambda out, t, at=index: out.index_copy_(0, at.to(t.device), t), whole, done)
    answers: Answers = whole
    return answers


def lockstep(net: Ground, kernel: Trainer, visit: Visit, plans: Sequence[Plan]) -> Answers:
    """The replies of some edges, sorted by falling number of steps."""
    bank, n = net.banks["train"], len(plans)
    guests, hosts = visit.edges[:, 0], visit.edges[:, 1]
    whole, planned = _stretch_of(bank, plans, hosts), [p.marks for p in plans if p.marks is not None]
    marks: list[list[bool]] = _padded(planned, False).T.tolist() if planned else []  # [step][edge]
    batched = BatchedKernel(kernel, net.learner)
    beside = {k: {m: t.expand(n, *t.shape[1:]) for m, t in b.items()} for k, b in visit.beside.items()}
    memory = tree.rows(visit.memory, hosts if kernel.keeps else torch.zeros_like(hosts))  # else one for all
    carry = batched.start(tree.rows(visit.beliefs, guests), memory, beside)
    # stretches of steps end at marks, and often enough to be ended between two
    marked, steps = (s + 1 for s, some in enumerate(marks) if any(some)), len(whole.active)
    for first, last in pairwise(sorted({0, steps, *range(0, steps, STRETCH), *marked})):
        net.learner.watch.check()
        carry = batched.steps(carry, whole.between(first, last))
        if marks and any(marks[last - 1]):
            carry = batched.mark(carry, marks[last - 1])
    reply = batched.finish(carry)
    return Answers(reply.belief, reply.memory if kernel.keeps else {}, reply.numbers)


def _stretch_of(bank: Bank, plans: Sequence[Plan], hosts: Tensor) -> Stretch:
    """All steps of all edges, shorter batches and plans padded with rows of weight 0."""
    samples, starts = bank.with_rows_of(hosts)
    device = samples.x.device
    rows = _padded([p.rows for p in plans], -1).transpose(0, 1)
    weights = (rows >= 0).to(device, samples.x.dtype)
    index = (rows.clamp(min=0) + starts.view(1, -1, 1)).to(device)
    rates = _padded([p.rates for p in plans], 0).transpose(0, 1).to(device, widest(device))
    seeds = torch.tensor([p.seed for p in plans], device=device)
    lengths = [len(p) for p in plans]
    active = [sum(n > s for n in lengths) for s in range(lengths[0])]
    return Stretch(samples.x, samples.y, index, weights, rates, seeds, active)


def _padded(tensors: Sequence[Tensor], filler: float) -> Tensor:
    """Tensors of different extents as one, [tensor, ...], with `filler` where there is nothing."""
    if all(t is tensors[0] for t in tensors):
        return tensors[0].expand(len(tensors), *tensors[0].shape)
    if all(t.shape == tensors[0].shape for t in tensors):
        return torch.stack(list(tensors))
    extents = [max(t.shape[d] for t in tensors) for d in range(tensors[0].ndim)]
    out = tensors[0].new_full((len(tensors), *extents), filler)
    for i, t in enumerate(tensors):
        place: Any = (i, *(slice(n) for n in t.shape))
        out[place] = t
    return out
