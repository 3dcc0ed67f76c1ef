"""Scoring: a visit that leaves the belief alone and measures it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core.client import Task
from coterie.core.kernel import Part
from coterie.metrics.classification import accuracy, auc, balanced_accuracy
from coterie.metrics.regression import r2, rmse


@dataclass(frozen=True)
class Score:
    """Loss and accuracy (balanced accuracy, AUC for two classes), or RMSE and R² for a regression."""

    part: Part = "test"

    def measure(self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor) -> dict[str, float]:
        common = {"loss": float(losses.double().mean()), "samples": float(len(y))}
        if task == "regression":
            predicted = outputs.squeeze(-1)
            return {**common, "rmse": rmse(predicted, y), "r2": r2(predicted, y)}
        figures = {"accuracy": accuracy(outputs, y), "balanced_accuracy": balanced_accuracy(outputs, y)}
        if outputs.shape[1] == 2:
            figures["auc"] = auc(outputs[:, 1] - outputs[:, 0], y)
        return {**common, **figures}
