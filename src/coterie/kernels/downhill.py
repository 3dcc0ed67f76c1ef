"""One step of a given length down the whole gradient.

    w ← w - ρ ∇L(w) / |∇L(w)|

ρ is `length`, ∇L the gradient of the mean loss over all rows of the work inside, as in training; where it is
0, the belief stays. Its norm |∇L(w)| is told as `steepness`, beside the mean loss and the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from coterie.core.belief import Belief
from coterie.core.devices import widest
from coterie.core.kernel import KERNELS, Carry, Reply, Tick, Trainer
from coterie.core.learner import Batch, Learner
from coterie.core.options import bounded, check_options
from coterie.kernels.around import Around
from coterie.kernels.slopes import WHOLE


@KERNELS.register("downhill")
@dataclass(frozen=True)
class Downhill(Around):
    """A step of a given length down the gradient."""

    tells: ClassVar[str] = "each step"  # of which step its numbers are

    inner: Trainer = WHOLE
    """Says which rows there are, in one batch."""
    length: float = bounded(1.0, "be above 0 and finite", "try 1")
    """How far to go."""

    varies: ClassVar[tuple[str, ...]] = ("length",)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def numbers(self) -> tuple[str, ...]:
        return (*super().numbers, "steepness")

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        carry = super().start(belief, memory, {})
        return {**carry, "steepness": torch.zeros_like(carry["loss"])}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, found = dict(carry["belief"]), learner.gradient(carry["belief"], batch, tick.seed)
        wide = widest(batch.x.device)
        norm = torch.stack([found.grads[n].to(wide).square().sum() for n in learner.trainable]).sum().sqrt()
        far = torch.where(norm > 0, self.length / norm.clamp(min=torch.finfo(wide).tiny), 0.0)
        for n in learner.trainable:
            belief[n] = (belief[n].to(wide) - far * found.grads[n].to(wide)).to(belief[n].dtype)
        seen = batch.weight.sum().to(carry["samples"].dtype)
        loss = found.loss.detach().to(seen.dtype) * seen
        return {
            **carry,
            "belief": belief,
            "steepness": carry["steepness"] + norm,
            "loss": carry["loss"] + loss,
            "samples": carry["samples"] + seen,
        }

    def finish(self, carry: Carry) -> Reply:
        reply = super().finish(carry)
        return reply._replace(numbers={**reply.numbers, "steepness": carry["steepness"]})
