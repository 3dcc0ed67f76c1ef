"""What SWAG and the samplers share: moments collected on the way, and noise that belongs to a step.

A chain θ₁, θ₂, ... is collected at every c-th step after a burn-in. With w = 1 / (n + 1) for the n+1-th
collected state (and w = 0 at all other steps, so that nothing branches on a value):

    δ ← θ - θ̄
    θ̄ ← θ̄ + w δ                          mean/NAME
    σ² ← (1 - w) (σ² + w δ²)              variance/NAME

σ² is the mean of squares less the square of the mean, in the form that cannot turn negative (Welford's): in
float32 the difference of the two would be all rounding where a posterior is narrow. Beside the moments, a
ring holds the last K columns: deviations θ - θ̄ for SWAG, the states themselves for a sampler.

c is `every`, the burn-in `burn`, K `rank`, n `count`. Registered, these kernels reply with a model like any
other work; inside `Gather` the reply also brings home what was collected, for `kernels/posterior.py` to read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.dropout import uniform
from coterie.core.errors import BadInput
from coterie.core.kernel import Carry, Plan, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.core.seeds import Key

NOISE, METROPOLIS, JITTER = 1 << 20, 1 << 21, 1 << 22  # calls of `uniform`, far from those of dropout layers
COUNTERS = ("count", "columns")


@dataclass(frozen=True)
class Collecting:
    """Options of collecting, and its maths on a visit's memory."""

    every: int = 1
    """Steps from one collected state to the next."""
    burn: int = 0
    """Steps before the first that may be collected."""
    rank: int = 20
    """How many of the last collected states (for swag, deviations) come home; 0 leaves the moments only."""
    average: bool = True
    """Reply with the mean of what was collected, or (false) with the last state."""

    ring: ClassVar[str] = "draw"

    def check_collecting(self) -> None:
        for option, least in (("every", 1), ("burn", 0), ("rank", 0)):
            if (value := getattr(self, option)) < least:
                raise BadInput(f"{option}={value} must be at least {least}: try {max(least, 1)}")

    def column(self, state: Tensor, mean: Tensor) -> Tensor:
        """What the ring keeps of a state."""
        return state

    def first(self) -> int:
        """The first step after the burn-in whose state may count."""
        return 1

    def nothing_yet(self, learner: Learner, belief: Belief) -> Belief:
        """The memory of a visit that has collected nothing."""
        kinds = ["mean", "variance", *(f"{self.ring}/{k}" for k in range(self.rank))]
        zeros = {f"{kind}/{n}": torch.zeros_like(belief[n]) for kind in kinds for n in learner.trainable}
        device = next(iter(belief.values())).device
        return zeros | {c: torch.zeros((), dtype=torch.int64, device=device) for c in COUNTERS}

    def rolled(self, memory: Belief) -> dict[str, Tensor]:
        """The ring's columns as one tensor ring/NAME [column, ...], for a step to write in one operation."""
        wide = {k: t for k, t in memory.items() if not k.startswith(f"{self.ring}/")}
        if self.rank:
            for n in collected_names(memory):
                wide[f"ring/{n}"] = torch.stack([memory[f"{self.ring}/{k}/{n}"] for k in range(self.rank)])
        return wide

    def unrolled(self, memory: Belief) -> dict[str, Tensor]:
        """The inverse of `rolled`."""
        flat = {k: t for k, t in memory.items() if not k.startswith("ring/")}
        if self.rank:
            for n in collected_names(memory):
                columns = memory[f"ring/{n}"].unbind()
                flat |= {f"{self.ring}/{k}/{n}": column for k, column in enumerate(columns)}
        return flat

    def collect(self, memory: Belief, belief: Belief) -> dict[str, Tensor]:
        """What is remembered after step t, which collects or does not."""
        since, count, columns = memory["t"] - self.burn, memory["count"], memory["columns"]
        due = since % self.every == 0
        counted, kept = due & (since >= self.first()), due & (since > 0)
        after = dict(memory) | {"count": count + counted, "columns": columns + kept}
        here = (torch.arange(self.rank, device=due.device) == columns % max(self.rank, 1)) & kept
        for n in collected_names(memory):
            weight = (counted / (count + 1)).to(belief[n].dtype)
            after |= moments(memory, n, belief[n], weight)
            if self.rank:
                ring, column = memory[f"ring/{n}"], self.column(belief[n], after[f"mean/{n}"])
                after[f"ring/{n}"] = torch.where(here.view(-1, *[1] * column.ndim), column, ring)
        return after

    def home(self, belief: Belief, memory: Belief, gather: bool) -> Belief:
        """The belief that goes home; where nothing was collected, the last state."""
        some, extra = memory["count"] > 0, {}
        model = dict(belief)
        if self.average or gather:
            for n in collected_names(memory):
                model[n] = torch.where(some, memory[f"mean/{n}"], belief[n])
        if gather:
            kinds = ("variance/", f"{self.ring}/")
            extra = {k: t for k, t in memory.items() if k in COUNTERS or k.startswith(kinds)}
        return {**model, **extra}


def moments(memory: Belief, name: str, state: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Mean and variance with one more state of that weight among all."""
    away = state - memory[f"mean/{name}"]
    moved = weight * away
    return {
        f"mean/{name}": memory[f"mean/{name}"] + moved,
        f"variance/{name}": (1 - weight) * torch.addcmul(memory[f"variance/{name}"], moved, away),
    }


def collected_names(memory: Belief) -> list[str]:
    return [k.removeprefix("mean/") for k in memory if k.startswith("mean/")]


class Collector(Trainer, Protocol):
    """Local work that collects."""

    def finish(self, carry: Carry, gather: bool = False) -> Reply: ...


@dataclass(frozen=True)
class Gather:
    """The same work; its reply brings home the model's mean and, beside it, all that was collected.

    variance/NAME, deviation/K/NAME or draw/K/NAME, and the counters `count` (of states in the moments) and
    `columns` (ever written to the ring). Such a belief is to be opened, not to be sent on a visit.
    """

    inner: Collector
    """The local work itself."""

    @property
    def keeps(self) -> bool:
        return self.inner.keeps

    def plan(self, samples: int, key: Key) -> Plan:
        return self.inner.plan(samples, key)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return self.inner.fresh(learner, belief)

    def start(self, belief: Belief, memory: Belief) -> Carry:
        return self.inner.start(belief, memory)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return self.inner.step(learner, carry, batch, tick)

    def finish(self, carry: Carry) -> Reply:
        return self.inner.finish(carry, gather=True)


def normals(seed: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Standard normal numbers in the shapes of `like`, which belong to the seed (Box and Muller).

    They are dealt in one row through all shapes, so that parameters in one vector get the same as in pieces.
    """
    sizes = [t.numel() for t in like]
    half = -(-sum(sizes) // 2)
    radius = (-2 * (1 - uniform(seed, NOISE, half)).clamp(min=2.0**-33).log()).sqrt()
    angle = 2 * math.pi * uniform(seed, NOISE + 1, half)
    row = torch.cat([radius * angle.cos(), radius * angle.sin()])[: sum(sizes)]
    return [z.view(t.shape).to(t.dtype) for z, t in zip(torch.split(row, sizes), like, strict=True)]


def check_posterior(prior: float, temperature: float) -> None:
    if not 0 <= prior < math.inf:
        raise BadInput(f"prior={prior} must be at least 0 and finite: try 1")
    if not 0 <= temperature < math.inf:
        raise BadInput(f"temperature={temperature} must be at least 0 and finite: try 1")
