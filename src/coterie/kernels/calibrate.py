"""Scoring of probabilities, for a run's own evaluation: methods that ask for a loss do not pay for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.kernel import KERNELS, Part
from coterie.kernels.score import Score
from coterie.metrics.calibration import (
    BINS,
    Calibration,
    Tally,
    brier,
    calibration,
    ece,
    normalised_nll,
    probabilities,
)


@KERNELS.register("calibrate")
@dataclass(frozen=True)
class Calibrate:
    """What `Score` measures, and for a classification ECE, Brier score and normalised NLL."""

    part: Part = "test"

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        figures = Score(self.part).measure(task, outputs, losses, y)
        if task == "regression":
            return figures
        logits, y = outputs.cpu(), y.cpu()
        p = probabilities(logits)
        return figures | {"ece": ece(p, y), "brier": brier(p, y), "nll": normalised_nll(logits, y)}


@KERNELS.register("tallied")
@dataclass(frozen=True)
class Tallied:
    """A classification's samples by confidence, by entropy and above each τ, as `unpacked` reads them."""

    part: Part = "test"

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        flat = torch.cat(list(chain.from_iterable(calibration(outputs.cpu(), y.cpu()))))
        return {str(i): v for i, v in enumerate(flat.tolist())}


def unpacked(numbers: Mapping[str, Tensor]) -> Calibration:
    """From replies' numbers to sums [client, bin]."""
    flat = torch.stack([numbers[str(i)] for i in range(len(numbers))], dim=1)
    kinds = flat.tensor_split([3 * BINS, 6 * BINS], dim=1)
    return Calibration(*(Tally(*kind.chunk(3, dim=1)) for kind in kinds))
