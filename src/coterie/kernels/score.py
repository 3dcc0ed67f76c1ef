"""Scoring: visits that leave the belief alone and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.client import Task
from coterie.core.kernel import KERNELS, Part, Scorer
from coterie.metrics.classification import accuracy, auc, balanced_accuracy
from coterie.metrics.regression import r2, rmse


@KERNELS.register("score")
@dataclass(frozen=True)
class Score:
    """Loss and accuracy (balanced accuracy, AUC for two classes), or RMSE and R² for a regression."""

    part: Part = "test"
    """On which of the client's rows."""
    numbers: tuple[str, ...] = ()
    """Which of these figures leave the client; all, if none is named."""

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        figures = {"loss": float(losses.double().mean()), "samples": float(len(y))}
        if task == "regression":
            predicted = outputs.squeeze(-1)
            figures |= {"rmse": rmse(predicted, y), "r2": r2(predicted, y)}
        elif not self.numbers or set(self.numbers) - {"loss", "samples"}:
            figures |= {"accuracy": accuracy(outputs, y), "balanced_accuracy": balanced_accuracy(outputs, y)}
            if outputs.shape[1] == 2:
                figures["auc"] = auc(outputs[:, 1] - outputs[:, 0], y)
        return {name: figures[name] for name in self.numbers} if self.numbers else figures


@KERNELS.register("here")
@dataclass(frozen=True)
class Here:
    """Asks nothing: that a site answers is all there is to know."""

    part: ClassVar[None] = None

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        return {}


@KERNELS.register("crowd")
@dataclass(frozen=True)
class Crowd:
    """All beliefs that visit a host predict together, by their average, and that is what is scored.

    What each counts is the number `share` of what it has beside it under that name; without it, all alike.
    """

    inner: Scorer = Score()
    """What measures the average prediction."""

    together: ClassVar[bool] = True

    @property
    def part(self) -> Part | None:
        return self.inner.part

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        return self.inner.measure(task, outputs, losses, y)
