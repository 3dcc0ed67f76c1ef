"""Preconditioned SGLD (Li, Chen, Carlson and Carin, 2016, Algorithm 1): Langevin steps in RMSprop's metric.

    V ← α V + (1 - α) ĝ²
    G ← 1 / (κ + √(V / (1 - αᵗ)))
    θ ← θ - η G (ĝ + λ θ / N) + √(2 η T G / N) ξ

ĝ is the gradient of the mean loss over a batch, α `decay`, κ `eps`; the rest as in `sgld.py`. Two deviations:
V is corrected for its start at 0 as Adam's is (else the first steps would be 1 / √(1 - α) times too long);
the term Γ = ∂G/∂θ, which needs second derivatives, is left out. It is of order 1 - α: a decay near 1 samples
the posterior, a lower one adapts sooner and is biased.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core.devices import widest
from coterie.core.kernel import WORK
from coterie.core.options import bounded
from coterie.kernels.sgld import SGLD


@WORK.register("psgld")
@dataclass(frozen=True)
class PSGLD(SGLD):
    """SGLD with a step of its own for each parameter."""

    lr: float = 1e-3
    """Learning rate of the drift, in units of the metric, at the start of the run."""
    decay: float = bounded(0.99, "lie in [0, 1)", "try 0.99")
    """Decay of the mean of squared gradients."""
    eps: float = bounded(1e-2, "be above 0", "try 1e-2")
    """Where gradients vanish, a step is at most 1 / eps times as long; in the paper 1e-5."""

    def memories(self) -> tuple[str, ...]:
        return ("square",)

    def update(
        self, param: Tensor, grad: Tensor, memory: dict[str, Tensor], t: Tensor, rate: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        square = self.decay * memory["square"] + (1 - self.decay) * grad.square()
        full = (1 - self.decay ** t.to(widest(t.device))).to(param.dtype)
        metric = 1 / (self.eps + (square / full).sqrt())
        return self.moved(param, grad, memory, rate, metric), {"square": square}
