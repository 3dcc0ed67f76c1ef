"""Hamiltonian Monte Carlo on all of a client's samples (Neal, 2011), its step found by dual averaging
(Hoffman and Gelman, 2014, section 3.2).

    Ũ(θ) = (N L(θ) + λ/2 ‖θ‖²) / T,    H(θ, p) = Ũ(θ) + ½ ‖p‖²,    p ~ N(0, I)
    M leapfrog steps:   p ← p - ½ ε ∇Ũ(θ),   θ ← θ + ε p,   p ← p - ½ ε ∇Ũ(θ)
    accept (θ', p') with probability α = min(1, exp(H(θ, p) - H(θ', p'))), else stay

    for draw t of the first A, towards an acceptance δ, with x = log of the step's factor:
    h ← (1 - 1/(t + t₀)) h + (δ - α)/(t + t₀)
    x ← log 10 - (√t / γ) h,    x̄ ← t^(-κ) x + (1 - t^(-κ)) x̄;    from then on x̄ is used

λ is `prior`, T `temperature`, M `leaps`, δ `target`, A `adapt`; t₀ = 10 and κ = 0.75 as published. A visit's
step is one draw, with M + 1 gradients over all rows; ε = exp(x) `lr` / √N, times a factor drawn from
1 ± `jitter` so that no path closes on itself. For a squared error see `sgld.py`.

One deviation: γ = 0.2, published is 0.05. With that x still sways by some half after 200 draws, and since
acceptance is concave in x, the mean x̄ is then accepted up to 0.1 more often than asked for.

The exactness rests on an energy that is a function of θ alone: it holds with batch norm (whose statistics are
then those of all rows), but not with dropout, whose masks change from draw to draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from coterie.core.contract import Batch, Belief, Carry, Extent, Key, Learner, Plan, Reply, Tick
from coterie.core.devices import widest
from coterie.core.dropout import uniform
from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.core.options import bounded
from coterie.kernels.bayes import JITTER, METROPOLIS, Collecting, marks_of, normals
from coterie.kernels.local import refuse_many_steps

GAMMA, EARLY, FORGET = 0.2, 10, 0.75
State = dict[str, Tensor]


LEAPS = 100_000  # for one draw, at most


class Potential(NamedTuple):
    """Ũ, its gradient, the mean loss in it, and the buffers as the forward pass left them."""

    value: Tensor
    slope: State
    loss: Tensor
    buffers: State


Potentials = Callable[[Belief], Potential]


@WORK.register("hmc")
@dataclass(frozen=True)
class HMC(Collecting):
    """Hamiltonian Monte Carlo on the full batch."""

    burn: int = 100
    """How many due draws to pass over first."""
    lr: float = bounded(0.1, "be above 0 and finite", "try 0.1")
    """Length of a leapfrog step at first, in units of 1 / sqrt(samples)."""
    steps: int = bounded(200, "be at least 1", "try 10")
    """Draws in a round."""
    leaps: int = bounded(10, "be at least 1", "try 10")
    """Leapfrog steps for one draw."""
    adapt: int = bounded(100, "be at least 0", "try 0")
    """Draws during which the step's length is adapted; 0 leaves it at lr."""
    target: float = 0.8
    """Share of accepted draws to adapt to."""
    jitter: float = bounded(0.2, "lie in [0, 1)", "try 0.2")
    """By what share, up or down, a draw's step may differ from the adapted one."""
    prior: float = bounded(1.0, "be at least 0 and finite", "try 1")
    """Precision of the Gaussian prior on every trained parameter; 0 for none."""
    temperature: float = bounded(1.0, "be at least 0 and finite", "try 1")
    """1 for the posterior, below 1 for a colder one."""
    keep: bool = False
    """Keep the step's length and what was collected between rounds (true) or start afresh (false)."""

    whole: ClassVar[bool] = True  # the same rows at each step
    numbers: ClassVar[tuple[str, ...]] = ("loss", "samples", "acceptance", "step")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature:
            raise BadInput(f"temperature={self.temperature} must be above 0 for hmc: try 1")
        if self.leaps > LEAPS:
            raise BadInput(f"leaps={self.leaps} must be at most {LEAPS}: try 10, and more steps")
        if not 0 < self.target < 1:
            raise BadInput(f"target={self.target} must lie between 0 and 1: try 0.8")

    @property
    def keeps(self) -> bool:
        return self.keep

    @property
    def gradients(self) -> int:
        """Of one step: where it begins, and after each leap."""
        return self.leaps + 1

    def extent(self, samples: int) -> Extent:
        return Extent(self.steps, samples, True, samples)

    def plan(self, samples: int, key: Key) -> Plan:
        refuse_many_steps(f"steps={self.steps}", self.steps)
        rows = torch.arange(samples).expand(self.steps, samples)
        rates, marks = torch.ones(self.steps, dtype=torch.float64), marks_of(self.steps, self.every)
        return Plan(rows, rates, key.integer() // 2, marks)

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        device = next(iter(belief.values())).device
        zero = torch.zeros((), dtype=widest(device), device=device)
        step = {"log_step": zero, "log_step_mean": zero, "gap": zero, "t": zero.long()}
        return {**step, **self.blank(learner, belief)}

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        zero = torch.zeros_like(memory["gap"])
        sums = dict.fromkeys(("loss", "samples", "acceptance", "draws"), zero)
        mine, book = self.parted(memory)
        return {"belief": dict(belief), "memory": mine, **sums, "book": book}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, memory = dict(carry["belief"]), dict(carry["memory"])
        wide = memory["gap"].dtype
        samples = batch.weight.sum().to(wide)
        memory["t"] = t = memory["t"] + 1
        adapting = t <= self.adapt
        log_step = torch.where(adapting, memory["log_step"], memory["log_step_mean"])
        sway = 1 + self.jitter * (2 * uniform(tick.seed, JITTER, 1)[0] - 1)
        size = self.lr * sway * log_step.exp() / samples.sqrt()

        def potential(at: Belief) -> Potential:
            return self.potential(learner, at, batch, tick.seed, samples)

        here = {n: belief[n] for n in learner.trainable}
        thrown = dict(zip(here, normals(tick.seed, list(here.values())), strict=True))
        before = potential(belief)
        there, momentum, after = leapfrog(potential, belief, thrown, before, size, self.leaps)
        gained = before.value + _kinetic(thrown, wide) - after.value - _kinetic(momentum, wide)
        chance = gained.clamp(max=0).exp().nan_to_num(nan=0.0)  # a path that left for infinity is refused
        accept = uniform(tick.seed, METROPOLIS, 1)[0].to(wide) < chance
        belief = {n: torch.where(accept, there[n], b) for n, b in belief.items()}
        memory |= dual_average(memory, adapting, chance, self.target)
        return {
            **carry,
            "belief": belief,
            "memory": memory,
            "loss": carry["loss"] + before.loss * samples,
            "samples": carry["samples"] + samples,
            "acceptance": carry["acceptance"] + torch.where(adapting, 0, chance),
            "draws": carry["draws"] + torch.where(adapting, 0, 1),
        }

    def potential(
        self, learner: Learner, belief: Belief, batch: Batch, seed: Tensor, samples: Tensor
    ) -> Potential:
        gradient = learner.gradient(belief, batch, seed)
        loss = gradient.loss.detach().to(samples.dtype)
        square = sum(belief[n].to(samples.dtype).square().sum() for n in learner.trainable)
        slope = {
            n: (samples.to(g.dtype) * g + self.prior * belief[n]) / self.temperature
            for n, g in gradient.grads.items()
        }
        value = (samples * loss + self.prior / 2 * square) / self.temperature
        return Potential(value, slope, loss, gradient.buffers)

    def finish(self, carry: Carry, gather: bool = False) -> Reply:
        memory, book, seen = carry["memory"], carry["book"], carry["samples"]
        numbers = {
            "loss": carry["loss"] / seen.clamp(min=1),
            "samples": seen,
            "acceptance": carry["acceptance"] / carry["draws"].clamp(min=1),
            "step": self.lr * memory["log_step_mean"].exp(),
        }
        return Reply(self.home(carry["belief"], book, gather), {**memory, **book}, numbers)


def leapfrog(
    potential: Potentials, belief: Belief, momentum: State, begin: Potential, size: Tensor, leaps: int
) -> tuple[State, State, Potential]:
    """The belief, its momentum and its potential after so many steps."""
    at, now = dict(belief), begin
    for _ in range(leaps):
        for n in momentum:
            step = size.to(at[n].dtype)
            half = momentum[n] - step / 2 * now.slope[n]
            momentum, at[n] = momentum | {n: half}, at[n] + step * half
        now = potential(at)
        at |= now.buffers
        momentum = {n: p - size.to(p.dtype) / 2 * now.slope[n] for n, p in momentum.items()}
    return at, momentum, now


def _kinetic(momentum: State, dtype: torch.dtype) -> Tensor:
    """½ ‖p‖²."""
    return torch.stack([p.to(dtype).square().sum() for p in momentum.values()]).sum() / 2


def dual_average(memory: Belief, adapting: Tensor, chance: Tensor, target: float) -> State:
    """The step's length after a draw that was accepted with that chance, if it still adapts."""
    t = memory["t"].to(chance.dtype)
    gap = (1 - 1 / (t + EARLY)) * memory["gap"] + (target - chance) / (t + EARLY)
    log_step = math.log(10) - t.sqrt() / GAMMA * gap
    mean = t**-FORGET * log_step + (1 - t**-FORGET) * memory["log_step_mean"]
    new = {"gap": gap, "log_step": log_step, "log_step_mean": mean}
    return {name: torch.where(adapting, value, memory[name]) for name, value in new.items()}
