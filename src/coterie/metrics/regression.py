"""How far a regression is off. All take one client's test set."""

from __future__ import annotations

import math

from torch import Tensor


def rmse(predicted: Tensor, y: Tensor) -> float:
    """The root of the mean squared error, in the target's own unit."""
    return float((predicted.double() - y.double()).square().mean().sqrt())


def r2(predicted: Tensor, y: Tensor) -> float:
    """1 - (squared error) / (squared deviation from the mean of y); NaN where y does not vary."""
    y = y.double()
    if len(y) < 2 or bool(y.max() == y.min()):
        return math.nan
    spread = (y - y.mean()).square().sum()
    return float(1 - (predicted.double() - y).square().sum() / spread)
