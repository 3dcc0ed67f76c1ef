"""One linear map: logistic regression for classes, linear regression for numbers, Cox's model for survival.

    logits = W x + b        with x flattened

Grimberg 2020 (Titanic, 9 features to 2 classes), Makni 2022 (MNIST, 784 to 10). Both names build the same
module; which it is follows from the loss, cross-entropy, squared error or partial likelihood. There are two
names because that is what people look for, and each refuses what the other is for. A linear regression may be
trained on scaled targets (`core/target_scale.py`).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from coterie.core.errors import BadInput
from coterie.models.base import MODELS, check_scale, check_sizes, seeded, with_scale


@MODELS.register("logistic")
@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression: one row of weights for each class."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        check_sizes("logistic", inputs, outputs)
        if outputs < 2:
            raise BadInput(f"model logistic needs at least 2 classes; got outputs={outputs}: use linear")
        return seeded(seed, lambda: linear_map(inputs, outputs))


@MODELS.register("linear")
@dataclass(frozen=True)
class Linear:
    """One number out: linear regression, or of a survival the risk of Cox's model.

    centre       where the zero of a regression's targets is while it learns
    unit         how long their one is then; without either they are learnt as they are
    """

    centre: float | None = None
    unit: float | None = None

    def __post_init__(self) -> None:
        check_scale("linear", self.centre, self.unit)

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module:
        check_sizes("linear", inputs, outputs)
        if outputs != 1:
            raise BadInput(
                f"model linear has 1 output, a number; got outputs={outputs}: use logistic for classes"
            )
        made = seeded(seed, lambda: linear_map(inputs, outputs))
        return with_scale(made, self.centre, self.unit)


def linear_map(inputs: tuple[int, ...], outputs: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), head=nn.Linear(math.prod(inputs), outputs)))
