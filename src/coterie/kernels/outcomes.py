"""What came of each row. It has no name to be sent by: rows and what came of them stay in their process."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups
from coterie.core.kernel import Part
from coterie.metrics.bootstrap import Figure


@dataclass(frozen=True)
class RowByRow:
    """Keeps the values of each group's rows in `kept`, and says where."""

    figure: Figure
    part: Part = "test"
    kept: list[Tensor] = field(default_factory=list)

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        begun = len(self.kept)
        self.kept.extend(torch.split(self.figure.of_row(outputs, y), groups.sizes.tolist()))
        return {"at": torch.arange(begun, len(self.kept), dtype=torch.float64)}
