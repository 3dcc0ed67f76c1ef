"""SWAG: a Gaussian fitted to the path of SGD (Maddox et al., 2019, Algorithm 1; Makni, 2022, Algorithm 1).

    θᵢ ← θᵢ₋₁ - η ∇L(θᵢ₋₁)
    every c steps, n = i / c:    θ̄ ← (n θ̄ + θᵢ) / (n + 1),    θ²‾ ← (n θ²‾ + θᵢ²) / (n + 1)
                                 append the column θᵢ - θ̄ to D̂, and keep the last K
    posterior   N(θ̄, ½ Σ_diag + D̂ D̂ᵀ / (2 (K - 1))),   Σ_diag = θ²‾ - θ̄²

η is `lr`, c `every`, K `rank`; Σ_diag is collected in the form of `bayes.py`. Steps are those of SGD, so
momentum and weight decay are open too: a Gaussian prior of precision λ is weight_decay = λ / N for a client
of N samples. The temperature is a matter of drawing: see `posterior.py`.

θ̄ begins at θ₀, which counts as the first state but gives no column; after a burn-in, the state at its end
takes the place of θ₀. With origin=false only states after it count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.kernel import KERNELS, Carry, Reply, Tick
from coterie.core.learner import Batch, Learner
from coterie.kernels.bayes import Collecting, collected_names, moments
from coterie.kernels.sgd import SGD


@KERNELS.register("swag")
@dataclass(frozen=True)
class SWAG(Collecting, SGD):
    """SGD that collects the moments of its path."""

    origin: bool = True
    """Count the state at which collecting begins, as Algorithm 1 does."""

    ring: ClassVar[str] = "deviation"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_collecting()

    def column(self, state: Tensor, mean: Tensor) -> Tensor:
        return state - mean

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return {**super().fresh(learner, belief), **self.nothing_yet(learner, belief)}

    def first(self) -> int:
        return 0 if self.origin else 1

    def start(self, belief: Belief, memory: Belief) -> Carry:
        wide = self.rolled(memory)
        return super().start(belief, wide if self.burn or not self.origin else begun(wide, belief))

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        carry = super().step(learner, carry, batch, tick)
        return carry | {"memory": self.collect(carry["memory"], carry["belief"])}

    def finish(self, carry: Carry, gather: bool = False) -> Reply:
        last = super().finish(carry)
        memory = self.unrolled(last.memory)
        return Reply(self.home(last.belief, memory, gather), memory, last.numbers)


def begun(memory: Belief, belief: Belief) -> dict[str, Tensor]:
    """Before the first step of all, the moments are those of θ₀."""
    now = memory["t"] == 0
    after = dict(memory) | {"count": torch.where(now, 1, memory["count"])}
    for n in collected_names(memory):
        after |= moments(memory, n, belief[n], now.to(belief[n].dtype))
    return after
