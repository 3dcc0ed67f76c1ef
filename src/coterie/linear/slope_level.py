"""A slope and levels over a model's outputs: which make the labels of rows most likely.

    argmin_{b, a} Σ_i -log softmax(b z_i + a)_{y_i} + h_b/2 (b - 1)² + h_a/2 Σ_c a_c²

h are how strongly b is held at 1 and levels at 0; levels that are held by infinity stay there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

STEPS = 100  # of Newton's method, at most
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
    for _ in range(STEPS):
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
