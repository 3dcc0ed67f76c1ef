"""A multilayer perceptron: linear maps with a nonlinearity between them.

h_0 = x flattened,  h_l = activation(W_l h_{l-1} + b_l),  logits = W h_L + b
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from torch import nn

from coterie.core.errors import BadInput, UnknownName, shown
from coterie.models.base import MODELS, check_scale, check_sizes, seeded, with_scale

WIDEST = 10**9  # units of a layer; far fewer fit into memory
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


@MODELS.register("mlp")
@dataclass(frozen=True)
class Mlp:
    """Hidden layers of the given sizes; for any inputs, flattened.

    hidden       units of each hidden layer
    activation   relu or tanh
    centre       where the zero of a regression's targets is while it learns
    unit         how long their one is then; without either they are learnt as they are
    """

    hidden: tuple[int, ...] = (64,)
    activation: Literal["relu", "tanh"] = "relu"
    centre: float | None = None
    unit: float | None = None

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise BadInput(
                f"model mlp: hidden={tuple(self.hidden)} must be one or more sizes of at least 1: try 64, "
                "or the model logistic for no hidden layer"
            )
        if max(self.hidden) > WIDEST:
            raise BadInput(
                f"model mlp: hidden={shown(tuple(self.hidden))} is too wide: at most {WIDEST}: try 64"
            )
        if self.activation not in ACTIVATIONS:
            raise UnknownName("activation", self.activation, ACTIVATIONS)
        check_scale("mlp", self.centre, self.unit)

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        check_sizes("mlp", inputs, outputs)
        made = seeded(seed, lambda: self.layers(math.prod(inputs), outputs))
        return with_scale(made, self.centre, self.unit) if outputs == 1 else made

    def layers(self, features: int, outputs: int) -> nn.Sequential:
        layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        for i, units in enumerate(self.hidden, start=1):
            layers[f"hidden{i}"] = nn.Linear(features, units)
            layers[f"activation{i}"] = ACTIVATIONS[self.activation]()
            features = units
        layers["head"] = nn.Linear(features, outputs)
        return nn.Sequential(layers)
