"""The minimum of penalised likelihoods, many problems at once, by Newton's method with steps that are halved.

    F(θ) = L(θ) + ½ Σ_j λ_j (θ_j - c_j)²,      θ ← θ - s (∇²L + Λ)^{-1} ∇F(θ),  s = 1, ½, ¼, ...

L is convex, and so is F. A step that does not lower F is halved; a problem is over when its Newton decrement
∇F' (∇²L + Λ)^{-1} ∇F is small beside F. (Boyd and Vandenberghe, 2004, "Convex Optimization", section 9.5.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from coterie.linear.families import Family

STEPS, HALVINGS, ENOUGH = 60, 30, 1e-10


def minimise(
    family: Family,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    penalty: Tensor,
    start: Tensor,
    towards: Tensor | None = None,
    tilt: Tensor | None = None,
    check: Callable[[], None] = lambda: None,
) -> Tensor:
    """θ [p, q] of rows x [n, d] and y [n] that count by `mask` [p, n], held by a penalty [p, q] towards
    [p, q] or 0, with a `tilt` [p, q] added to the slope if there is one; from a start [p, q].
    """
    theta, centre = start.clone(), torch.zeros_like(start) if towards is None else towards
    lean = torch.zeros_like(start) if tilt is None else tilt

    def held(theta: Tensor, some: Tensor) -> Tensor:
        gap = theta - centre[some]
        return (penalty[some] * gap.square() / 2 + lean[some] * theta).sum(1)

    open_ = torch.arange(len(theta))
    for _ in range(STEPS):
        check()
        here = theta[open_]
        point = family.at(here, x, y, mask[open_])
        value = point.loss + held(here, open_)
        slope = point.slope + penalty[open_] * (here - centre[open_]) + lean[open_]
        step = solved(point.curvature + torch.diag_embed(penalty[open_]), slope)
        decrement = (slope * step).sum(1)
        going = decrement > ENOUGH * (1 + value.abs())
        if not going.any():
            break
        open_, here, value, step, decrement = (t[going] for t in (open_, here, value, step, decrement))
        size = torch.ones_like(value)
        todo = torch.arange(len(open_))
        for _ in range(HALVINGS):
            tried = here[todo] - size[todo].unsqueeze(1) * step[todo]
            after = family.loss(tried, x, y, mask[open_[todo]]) + held(tried, open_[todo])
            fine = after <= value[todo] - 1e-4 * size[todo] * decrement[todo] + 1e-12 * value[todo].abs()
            theta[open_[todo[fine]]] = tried[fine]
            todo = todo[~fine]
            if not len(todo):
                break
            size[todo] /= 2
        if len(todo):  # no step lowers it any more: as far as numbers go, it is there
            stays = torch.ones(len(open_), dtype=torch.bool)
            stays[todo] = False
            open_ = open_[stays]
            if not len(open_):
                break
    return theta


def solved(matrix: Tensor, right: Tensor) -> Tensor:
    """matrix^{-1} right [p, q] of symmetric positive matrices, lifted a little where they are not."""
    factor, wrong = torch.linalg.cholesky_ex(matrix)
    if wrong.any():
        lift = matrix.diagonal(dim1=1, dim2=2).abs().mean(1).clamp(min=1e-12) * (wrong > 0)
        for power in range(-10, 1):
            eye = torch.eye(matrix.shape[1], dtype=matrix.dtype)
            raised = matrix + 10.0**power * lift.view(-1, 1, 1) * eye
            factor, wrong = torch.linalg.cholesky_ex(raised)
            if not wrong.any():
                break
    return torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
