"""The cone of gradients: Grimberg, 2020, example 4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def cone_angle(apart: Tensor, lengths: Tensor) -> float:
    """Half-angle, in degrees, of the narrowest round cone around all gradients; 90 if they fit into none.

    Cosines come from distances, by the law of cosines. Of the convex hull of the gradients' directions u_i,
    the point next to 0 is on the axis, and its length is the cosine of the half-angle:
    min ‖Σ λ_i u_i‖² over λ ≥ 0, Σ λ_i = 1. With λ free to scale, it is x of the non-negative least squares
    min ‖Σ x_i u_i‖² + (1 - Σ x_i)², whose value is q / (1 + q) at ‖Σ λ_i u_i‖² = q.
    """
    from scipy.optimize import nnls  # only here: it takes a while to import

    real = lengths > 0  # a gradient of 0 fits everywhere
    apart, lengths = apart[real][:, real], lengths[real]
    if len(lengths) < 2:
        return 0.0
    squares = lengths.square()
    cosines = (squares + squares.unsqueeze(1) - apart.square()) / (2 * lengths * lengths.unsqueeze(1))
    values, vectors = torch.linalg.eigh(cosines.clamp(-1, 1))
    directions = values.clamp(min=0).sqrt().unsqueeze(1) * vectors.T
    system = torch.cat([directions, torch.ones(1, len(lengths), dtype=torch.float64)])
    wanted = torch.zeros(len(system), dtype=torch.float64)
    wanted[-1] = 1
    _, rest = nnls(system.numpy(), wanted.numpy(), maxiter=100 * len(system))
    return math.degrees(math.acos(min(1.0, rest / math.sqrt(1 - rest**2))))


def cone_figures(
    names: Sequence[str], stopped: Sequence[bool], angles: Sequence[float | None]
) -> dict[str, Any]:
    """Who has stopped, and the half-angles measured in this round."""
    return {
        "stopped": [name for name, over in zip(names, stopped, strict=True) if over],
        "cone_degrees": {name: a for name, a in zip(names, angles, strict=True) if a is not None},
    }
