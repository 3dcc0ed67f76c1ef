"""Local work whose steps hide every single row (DP-SGD): Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and
Zhang, 2016, "Deep learning with differential privacy", Algorithm 1.

    ḡ_i ← g_i min(1, C / ‖g_i‖)
    g̃   ← (Σ_{i ∈ B} ḡ_i + σ C ξ) / L,    ξ ~ N(0, I),    L = q N

g_i is the gradient of row i alone, C `clip`, σ `sigma`, N the client's training rows, B a batch and L its
expected size, the `batch` of the work inside, which makes its step with g̃: θ ← θ - η g̃ for sgd. Whatever it
makes of g̃ (a momentum, Adam's moments, those of swag) costs nothing more.

How rows come into batches is `sampling`:

    poisson   each row by a coin of its own, with chance q = L / N, in each step anew. A batch has at most
              `cap` rows; of more, that many are picked at random. This is the sampling of dp-accounting's
              TruncatedSubsampledGaussianDpEvent (arXiv 2508.15089). There are as many steps as the work
              inside plans; a batch may be empty, and its step is noise
    epochs    whole epochs, dealt by the work inside: in an epoch a row is in one batch, so that an epoch
              costs what one release with noise σ does. Which batch it is does not count as secret

What it costs (`charges`) holds for one row that is replaced by one that adds nothing: the number of rows is
public, here as in the roster. For whole epochs this "zero-out" relation is all that is claimed. With Poisson
batches what the accountant says is for a row that is there or not, which bounds it.

Deviations: the sum is divided by L also where a batch is shorter. The cap is ours (the paper's batches have
no bound), as engines pad batches to one size. The training loss is not told, since it is a look at rows
without noise, and `samples` is the expected number of rows that were looked at. A row whose gradient is not
finite adds nothing. Batch norm is refused, because it mixes rows before their gradients can be told apart.

ξ is a hash of the step's seed and the coins come from the visit's key, alike on all engines. Who knows the
key knows the noise: a run's seed is in its record, so a site with something to hide takes a key of its own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from coterie.core.contract import Belief, Carry, Charge, Extent, Key, Plan, Reply, Tick, Trainer
from coterie.core.errors import BadInput
from coterie.core.facts import called, kernel_fact
from coterie.core.kernel import WORK, extent_of
from coterie.core.learner import Batch, Gradient, Learner, plus
from coterie.core.options import check_options, chosen
from coterie.kernels.around import Around, numbers_of
from coterie.kernels.bayes import normals
from coterie.kernels.local import LocalWork
from coterie.kernels.sgd import SGD

Sampling = Literal["poisson", "epochs"]
PRIVATE = 1 << 23  # calls of `uniform`, apart from those of samplers and dropout
EXPECTED = "expected"


@dataclass(frozen=True)
class Hiding(Around):
    """Work that hides rows: it takes as many steps of as many rows as the work inside."""

    @property
    def epochs(self) -> int:
        return int(kernel_fact(self.inner, "epochs")) or 1

    @property
    def steps(self) -> int:
        return int(kernel_fact(self.inner, "steps"))

    @property
    def batch(self) -> int:
        return int(kernel_fact(self.inner, "batch"))


@WORK.register("dp")
@dataclass(frozen=True)
class DP(Hiding):
    """Local work with each row's gradient clipped and noise added: dp(sgd)."""

    inner: Trainer = SGD()
    """The local work itself."""
    clip: float = 1.0
    """The most that one row counts for: the norm that its gradient is clipped to."""
    sigma: float = 1.0
    """Standard deviation of the noise over clip, in each step."""
    sampling: Sampling = chosen("poisson", Sampling)
    """Each row by chance into each batch (poisson), or each row once an epoch (epochs)."""
    cap: int = 0
    """Rows of a Poisson batch at most; 0 takes batch + 6 sqrt(batch), which hardly any batch reaches."""

    def __post_init__(self) -> None:
        check_options(self)
        check_noise("dp", self.inner, self.clip, self.sigma)
        if not isinstance(self.inner, LocalWork):
            raise BadInput(
                "dp needs work that looks at rows by one gradient a step (sgd, adam, adamw, swag, sgld, "
                f"psgld); got {called(self.inner)}: put one of these inside"
            )
        if self.cap and self.cap < self.batch:
            raise BadInput(
                f"cap={self.cap} must be at least the batch, {self.batch}: raise it, or take 0 for "
                f"{usual_cap(self.batch)}"
            )

    by_row: ClassVar[bool] = True

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(n for n in numbers_of(self.inner) if n != "loss")

    def needs(self, samples: int) -> None:
        """Refuses a client with fewer rows than a batch."""
        if samples < self.batch:
            raise BadInput(
                f"{samples} training rows, and dp needs at least a batch of them, {self.batch}: "
                "lower batch, or leave the client out"
            )

    def suits(self, model: nn.Module) -> None:
        """Refuses a model whose rows cannot be told apart."""
        refuse_batch_norm("dp", model)

    def charges(self, samples: int) -> tuple[Charge, ...]:
        """What one visit costs a client of so many rows."""
        self.needs(samples)
        a_pass = math.ceil(samples / self.batch)
        planned = self.steps or self.epochs * a_pass
        if self.sampling == "epochs":
            return (Charge(self.sigma, rows=samples, times=math.ceil(planned / a_pass)),)
        return (
            Charge(self.sigma, self.batch / samples, self.cap or usual_cap(self.batch), samples, planned),
        )

    def extent(self, samples: int) -> Extent | None:
        found = extent_of(self.inner, samples)
        return found and found._replace(evenly=found.evenly and self.sampling == "epochs")

    def plan(self, samples: int, key: Key) -> Plan:
        self.needs(samples)
        dealt = super().plan(samples, key)
        if self.sampling == "epochs":
            return dealt
        cap = self.cap or usual_cap(self.batch)
        return replace(dealt, rows=poisson_rows(samples, self.batch, len(dealt), cap, key.at("coins")))

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        self.suits(learner.training)
        return super().fresh(learner, belief)

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        carry = super().start(belief, memory, beside)
        book = {"book": carry.pop("book")} if "book" in carry else {}  # a book comes last
        return {**carry, EXPECTED: torch.zeros_like(carry["samples"]), **book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        after = super().step(hiding(learner, self.clip, self.sigma, self.batch), carry, batch, tick)
        return {**after, EXPECTED: after[EXPECTED] + float(self.batch)}

    def finish(self, carry: Carry, gather: bool = False) -> Reply:
        inner: Any = self.inner
        reply: Reply = inner.finish(carry, gather=True) if gather else super().finish(carry)
        numbers = {n: v for n, v in reply.numbers.items() if n != "loss"}
        return reply._replace(numbers=numbers | {"samples": carry[EXPECTED]})


def usual_cap(batch: int) -> int:
    """Six standard deviations above the mean of a Poisson batch."""
    return batch + math.ceil(6 * math.sqrt(batch))


def hiding(learner: Learner, clip: float, sigma: float, expected: int) -> Learner:
    """A learner whose gradients are clipped row by row and have noise; terms that look at no rows stay."""
    made = copy.copy(learner)

    def gradient(belief: Belief, batch: Batch, seed: Tensor) -> Gradient:
        total = learner.clipped(belief, batch, seed, clip)
        noise = normals(seed, list(total.values()), PRIVATE)
        grads = {
            n: noisy_mean(t, z, clip, sigma, expected) for (n, t), z in zip(total.items(), noise, strict=True)
        }
        for term in learner.terms:
            grads = plus(grads, term(belief))
        unknown = batch.x.new_zeros(())
        return Gradient(unknown, grads, {n: belief[n] for n in learner.buffers})

    made.gradient = gradient  # type: ignore[method-assign]
    return made


def noisy_mean(total: Tensor, noise: Tensor, clip: float, sigma: float, expected: int) -> Tensor:
    """g̃ = (Σ ḡ_i + σ C ξ) / L."""
    return (total + sigma * clip * noise) / expected


def poisson_rows(samples: int, batch: int, steps: int, cap: int, key: Key) -> Tensor:
    """Rows for each step [step, row], each drawn with chance batch / samples; -1 where a batch is over.

    Coins of all steps lie in one row, and the gaps between those that fell are geometric: ⌊log u / log(1-q)⌋.
    Batches are as wide as the longest, in steps of √batch, so that few shapes have to be recorded.
    """
    generator, coins = key.torch(), steps * samples
    expected = steps * batch
    log_missed = math.log1p(-batch / samples) if batch < samples else -math.inf
    some, last, found = expected + 8 * math.isqrt(expected) + 16, -1, list[Tensor]()
    while last < coins:
        uniform = 1 - torch.rand(some, dtype=torch.float64, generator=generator)
        gaps = (uniform.log() / log_missed).floor().clamp(max=coins).long() + 1
        found.append(last + gaps.cumsum(0))
        last = int(found[-1][-1])
    fell = torch.cat(found)
    fell = fell[fell < coins]
    step, row = fell // samples, fell % samples
    sizes = torch.bincount(step, minlength=steps)
    for s in (sizes > cap).nonzero().flatten().tolist():
        mine = (step == s).nonzero().flatten()
        left = mine[torch.randperm(len(mine), generator=generator)[cap:]]
        row[left] = -1
    step, row = step[row >= 0], row[row >= 0]
    sizes = sizes.clamp(max=cap)
    place = torch.arange(len(row)) - (sizes.cumsum(0) - sizes)[step]
    wide = math.isqrt(batch)
    width = min(cap, samples, max(1, wide * math.ceil(int(sizes.max()) / wide)))
    rows = torch.full((steps, width), -1)
    rows[step, place] = row
    return rows


def check_noise(name: str, inner: Any, clip: float, sigma: float) -> None:
    """Refuses bounds and noise that hide nothing, and noise inside of noise."""
    for option, value in (("clip", clip), ("sigma", sigma)):
        if not 0 < value < math.inf:
            raise BadInput(f"{option}={value} must be above 0 and finite: try 1, or leave {name} out")
    if isinstance(inner, Around):
        whole = f"{name}({kernel_fact(inner, 'name') or '...'}(...))"
        raise BadInput(f"{whole}: {name} goes around plain work: try {name}(sgd)")


def refuse_batch_norm(name: str, model: nn.Module) -> None:
    """Refuses a model with a layer that mixes the rows of a batch, or keeps statistics of them."""
    for place, layer in model.named_modules():
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and not layer.track_running_stats:
            continue  # each row by itself
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            found = f"{type(layer).__name__} {place!r}" if place else type(layer).__name__
            raise BadInput(
                f"{name} cannot hide rows in a model with batch norm ({found}), which mixes them: take a "
                "model without, or group norm instead"
            )
