"""The minimum of penalised likelihoods, many problems at once, by Newton's method with steps that are halved.

    F(θ) = L(θ) + ½ Σ_j λ_j (θ_j - c_j)²,      θ ← θ - s (∇²L + Λ)^{-1} ∇F(θ),  s = 1, ½, ¼, ...

L is convex, and so is F. A step that does not lower F is halved; a problem is over when its Newton decrement
∇F' (∇²L + Λ)^{-1} ∇F is small beside F. (Boyd and Vandenberghe, 2004, "Convex Optimization", section 9.5.)

The same for a slope and levels over a model's outputs, those that make the labels of rows most likely:

    argmin_{b, a} Σ_i -log softmax(b z_i + a)_{y_i} + h_b/2 (b - 1)² + h_a/2 Σ_c a_c²

h are how strongly b is held at 1 and levels at 0; levels that are held by infinity stay there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
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
    enough: float = ENOUGH,
) -> Tensor:
    """θ [p, q] of rows x [n, d] and y [n] that count by `mask` [p, n], held by a penalty [p, q] towards
    [p, q] or 0, with a `tilt` [p, q] added to the slope if there is one; from a start [p, q]. NaN where rows
    are: such a problem has no minimum, and its start would be mistaken for one.
    """
    # a third quicker: there are many small operations, and no gradients
    with torch.inference_mode():
        centre = torch.zeros_like(start) if towards is None else towards
        lean = torch.zeros_like(start) if tilt is None else tilt

        def around(theta: Tensor, some: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """F, its slope and its curvature."""
            held = (mask, penalty, centre, lean)
            rows, hold, middle, tilts = held if len(some) == len(start) else (t[some] for t in held)
            point, gap = family.at(theta, x, y, rows), theta - middle
            pulled = hold * gap
            value = point.loss + (pulled * gap / 2 + tilts * theta).sum(1)
            return value, point.slope + pulled + tilts, point.curvature + torch.diag_embed(hold)

        result, going, here = start.clone(), torch.arange(len(start)), start.clone()
        value, slope, curvature = around(here, going)
        result[value.isnan()] = torch.nan
        for _ in range(STEPS):
            check()
            step = _solved(curvature, slope)
            decrement = (slope * step).sum(1)
            far = decrement > enough * (1 + value.abs())
            if not far.all():
                going, here, value, step, decrement = (t[far] for t in (going, here, value, step, decrement))
            if not len(going):
                break
            there = here - step
            after, slope, curvature = around(there, going)
            size = 1.0
            while size > 2.0**-HALVINGS:
                short = ~(after <= value - 1e-4 * size * decrement + 1e-12 * (1 + value.abs()))
                if not short.any():
                    break
                size /= 2
                there[short] = here[short] - size * step[short]
                after[short], slope[short], curvature[short] = around(there[short], going[short])
            else:  # no step lowers it any more: as far as numbers go, these are there
                there[short] = here[short]
            result[going], here, value = there, there, after
    return result.clone()


def _solved(matrix: Tensor, right: Tensor) -> Tensor:
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


SLOPE_STEPS = 100  # of Newton's method, at most
CLOSE = 1e-12  # of what a row's loss could still fall by, twice that: then a last whole step is taken


def log_softmax(z: np.ndarray) -> np.ndarray:
    top = z - z.max(axis=1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(axis=1, keepdims=True)))


def losses(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """-log p(y|x) of each row."""
    return np.asarray(-log_softmax(z)[np.arange(len(y)), y])


def slope_and_levels(
    z: np.ndarray, y: np.ndarray, hold: float, levels: float, check: Callable[[], None] = lambda: None
) -> tuple[float, np.ndarray]:
    """b and a [class] of outputs z [row, class], by Newton's method with halved steps: the sum is convex.

    `check` is called before each step, and may end it.
    """
    z = z - z.mean(axis=1, keepdims=True)
    k = z.shape[1]
    free = np.arange(1 + k) if np.isfinite(levels) else np.arange(1)
    start = np.concatenate([[1.0], np.zeros(k)])
    held = np.array([hold, *[levels if np.isfinite(levels) else 0.0] * k])
    truth = np.eye(k)[y]

    def objective(at: np.ndarray) -> float:
        pull = (held * (at - start) ** 2).sum() / 2
        return float(losses(at[0] * z + at[1:], y).sum() + pull)

    at, value = start, objective(start)
    for _ in range(SLOPE_STEPS):
        check()
        p = np.exp(log_softmax(at[0] * z + at[1:]))
        mean = (p * z).sum(axis=1, keepdims=True)
        slope = np.concatenate([[((p - truth) * z).sum()], (p - truth).sum(axis=0)]) + held * (at - start)
        bend = np.diag(held)
        bend[0, 0] += (p * (z - mean) ** 2).sum()
        bend[0, 1:] = bend[1:, 0] = (p * (z - mean)).sum(axis=0)
        bend[1:, 1:] += np.diag(p.sum(axis=0)) - p.T @ p
        step = np.zeros(1 + k)
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        if slope @ step < CLOSE * len(y):  # so near, errors are squared with each step
            at = at - step
            break
        size = 1.0
        while (after := objective(at - size * step)) > value and size > 1e-6:
            size /= 2
        at, value = at - size * step, after
    return float(at[0]), at[1:]
