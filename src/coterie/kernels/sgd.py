"""Stochastic gradient descent with momentum and weight decay.

    g ← ∇L(θ) + λ θ
    v ← μ v + g
    θ ← θ - η v            (Nesterov: θ ← θ - η (g + μ v))

η is `lr` times the schedule's factor, μ is `momentum`, λ is `weight_decay`. The same numbers as
torch.optim.SGD without dampening.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.kernels.local import LocalWork


@WORK.register("sgd")
@dataclass(frozen=True)
class SGD(LocalWork):
    """Stochastic gradient descent."""

    momentum: float = 0.0
    """Share of the last step that goes on, from 0 to below 1."""
    nesterov: bool = False
    """Look ahead along the momentum."""
    weight_decay: float = 0.0
    """Pull of every trained parameter towards 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise BadInput(f"momentum={self.momentum} must lie in [0, 1): try 0.9")
        if not 0 <= self.weight_decay < math.inf:
            raise BadInput(f"weight_decay={self.weight_decay} must be at least 0: try 1e-4")
        if self.nesterov and not self.momentum:
            raise BadInput("nesterov needs a momentum above 0: try momentum=0.9")

    def memories(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum else ()

    def update(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], t: Tensor, rate: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        rate = rate.to(param.dtype)
        if self.weight_decay:
            grad = grad + self.weight_decay * param
        if not self.momentum:
            return param - rate * grad, memory
        velocity = self.momentum * memory["velocity"] + grad
        step = grad + self.momentum * velocity if self.nesterov else velocity
        return param - rate * step, {"velocity": velocity}
