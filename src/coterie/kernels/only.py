"""Local work on some of a model's parameters: the others stay as they are, and no gradient is taken for them.

    θ_names ← LocalWork(θ_names; θ)

Batch norm's statistics go on as in any training step, whichever layer is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.core.contract import Batch, Belief, Carry, Learner, Tick, Trainer
from coterie.core.kernel import KERNELS
from coterie.kernels.around import Around, AsCostly
from coterie.kernels.sgd import SGD


@KERNELS.register("only")
@dataclass(frozen=True)
class Only(AsCostly):
    """The same work, on parameters of these names alone."""

    inner: Trainer = SGD()
    """The local work itself."""
    names: tuple[str, ...] = ()
    """Which tensors of the model are trained."""

    def fresh(self, learner: Learner, belief: Belief) -> Belief:
        return super().fresh(learner.only(self.names), belief)

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        return super().step(learner.only(self.names), carry, batch, tick)


def trained_by(kernel: Any) -> tuple[str, ...] | None:
    """The names of the only tensors that work trains; None: all that can be."""
    while isinstance(kernel, Around):
        if isinstance(kernel, Only):
            return kernel.names
        kernel = kernel.inner
    return None
