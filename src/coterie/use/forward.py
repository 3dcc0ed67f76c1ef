"""What a network gives for rows, one row at a time, so that it does not depend on what other rows there are.

A product of matrices adds up in another order where more rows come together, and where a row begins elsewhere
in memory: the last bits of an output differ. So each row goes by itself, from the same place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coterie.core.errors import BadInput
from coterie.engines.threads import one_thread_each
from coterie.metrics.calibration import probabilities


def outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    """[n, output] of inputs [n, ...], in the model's own precision."""
    place = torch.empty(1, *x.shape[1:], dtype=precision_of(model))
    found = []
    with one_thread_each(), torch.no_grad():
        for row in x:
            place.copy_(row)
            found.append(model(place).clone())
    return torch.cat(found) if found else place.new_empty(0, 0)


def probabilities_of(outputs: Tensor) -> Tensor:
    """[n, class] in float64, each row by itself."""
    if not len(outputs):
        return outputs.double()
    with one_thread_each():
        return torch.cat([probabilities(row.clone()) for row in torch.split(outputs, 1)])


def precision_of(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def finite_rows(outputs: Tensor) -> Tensor:
    """[n] whether a model says anything of a row; one that overflows does not."""
    finite = torch.isfinite(outputs)
    return finite.flatten(1).all(dim=1) if finite.dim() > 1 else finite


def refuse_not_finite(outputs: Tensor, whose: str) -> None:
    if not bool((finite := finite_rows(outputs)).all()):
        row = int((~finite).nonzero()[0])
        raise BadInput(f"{whose} gives no finite number for row {row + 1}: look for a value that is far off")
