"""A model is a frozen dataclass of options that builds a module for given inputs and outputs.

`inputs` is the shape of one sample, (9,) or (1, 28, 28); the module maps x [n, *inputs] to logits
[n, outputs], for a regression to [n, 1]. The softmax belongs to the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.core.registry import Registry
from coterie.core.target_scale import Scale, TargetScale

M = TypeVar("M", bound=nn.Module)


class Model(Protocol):
    """A frozen dataclass of options with this one function: the same seed gives the same weights."""

    def build(self, inputs: tuple[int, ...], outputs: int, seed: int) -> nn.Module: ...


MODELS: Registry[Model] = Registry("model")


def seeded(seed: int, make: Callable[[], M]) -> M:
    """What `make` builds, with torch's usual initialisation drawn from `seed`; its global state stays.

    Only the CPU's generator is used, whatever devices there are, so that weights do not depend on them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def check_scale(model: str, centre: float | None, unit: float | None) -> None:
    """Refuses what no target can be measured by."""
    if centre is not None and not math.isfinite(centre):
        raise BadInput(f"model {model}: centre={centre} must be finite: try the mean of the targets")
    if unit is not None and not 0 < unit < math.inf:
        raise BadInput(f"model {model}: unit={unit} must be above 0 and finite: try the targets' deviation")


def with_scale(made: nn.Sequential, centre: float | None, unit: float | None) -> nn.Sequential:
    """Layers with the scale of their targets behind them, if there is one."""
    if centre is not None or unit is not None:
        made.add_module("scale", TargetScale(Scale(centre or 0.0, unit or 1.0)))
    return made


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def check_sizes(model: str, inputs: tuple[int, ...], outputs: int) -> None:
    if not inputs or min(inputs) < 1:
        raise BadInput(f"model {model}: inputs of shape {tuple(inputs)} are empty: give at least one feature")
    if outputs < 1:
        raise BadInput(f"model {model}: outputs={outputs} must be at least 1: give the number of classes")


def picture(model: str, inputs: tuple[int, ...], outputs: int, smallest: int = 1) -> tuple[int, int, int]:
    """Channels, height and width of a picture that is large enough for the model."""
    check_sizes(model, inputs, outputs)
    if len(inputs) != 3:
        raise BadInput(
            f"model {model} needs pictures (channel, height, width); got inputs of shape {tuple(inputs)}: "
            "use mlp or logistic"
        )
    channels, height, width = inputs
    if min(height, width) < smallest:
        raise BadInput(
            f"model {model} needs pictures of at least {smallest}x{smallest}; got {height}x{width}: "
            "use erosion-cnn or mlp, which take any size"
        )
    return channels, height, width
