"""Scoring: visits that leave the belief alone and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Part, Scorer
from coterie.metrics.own import Metric, predicted
from coterie.metrics.table import Rows, figures


@KERNELS.register("score")
@dataclass(frozen=True)
class Score:
    """The metrics of a task (`metrics/table.py`) that take little work, the loss first."""

    part: Part = "test"
    """On which of the client's rows."""
    numbers: tuple[str, ...] = ()
    """Which of these figures leave the client; all, if none is named."""

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        return figures(Rows(task, outputs, losses, y, groups), self.numbers)


@KERNELS.register("here")
@dataclass(frozen=True)
class Here:
    """Asks nothing: that a site answers is all there is to know."""

    part: ClassVar[None] = None

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        return {}


@dataclass(frozen=True)
class AroundScorer:
    """The same figures of the same rows; what differs is in a subclass."""

    inner: Scorer = Score()
    """What measures."""

    @property
    def part(self) -> Part | None:
        return self.inner.part

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        return self.inner.measure(task, outputs, losses, y, groups)


@KERNELS.register("crowd")
@dataclass(frozen=True)
class Crowd(AroundScorer):
    """All beliefs that visit a host predict together, by their average, and that is what is scored.

    What each counts is the number `share` of what it has beside it under that name; without it, all alike.
    """

    together: ClassVar[bool] = True


@dataclass(frozen=True)
class Beside(AroundScorer):
    """What the scorer inside measures, and then each metric of one's own on the rows of each client:
    functions, so it has no name to be sent by.
    """

    metrics: tuple[Metric, ...] = ()

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        figures = super().measure(task, outputs, losses, y, groups)
        sizes = groups.sizes.tolist()
        rows = list(zip(*(torch.split(t, sizes) for t in (predicted(task, outputs), y)), strict=True))
        for metric in self.metrics:
            values = [metric.of(p, t, f"{len(t)} {self.part} rows") for p, t in rows]
            figures[metric.name] = torch.tensor(values, dtype=torch.float64)
        return figures
