"""What kernels that hide rows behind noise refuse."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from coterie.core.errors import BadInput
from coterie.kernels.around import Around


def check_noise(name: str, inner: Any, clip: float, sigma: float) -> None:
    """Refuses bounds and noise that hide nothing, and noise inside of noise."""
    for option, value in (("clip", clip), ("sigma", sigma)):
        if not 0 < value < math.inf:
            raise BadInput(f"{option}={value} must be above 0 and finite: try 1, or leave {name} out")
    if isinstance(inner, Around):
        whole = f"{name}({getattr(inner, 'name', '...')}(...))"
        raise BadInput(f"{whole}: {name} goes around plain work: try {name}(sgd)")


def batch_norm_of(model: nn.Module) -> str:
    """The first layer that mixes the rows of a batch or keeps statistics of them; empty if none does."""
    for place, layer in model.named_modules():
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and not layer.track_running_stats:
            continue  # each row by itself
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            return f"{type(layer).__name__} {place!r}" if place else type(layer).__name__
    return ""


def refuse_batch_norm(name: str, model: nn.Module) -> None:
    """Refuses a model whose layers would carry one row's values into others, or home."""
    if found := batch_norm_of(model):
        raise BadInput(
            f"{name} cannot hide rows in a model with batch norm ({found}), which mixes them: take a model "
            "without, or group norm instead"
        )
