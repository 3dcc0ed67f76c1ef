"""Scoring: visits that leave the belief alone and measure it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Part, Scorer
from coterie.metrics.classification import accuracy, auc, balanced_accuracy, hits
from coterie.metrics.regression import r2, rmse
from coterie.metrics.survival import concordance


@KERNELS.register("score")
@dataclass(frozen=True)
class Score:
    """Loss and accuracy (balanced accuracy, AUC for two classes); RMSE and R² for a regression,
    concordance for a survival.
    """

    part: Part = "test"
    """On which of the client's rows."""
    numbers: tuple[str, ...] = ()
    """Which of these figures leave the client; all, if none is named."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        figures = always(losses, groups)
        if not self.numbers or set(self.numbers) - figures.keys():
            figures |= FIGURES[task](outputs, y, groups)
        return {name: figures[name] for name in self.numbers} if self.numbers else figures


def always(losses: Tensor, groups: Groups) -> dict[str, Tensor]:
    """What every task has."""
    return {"loss": groups.mean(losses), "samples": groups.sizes.double()}


def of_regression(outputs: Tensor, y: Tensor, groups: Groups) -> dict[str, Tensor]:
    predicted = outputs.squeeze(-1)
    return {"rmse": rmse(predicted, y, groups), "r2": r2(predicted, y, groups)}


def of_survival(outputs: Tensor, y: Tensor, groups: Groups) -> dict[str, Tensor]:
    return {"concordance": concordance(outputs.squeeze(-1), y, groups)}


def of_classification(outputs: Tensor, y: Tensor, groups: Groups) -> dict[str, Tensor]:
    return of_classes(outputs, hits(outputs, y), y, groups)


def of_classes(outputs: Tensor, right: Tensor, y: Tensor, groups: Groups) -> dict[str, Tensor]:
    """`right` [row] comes from `hits`."""
    classes = outputs.shape[1]
    figures = {
        "accuracy": accuracy(right, groups),
        "balanced_accuracy": balanced_accuracy(right, y, classes, groups),
    }
    if classes == 2:
        figures["auc"] = auc(outputs[:, 1] - outputs[:, 0], y, groups)
    return figures


FIGURES: dict[Task, Callable[[Tensor, Tensor, Groups], dict[str, Tensor]]] = {
    "classification": of_classification,
    "regression": of_regression,
    "survival": of_survival,
}
"""What a task has besides its loss."""


@KERNELS.register("here")
@dataclass(frozen=True)
class Here:
    """Asks nothing: that a site answers is all there is to know."""

    part: ClassVar[None] = None

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
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

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        return self.inner.measure(task, outputs, losses, y, groups)
