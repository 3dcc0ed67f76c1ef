"""A survival's loss in a form that can be compared between clients.

    λ = Σ_i ( ℓ_i - e_i log |R_i| ) / Σ_i e_i

ℓ_i is Cox's loss of row i, e_i whether its event was seen, R_i its risk set. The mean of ℓ_i over rows grows
with the share of rows that have an event and with the logarithm of their number, whatever the model is. λ is
by event, and less what a model loses that gives all rows the same risk: 0 is to know nothing, below 0 is
better. NaN without an event. It is Cox's loss also where a model is trained by another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups, part_numbers
from coterie.core.kernel import KERNELS, Scorer, apart
from coterie.kernels.score import AroundScorer, Score
from coterie.metrics.survival import excess

USUAL = Score("train", ("loss", "samples"))


@KERNELS.register("relative")
@dataclass(frozen=True)
class Relative(AroundScorer):
    """The loss of a survival by event, against a model that knows nothing."""

    inner: Scorer = USUAL
    """Says on which rows, and takes means over them."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        above = excess(outputs.squeeze(-1), y, part_numbers(groups, apart(self.inner, groups)))
        found, seen = (
            self.inner.measure(task, outputs, values, y, groups)["loss"]
            for values in (above, (y > 0).double())
        )
        figures = self.inner.measure(task, outputs, losses, y, groups)
        return {**figures, "loss": torch.where(seen > 0, found / seen, math.nan)}
