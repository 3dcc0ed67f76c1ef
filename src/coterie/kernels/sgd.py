"""Stochastic gradient descent with momentum and weight decay.

    g ← ∇L(θ) + λ θ
    v ← μ v + g
    θ ← θ - η v            (Nesterov: θ ← θ - η (g + μ v))

η is `lr` times the schedule's factor, μ is `momentum`, λ is `weight_decay`. The same numbers as
torch.optim.SGD without dampening. With `clip` the gradient of a batch, ∇L(θ), is cut to that norm first, as
by torch.nn.utils.clip_grad_norm_, so that no step goes farther than a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.errors import BadInput
from coterie.core.kernel import WORK
from coterie.core.options import bounded
from coterie.kernels.local import LocalWork


@WORK.register("sgd")
@dataclass(frozen=True)
class SGD(LocalWork):
    """Stochastic gradient descent."""

    momentum: float = bounded(0.0, "lie in [0, 1)", "try 0.9")
    """Share of the last step that goes on, from 0 to below 1."""
    nesterov: bool = False
    """Look ahead along the momentum."""
    weight_decay: float = bounded(0.0, "be at least 0", "try 1e-4")
    """Pull of every trained parameter towards 0."""
    clip: float | None = bounded(None, "be above 0 and finite", "try 1, or leave it out", besides=None)
    """The norm that a batch's gradient is cut to; by default none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise BadInput("nesterov needs a momentum above 0: try momentum=0.9")

    def memories(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum else ()

    def cut_gradients(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.clip is None:
            return found
        norm = torch.stack([g.square().sum() for g in found.values()]).sum().sqrt()
        factor = (self.clip / norm.clamp(min=torch.finfo(norm.dtype).tiny)).clamp(max=1)
        return {n: factor * g for n, g in found.items()}

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
