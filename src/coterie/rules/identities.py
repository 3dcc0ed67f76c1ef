"""Distances of weighted sums, from the distances of what is summed.

D_ij = |x_i - x_j|². For weights that add up to 1,

    |x_i - Σ_j w_j x_j|²          = (D w)_i - ½ wᵀ D w                        to_sum
    |Σ_j a_j x_j - Σ_j b_j x_j|²  = aᵀ D b - ½ aᵀ D a - ½ bᵀ D b              between_sums

since |Σ_j v_j x_j|² = -½ vᵀ D v wherever Σ_j v_j = 0. Rounding may leave less than 0, which counts as 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


def to_sum(D: Tensor, w: Tensor) -> Tensor:
    """[point] squared distances to the sum with weights w [point]."""
    away = D @ w
    return (away - 0.5 * (w @ away)).clamp(min=0)


def between_sums(D: Tensor, W: Tensor) -> Tensor:
    """[sum, sum] squared distances between sums with weights W [sum, point]."""
    products = W @ D @ W.T
    own = products.diagonal()
    apart = (products - 0.5 * own - 0.5 * own.unsqueeze(1)).clamp(min=0)
    apart = (apart + apart.T) / 2  # a product of matrices is not symmetric to the last bit
    return apart.fill_diagonal_(0.0)


def alone(points: int, which: int) -> Tensor:
    """Weights [point] of one point alone."""
    w = torch.zeros(points, dtype=torch.float64)
    w[which] = 1
    return w


def mean_of(points: int, which: Tensor) -> Tensor:
    """Weights [point] of the mean of some points."""
    return torch.zeros(points, dtype=torch.float64).index_fill_(0, which, 1 / len(which))
