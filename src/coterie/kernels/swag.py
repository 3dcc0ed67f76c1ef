"""SWAG: a Gaussian fitted to the path of SGD (Maddox et al., 2019, Algorithm 1; Makni, 2022, Algorithm 1).

    θᵢ ← θᵢ₋₁ - η ∇L(θᵢ₋₁)
    every c steps, n = i / c:    θ̄ ← (n θ̄ + θᵢ) / (n + 1),    θ²‾ ← (n θ²‾ + θᵢ²) / (n + 1)
                                 append the column θᵢ - θ̄ to D̂, and keep the last K
    posterior   N(θ̄, ½ Σ_diag + D̂ D̂ᵀ / (2 (K - 1))),   Σ_diag = θ²‾ - θ̄²

η is `lr`, c `every` (of epochs, with per="epoch"), K `rank`; Σ_diag is collected in the form of `bayes.py`.
Steps are those of SGD, so momentum and weight decay are open too: a Gaussian prior of precision λ is
weight_decay = λ / N for a client of N samples. The temperature is a matter of drawing: see `posteriors`.

θ̄ begins at θ₀, which counts as the first state but gives no column; after a burn-in, the last state passed
over takes the place of θ₀. With origin=false only states after it count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.belief import Belief
from coterie.core.kernel import WORK, Carry
from coterie.kernels.bayes import CollectingWork, collected_names, moments
from coterie.kernels.sgd import SGD


@WORK.register("swag")
@dataclass(frozen=True)
class SWAG(CollectingWork, SGD):
    """SGD that collects the moments of its path."""

    origin: bool = True
    """Count the state at which collecting begins, as Algorithm 1 does."""

    ring: ClassVar[str] = "deviation"

    def column(self, state: Tensor, mean: Tensor) -> Tensor:
        return state - mean

    def ahead(self) -> int:
        return 1 if self.origin else 0

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        carry = super().start(belief, memory, beside)
        if self.burn or not self.origin:
            return carry
        return carry | {"book": _begun(carry["book"], belief)}


def _begun(book: Belief, belief: Belief) -> dict[str, Tensor]:
    """Where nothing counts so far, the moments are those of θ₀."""
    after = {**book, "count": book["count"].clamp(min=1)}
    for n in collected_names(book):
        after |= moments(book, n, belief[n], (book["count"] < 1).to(belief[n].dtype))
    return after
