"""Scoring of probabilities, for a run's own evaluation: methods that ask for a loss do not pay for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Part
from coterie.kernels.score import Score, always, of_classes
from coterie.metrics.calibration import (
    BINS,
    Calibration,
    Tally,
    at_label,
    brier,
    calibration,
    ece_of,
    softmax,
    tally,
)
from coterie.metrics.classification import hits, sensitivity


@KERNELS.register("calibrate")
@dataclass(frozen=True)
class Calibrate:
    """What `Score` measures, and for a classification ECE, Brier score and normalised NLL."""

    part: Part = "test"
    specificity: float = 0.0
    """With two classes, also the sensitivity at this specificity; 0: not asked for."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        if task != "classification":
            return Score(self.part).measure(task, outputs, losses, y, groups)
        right = hits(outputs, y)
        p, log_p = softmax(outputs)
        confidence = p.amax(dim=1)
        asked = {}
        if self.specificity and outputs.shape[1] == 2:
            asked["sensitivity"] = sensitivity(outputs[:, 1] - outputs[:, 0], y, self.specificity, groups)
        return {
            **always(losses, groups),
            **of_classes(outputs, right, y, groups),
            **asked,
            "ece": ece_of(tally(confidence, confidence, right, groups)),
            "brier": brier(p, y, groups),
            "nll": groups.mean(-at_label(log_p, y)),
        }


@KERNELS.register("tallied")
@dataclass(frozen=True)
class Tallied:
    """A classification's samples by confidence, by entropy and above each τ, as `unpacked` reads them."""

    part: Part = "test"
    least: int = 0
    """Bins with fewer samples are joined with their neighbours; a site of its own has its policy's."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        flat = torch.cat(list(chain.from_iterable(calibration(outputs, y, groups, self.least))), dim=1)
        return {str(i): column for i, column in enumerate(flat.unbind(dim=1))}


def unpacked(numbers: Mapping[str, Tensor]) -> Calibration:
    """From replies' numbers to sums [client, bin]."""
    flat = torch.stack([numbers[str(i)] for i in range(len(numbers))], dim=1)
    kinds = flat.tensor_split([3 * BINS, 6 * BINS], dim=1)
    return Calibration(*(Tally(*kind.chunk(3, dim=1)) for kind in kinds))
