"""What SWAG and the samplers share: moments collected at marks, and noise that belongs to a step.

Of the chain θ₁, θ₂, ... of a visit, the states after its steps c, 2c, ... are due, or with per="epoch" those
at the ends of its epochs c, 2c, ...; both are counted from the visit's start. The plan marks these steps, and
nothing is collected elsewhere. The first B due states are passed over. With w = 1 / n for the n-th state that
counts (and w = 0 for one passed over, so that nothing branches on a value):

    δ ← θ - θ̄
    θ̄ ← θ̄ + w δ                          mean/NAME
    σ² ← (1 - w) (σ² + w δ²)              variance/NAME

σ² is the mean of squares less the square of the mean, in the form that cannot turn negative (Welford's): in
float32 the difference of the two would be all rounding where a posterior is narrow. Beside the moments, the
last K columns are kept, newest first: deviations θ - θ̄ for SWAG, the states themselves for a sampler. A new
column moves the others one place down, which copies nothing.

c is `every`, B `burn`, K `rank`, n `count`. How many states were `due` so far is remembered too, so that with
keep=true all of it, the burn-in as well, goes on from round to round.

Registered, these kernels reply with a model like any other work; inside `Gather` the reply also brings home
what was collected, for `kernels/posterior.py` to read.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor

from coterie.core.contract import Belief, Carry, Key, Learner, Plan, Reply
from coterie.core.devices import widest
from coterie.core.dropout import uniform
from coterie.core.errors import BadInput
from coterie.core.kernel import KERNELS, Marker
from coterie.core.options import bounded, check_options, chosen
from coterie.kernels.around import Around, AsCostly
from coterie.kernels.local import LocalWork

NOISE, METROPOLIS, JITTER = 1 << 20, 1 << 21, 1 << 22  # calls of `uniform`, far from those of dropout layers
COUNTERS = ("count", "columns")
COLUMNS = 4096  # at most

Per = Literal["step", "epoch"]


@dataclass(frozen=True)
class Collecting:
    """Options of collecting, and its maths on a visit's book."""

    every: int = bounded(1, "be at least 1", "try 1")
    """Every how many steps a state is due to be collected."""
    burn: int = bounded(0, "be at least 0", "try 1")
    """How many due states to pass over first."""
    rank: int = bounded(20, "be at least 0", "try 1")
    """How many of the last collected states (for swag, deviations) come home; 0 leaves the moments only."""
    average: bool = True
    """Reply with the mean of what was collected, or (false) with the last state."""

    ring: ClassVar[str] = "draw"

    def __post_init__(self) -> None:
        check_options(self)
        if self.rank > COLUMNS:
            raise BadInput(f"rank={self.rank} must be at most {COLUMNS}, each a copy of the model: try 20")

    def column(self, state: Tensor, mean: Tensor) -> Tensor:
        """What is kept of a state beside the moments."""
        return state

    def ahead(self) -> int:
        """How many states count in the moments without a column."""
        return 0

    def blank(self, learner: Learner, belief: Belief) -> Belief:
        """The book of a client where nothing was due so far."""
        kinds = ["mean", "variance", *(f"{self.ring}/{k}" for k in range(self.rank))]
        zeros = {f"{kind}/{n}": torch.zeros_like(belief[n]) for kind in kinds for n in learner.trainable}
        device = next(iter(belief.values())).device
        return zeros | {c: torch.zeros((), dtype=torch.int64, device=device) for c in ("due", *COUNTERS)}

    def parted(self, memory: Belief) -> tuple[Belief, Belief]:
        """What steps remember, and the book."""
        kinds = ("mean/", "variance/", f"{self.ring}/")
        book = {k: t for k, t in memory.items() if k in ("due", *COUNTERS) or k.startswith(kinds)}
        return {k: t for k, t in memory.items() if k not in book}, book

    def mark(self, carry: Carry) -> Carry:
        """The book after one more due state, which counts or is passed over."""
        belief, book = carry["belief"], carry["book"]
        due = book["due"] + 1
        count, columns = ((due - self.burn + n).clamp(min=0) for n in (self.ahead(), 0))
        share = (count > 0).to(widest(due.device)) / count.clamp(min=1)
        after = {**book, "due": due, "count": count, "columns": columns}
        for n in collected_names(book):
            after |= moments(book, n, belief[n], share.to(belief[n].dtype))
            if self.rank:
                places = [f"{self.ring}/{k}/{n}" for k in range(self.rank)]
                after |= {new: book[old] for old, new in pairwise(places)}
                after[places[0]] = self.column(belief[n], after[f"mean/{n}"])
        return {**carry, "book": after}

    def home(self, belief: Belief, book: Belief, gather: bool) -> Belief:
        """The belief that goes home; where nothing was collected, the last state."""
        model = dict(belief)
        if self.average or gather:
            for n in collected_names(book):
                model[n] = torch.where(book["count"] > 0, book[f"mean/{n}"], belief[n])
        if gather:
            kinds = ("variance/", f"{self.ring}/")
            model |= {k: t for k, t in book.items() if k in COUNTERS or k.startswith(kinds)}
        return model


@dataclass(frozen=True)
class CollectingWork(Collecting, LocalWork):
    """Local work on batches that collects."""

    per: Per = chosen("step", Per)
    """What every counts: steps, or epochs, which are passes over the client's data."""

    extent = LocalWork.extent

    def plan(self, samples: int, key: Key) -> Plan:
        drawn = super().plan(samples, key)
        unit = -(-samples // self.batch) if self.per == "epoch" else 1
        return replace(drawn, marks=marks_of(len(drawn), self.every * unit))

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return {**super().fresh(learner, belief), **self.blank(learner, belief)}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        mine, book = self.parted(memory)
        return {**super().start(belief, mine, beside), "book": book}

    def finish(self, carry: Carry, gather: bool = False) -> Reply:
        last, book = super().finish(carry), carry["book"]
        return Reply(self.home(last.belief, book, gather), {**last.memory, **book}, last.numbers)


def marks_of(steps: int, every: int) -> Tensor:
    """[step] where a state is due: at every so-many-th."""
    return torch.arange(1, steps + 1) % every == 0


def moments(book: Belief, name: str, state: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Mean and variance with one more state of that weight among all."""
    away = state - book[f"mean/{name}"]
    moved = weight * away
    return {
        f"mean/{name}": book[f"mean/{name}"] + moved,
        f"variance/{name}": (1 - weight) * torch.addcmul(book[f"variance/{name}"], moved, away),
    }


def collected_names(book: Belief) -> list[str]:
    return [k.removeprefix("mean/") for k in book if k.startswith("mean/")]


class Collector(Marker, Protocol):
    """Local work that collects."""

    def finish(self, carry: Carry, gather: bool = False) -> Reply: ...


def collects(kernel: Any) -> bool:
    """Whether work collects, and can bring it home: with noise in its steps or without."""
    if isinstance(kernel, Around):
        return "gather" in inspect.signature(kernel.finish).parameters and collects(kernel.inner)
    return isinstance(kernel, Collecting)


@KERNELS.register("gather")
@dataclass(frozen=True)
class Gather(AsCostly):
    """The same work; its reply brings home the model's mean and, beside it, all that was collected.

    variance/NAME, deviation/K/NAME or draw/K/NAME, and the counters `count` (of states in the moments) and
    `columns` (ever made: the last are there, newest first). The kernels of `posterior.py` read such a belief.
    """

    inner: Any = None
    """The local work itself, which has to be one that collects."""

    def __post_init__(self) -> None:
        if self.inner is not None and not collects(self.inner):
            raise BadInput(
                f"gather needs work that collects (swag, sgld, psgld, hmc); got "
                f"{type(self.inner).__name__.lower()}: put gather inside of it"
            )

    def finish(self, carry: Carry) -> Reply:
        reply: Reply = self.inner.finish(carry, gather=True)
        return reply


def normals(seed: Tensor, like: Sequence[Tensor], call: int = NOISE) -> list[Tensor]:
    """Standard normal numbers in the shapes of `like`, which belong to (seed, call) (Box and Muller).

    They are dealt in one row through all shapes, so that parameters in one vector get the same as in pieces.
    """
    sizes = [t.numel() for t in like]
    half = -(-sum(sizes) // 2)
    radius = (-2 * (1 - uniform(seed, call, half)).clamp(min=2.0**-33).log()).sqrt()
    angle = 2 * math.pi * uniform(seed, call + 1, half)
    row = torch.cat([radius * angle.cos(), radius * angle.sin()])[: sum(sizes)]
    return [z.view(t.shape).to(t.dtype) for z, t in zip(torch.split(row, sizes), like, strict=True)]
