"""A regression's targets in a unit of their own, inside the model.

    outputs = centre + unit · f(x)          loss of a step = Σ (outputs - y)² / unit²

Networks learn numbers of about 1; a target of mean 5000 is out of reach for steps that suit everything else.
Centre and unit are constants of the module, the same at every site, so that models can be averaged; they are
options of the model, so that they go wherever it goes. What comes out is in the target's own unit.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn


class Scale(NamedTuple):
    """Where a target's zero is, and how long its one."""

    centre: float = 0.0
    unit: float = 1.0


class TargetScale(nn.Module):
    """The last layer of a model that is trained on scaled targets: no tensors, nothing to learn."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, outputs: Tensor) -> Tensor:
        return outputs * self.scale.unit + self.scale.centre

    def extra_repr(self) -> str:
        return f"centre={self.scale.centre!r}, unit={self.scale.unit!r}"


def scale_of(model: nn.Module) -> Scale:
    """What a model has at its end; targets as they are where it has none."""
    found = [m.scale for m in model.modules() if isinstance(m, TargetScale)]
    return found[-1] if found else Scale()
