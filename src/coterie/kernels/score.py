"""Scoring: visits that leave the belief alone and measure it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import KERNELS, Part, Scorer
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
