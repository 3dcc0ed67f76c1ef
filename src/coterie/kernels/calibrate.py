"""Scoring of probabilities, for a run's own evaluation: methods that ask for a loss do not pay for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Part
from coterie.metrics.calibration import (
    BINS,
    STEPS,
    THRESHOLDS,
    Calibration,
    Tally,
    calibration,
)
from coterie.metrics.table import Rows, figures

FIRST = 6 * BINS + 3 * (STEPS + 1)  # numbers of a tally that every classification has
POSITIVE = 3 * (THRESHOLDS + 1)  # that two classes have beside


@KERNELS.register("calibrate")
@dataclass(frozen=True)
class Calibrate:
    """What `Score` measures, and the metrics of a task that take more work: of probabilities, and of two
    classes where the more probable is said.
    """

    part: Part = "test"
    specificity: float = 0.0
    """With two classes, the sensitivity at this specificity in place of these three; 0: not asked for."""
    positive: int = 1
    """Of which of two classes these are."""
    label_counts: bool = True
    """Whether these are told: with the accuracy three say how many rows are of each class, one at a chosen
    specificity says how one row of a class ranks. A site of its own has its policy's."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        told = (self.positive, self.specificity, self.label_counts)
        return figures(Rows(task, outputs, losses, y, groups, *told), scored=True)


@KERNELS.register("tallied")
@dataclass(frozen=True)
class Tallied:
    """A classification's samples by confidence, by entropy, above each τ and, of two classes, called positive
    from each threshold on, as `unpacked` reads them.
    """

    part: Part = "test"
    least: int = 0
    """Bins with fewer samples are joined with their neighbours; a site of its own has its policy's."""
    positive: int = 1
    """Which of two classes samples are called."""
    label_counts: bool = True
    """Whether samples called positive are told: they say how many rows are of each class. A site of its own
    has its policy's."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        found = calibration(outputs, y, groups, self.least, self.positive if self.label_counts else None)
        flat = torch.cat(list(chain.from_iterable(found)), dim=1)
        if outputs.shape[1] == 2 and not self.label_counts:  # as many numbers as of a site that tells it
            flat = torch.nn.functional.pad(flat, (0, POSITIVE), value=math.nan)
        return {str(i): column for i, column in enumerate(flat.unbind(dim=1))}


def unpacked(numbers: Mapping[str, Tensor]) -> Calibration:
    """From replies' numbers to sums [client, bin]."""
    flat = torch.stack([numbers[str(i)] for i in range(len(numbers))], dim=1)
    kinds = flat.tensor_split([3 * BINS, 6 * BINS, FIRST], dim=1)
    return Calibration(*(Tally(*kind.tensor_split(3, dim=1)) for kind in kinds))
