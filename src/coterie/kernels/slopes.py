"""How fast a client's loss rises from the visiting belief towards others.

    numbers   slope/NAME = ⟨∇L(w), w - v⟩      for each belief v that the visit has beside it, by its name

Beside them are the mean loss and the number of rows. ∇L is the gradient of the mean loss over all rows of the
work inside, as in training. The belief comes back as it went: only numbers leave.
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
from coterie.kernels.around import Around
from coterie.kernels.sgd import SGD

WHOLE = SGD(lr=1.0, batch=2**31, shuffle=False)
"""One step along the whole gradient."""


@KERNELS.register("slopes")
@dataclass(frozen=True)
class Slopes(Around):
    """Slopes of the loss towards other beliefs."""

    compares: ClassVar[bool] = True  # its numbers tell how beliefs differ
    tells: ClassVar[str] = "each step"  # of which step its numbers are

    inner: Trainer = WHOLE
    """Says which rows there are, in one batch."""

    def start(self, belief: Belief, memory: Belief, beside: Mapping[str, Belief]) -> Carry:
        zero = torch.zeros_like(super().start(belief, memory, {})["loss"])
        slopes = {f"slope/{name}": zero for name in beside}
        others = {name: dict(other) for name, other in beside.items()}
        return {**super().start(belief, memory, {}), "others": others, "slopes": slopes}

    def step(self, learner: Learner, carry: Carry, batch: Batch, tick: Tick) -> Carry:
        belief, found = carry["belief"], learner.gradient(carry["belief"], batch, tick.seed)
        wide = widest(batch.x.device)
        slopes = {
            f"slope/{name}": sum(
                (found.grads[n].to(wide) * (belief[n] - other[n]).to(wide)).sum() for n in learner.trainable
            )
            for name, other in carry["others"].items()
        }
        seen = batch.weight.sum().to(carry["samples"].dtype)
        loss = found.loss.detach().to(seen.dtype) * seen
        return {**carry, "slopes": slopes, "loss": carry["loss"] + loss, "samples": carry["samples"] + seen}

    def finish(self, carry: Carry) -> Reply:
        reply = super().finish(carry)
        return reply._replace(numbers={**reply.numbers, **carry["slopes"]})
