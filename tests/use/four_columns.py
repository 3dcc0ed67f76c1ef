"""A model of four columns, whose numbers are worked out by hand."""

from __future__ import annotations

import torch
from torch import nn

from coterie.data.preparation import Column, Part, Preparation
from coterie.models.linear import linear_map

PARTS = (
    Part(Column("age", unit="years", center=50.0, spread=10.0), fill=48.0),
    Part(Column("smokes", "flag"), fill=None),
    Part(Column("stage", "category", ("I", "II"), (1.0, 2.0)), fill=1.0),
    Part(Column("dose"), instead=(0.25,)),
)
WAY = Preparation(PARTS)  # inputs: age, smokes, stage=I, stage=II, dose
WEIGHTS = [[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.0, -1.0, 3.0, 4.0]]  # of well and ill
BIAS = [0.0, -1.0]


def linear(weights=WEIGHTS, bias=BIAS) -> nn.Module:
    model = linear_map((len(weights[0]),), len(weights))
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor(weights))
        model.head.bias.copy_(torch.tensor(bias))
    return model.eval()
