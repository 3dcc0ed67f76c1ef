"""Models by name, so that a site in another process can build them: a plugin of the contract's tests."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from coterie.models import MODELS

NAMES = ("contract-dropout", "contract-batchnorm")

if NAMES[0] not in MODELS:

    @MODELS.register("contract-dropout")
    @dataclass(frozen=True)
    class Dropout:
        """Two layers with seeded masks between them."""

        def build(self, shape, outputs, seed):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(5)
                return nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 3))

    @MODELS.register("contract-batchnorm")
    @dataclass(frozen=True)
    class BatchNorm:
        """Batch norm, whose statistics are buffers, one of them an integer."""

        def build(self, shape, outputs, seed):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(5)
                return nn.Sequential(
                    nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)
                )
