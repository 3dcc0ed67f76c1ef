"""Adam (Kingma and Ba, 2015, Algorithm 1), with weight decay inside the gradient or decoupled (AdamW).

    m ← β₁ m + (1 - β₁) g
    s ← β₂ s + (1 - β₂) g²
    θ ← θ - η (m / (1 - β₁ᵗ)) / (√(s / (1 - β₂ᵗ)) + ε)

η is `lr` times the schedule's factor, t counts the steps since the state was fresh. AdamW (Loshchilov and
Hutter, 2019) takes η λ θ off θ first, λ being `weight_decay`, and leaves it out of g. The same numbers as
torch.optim.Adam and torch.optim.AdamW.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.devices import widest
from coterie.core.kernel import WORK
from coterie.core.options import bounded
from coterie.kernels.local import LocalWork


@WORK.register("adam")
@dataclass(frozen=True)
class Adam(LocalWork):
    """Adam, or AdamW with `decoupled`."""

    lr: float = 1e-3
    """Learning rate at the start of the run."""
    beta1: float = bounded(0.9, "lie in [0, 1)", "try 0.9")
    """Decay of the mean of gradients."""
    beta2: float = bounded(0.999, "lie in [0, 1)", "try 0.9")
    """Decay of the mean of squared gradients."""
    eps: float = bounded(1e-8, "be above 0", "try 1e-8")
    """Keeps the division away from 0."""
    weight_decay: float = bounded(0.0, "be at least 0", "try 1e-4")
    """Pull of every trained parameter towards 0."""
    decoupled: bool = False
    """Apply weight decay to the parameter itself (AdamW), not through the gradient."""

    def memories(self) -> tuple[str, ...]:
        return ("mean", "square")

    def update(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], t: Tensor, rate: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        # 1 - β^t as exactly as can be: in float32, 1 - 0.999 is off by 1e-5
        count, rate = t.to(widest(t.device)), rate.to(param.dtype)
        if self.weight_decay and self.decoupled:
            param = param - rate * self.weight_decay * param
        elif self.weight_decay:
            grad = grad + self.weight_decay * param
        mean = self.beta1 * memory["mean"] + (1 - self.beta1) * grad
        square = self.beta2 * memory["square"] + (1 - self.beta2) * grad.square()
        corrected = mean / (1 - self.beta1**count).to(param.dtype)
        spread = (square / (1 - self.beta2**count).to(param.dtype)).sqrt() + self.eps
        return param - rate * corrected / spread, {"mean": mean, "square": square}


@WORK.register("adamw")
@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.01
    """Pull of every trained parameter towards 0."""

    decoupled: ClassVar[bool] = True  # type: ignore[misc]
