"""How far a regression is off in each of several groups of rows, [group]; without groups, all are one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coterie.core.groups import Groups, added, whole


def rmse(predicted: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """The root of the mean squared error, in the target's own unit."""
    return whole(groups, y).mean(squared_errors(predicted, y)).sqrt()


def squared_errors(predicted: Tensor, y: Tensor) -> Tensor:
    """[row]"""
    return (predicted.double() - y.double()).square()


def r2(predicted: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """1 - (squared error) / (squared deviation from the mean of y); NaN where y does not vary."""
    groups, y = whole(groups, y), y.double()
    spread = groups.sum((y - groups.mean(y)[groups.index]).square())
    error = groups.sum(squared_errors(predicted, y))
    # whether some row of a group differs from the one before: a mean may be rounded, and would not tell
    differs = (groups.index[1:] == groups.index[:-1]) & (y[1:] != y[:-1])
    varies = added(groups.index[1:], len(groups.sizes), differs) > 0
    return torch.where(varies, 1 - error / spread, math.nan)
