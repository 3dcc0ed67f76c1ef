"""Metrics of one's own beside the usual ones: functions, so the kernel has no name to be sent by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import Part, Scorer
from coterie.metrics.own import Metric, predicted


@dataclass(frozen=True)
class Beside:
    """What the scorer inside measures, and then each metric on the rows of each client."""

    inner: Scorer
    metrics: tuple[Metric, ...]

    @property
    def part(self) -> Part | None:
        return self.inner.part

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        figures = self.inner.measure(task, outputs, losses, y, groups)
        sizes = groups.sizes.tolist()
        rows = list(zip(*(torch.split(t, sizes) for t in (predicted(task, outputs), y)), strict=True))
        for metric in self.metrics:
            values = [metric.of(p, t, f"{len(t)} {self.part} rows") for p, t in rows]
            figures[metric.name] = torch.tensor(values, dtype=torch.float64)
        return figures
