"""What came of each row. It has no name to be sent by: rows and what came of them stay in their process."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from coterie.core.contract import Groups, Part, Task
from coterie.metrics.bootstrap import Figure
from coterie.metrics.calibration import probabilities


@dataclass(frozen=True)
class RowByRow:
    """Keeps the values of each group's rows in `kept`, and says where; if they are to be `likely` too,
    probabilities and labels at the same place in `said`.
    """

    figure: Figure
    likely: bool = False
    part: Part = "test"
    kept: list[Tensor] = field(default_factory=list)
    said: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def measure(
        self, task: Task, outputs: Tensor, losses: Tensor, y: Tensor, groups: Groups
    ) -> dict[str, Tensor]:
        begun, sizes = len(self.kept), groups.sizes.tolist()
        self.kept.extend(torch.split(self.figure.of_row(outputs, y), sizes))
        if self.likely:
            p = probabilities(outputs).float()
            self.said.extend(zip(torch.split(p, sizes), torch.split(y, sizes), strict=True))
        return {"at": torch.arange(begun, len(self.kept), dtype=torch.float64)}
