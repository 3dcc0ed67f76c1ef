"""Stochastic gradient Langevin dynamics (Welling and Teh, 2011).

    U(θ) = N L(θ) + λ/2 ‖θ‖²,    π(θ) ∝ exp(-U(θ) / T)
    θ ← θ - (ε/2) ∇Û(θ) + √(ε T) ξ,    ξ ~ N(0, I)

L is the mean loss over the client's N samples (Û: over a batch of them), λ `prior`, T `temperature`. The step
is ε = 2 η / N with η = `lr` times the schedule's factor, so that a rate means here what it means for SGD:

    θ ← θ - η (∇L̂(θ) + λ θ / N) + √(2 η T / N) ξ

Cross-entropy is a negative log-likelihood as it stands. A squared error is that of noise of variance ½; for
noise of variance s and a prior of precision p take temperature = 2 s and prior = 2 s p.

There is no Metropolis step: on a Gaussian of precision a / T the chain has variance T / (a (1 - η a / (2 N)))
instead of T / a, and the noise of batches adds to it. ξ is a hash of the step's seed, alike on all engines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coterie.core.contract import Belief, Key, Learner, Plan, Tick
from coterie.core.kernel import WORK
from coterie.core.options import bounded
from coterie.kernels.bayes import CollectingWork, normals


@WORK.register("sgld")
@dataclass(frozen=True)
class SGLD(CollectingWork):
    """Stochastic gradient Langevin dynamics."""

    lr: float = 0.01
    """Learning rate of the drift on the mean loss, at the start of the run."""
    prior: float = bounded(1.0, "be at least 0 and finite", "try 1")
    """Precision of the Gaussian prior on every trained parameter; 0 for none."""
    temperature: float = bounded(1.0, "be at least 0 and finite", "try 1")
    """1 for the posterior, below 1 for a colder one; 0 leaves the noise out."""

    def memories(self) -> tuple[str, ...]:
        return ()

    extent = CollectingWork.extent

    def plan(self, samples: int, key: Key) -> Plan:
        drawn = super().plan(samples, key)
        # each step is told N beside its rate
        rates = torch.stack([drawn.rates, torch.full_like(drawn.rates, samples)], dim=1)
        return replace(drawn, rates=rates)

    def terms(
        self, learner: Learner, belief: Belief, tick: Tick
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]]]:
        rate, samples = tick.rate.unbind()
        noises = normals(tick.seed, [belief[n] for n in learner.trainable])
        each = zip(learner.trainable, noises, strict=True)
        return rate * self.lr, {n: {"noise": noise, "samples": samples} for n, noise in each}

    def update(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], t: Tensor, rate: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return self.moved(param, grad, memory, rate, torch.ones_like(param)), {}

    def moved(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], rate: Tensor, metric: Tensor
    ) -> Tensor:
        """One Langevin step in a diagonal metric G: θ - η G (g + λ θ / N) + √(2 η T G / N) ξ."""
        samples, dtype = memory["samples"], param.dtype
        drift = grad + (self.prior / samples).to(dtype) * param
        spread = (2 * rate * self.temperature / samples).sqrt().to(dtype)
        return param - rate.to(dtype) * metric * drift + spread * metric.sqrt() * memory["noise"]
