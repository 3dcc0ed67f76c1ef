"""Models for the contract's tests. As a plugin, this file registers them, for sites in other processes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from coterie.models import MODELS


@dataclass(frozen=True)
class Dropout:
    """Two layers with seeded masks between them."""

    def build(self, shape, outputs, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 3))


@dataclass(frozen=True)
class BatchNorm:
    """Batch norm, whose statistics are buffers, one of them an integer."""

    def build(self, shape, outputs, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


@dataclass(frozen=True)
class Linear:
    """One linear map, for what solves it."""

    def build(self, shape, outputs, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return nn.Sequential(nn.Flatten(), nn.Linear(4, 3))


KINDS = {"dropout": Dropout, "batchnorm": BatchNorm, "linear": Linear}
if __name__.startswith("coterie_plugin"):
    for name, kind in KINDS.items():
        MODELS.register(f"contract-{name}")(kind)
