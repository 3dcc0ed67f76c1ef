"""What no model at all would have: always the most frequent class, or everybody's shares, or the mean.

Of n rows with n_c of class c, and shares s_c = n_c / n:

    accuracy            max_c s_c               always saying the most frequent class
    balanced accuracy   1 / classes present     the same
    sensitivity         1 - specificity         calling ill by chance as many of the ill as of the well
    nll (log loss)      -Σ_c s_c log s_c        always saying the shares
    brier               1 - Σ_c s_c²            the same
    AUC, concordance    1/2                     nobody is told from anybody
    R²                  0                       always saying the mean
    RMSE                √(m / (m - 1)) RMSE / √(1 - R²)     the same, from any model's two figures on m rows;
                        their own mean is nearer to them than one that was known before, by (m - 1) / m

A figure of a model says nothing as long as this one is not known beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

CONSTANT = {"auc": 0.5, "concordance": 0.5, "r2": 0.0}
OF_SHARES: Mapping[str, Callable[[np.ndarray], float]] = {
    "accuracy": lambda s: float(s.max()),
    "balanced_accuracy": lambda s: 1 / int((s > 0).sum()),
    "nll": lambda s: float(-(s[s > 0] * np.log(s[s > 0])).sum()),
    "brier": lambda s: float(1 - (s * s).sum()),
}


def of_labels(metric: str, counts: Sequence[int], specificity: float = math.nan) -> float:
    """From how many rows there are of each class, and for a sensitivity at which specificity it is read; NaN
    where that does not say it.
    """
    if metric == "sensitivity":
        return 1 - specificity
    if metric in CONSTANT:
        return CONSTANT[metric]
    total = sum(counts)
    return OF_SHARES[metric](np.asarray(counts) / total) if metric in OF_SHARES and total else math.nan


def of_figures(rmse: float, r2: float, rows: int) -> float:
    """The RMSE of always saying the mean, from what any model has on so many rows."""
    return rmse * math.sqrt(rows / (rows - 1) / (1 - r2)) if r2 < 1 and rows > 1 else math.nan


def of_parts(metric: str, labels: Sequence[Sequence[int]]) -> float:
    """What the shares of training rows, half a row more in each class, have on test rows: of how many rows
    there are of each class in training, validation and testing.
    """
    train, test = (np.asarray(labels[i], dtype=float) for i in (0, 2))
    if not test.sum() or not train.sum() or metric not in OF_PARTS:
        return math.nan
    return OF_PARTS[metric]((train + 0.5) / (train + 0.5).sum(), test / test.sum())


OF_PARTS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": lambda said, true: float(true[said.argmax()]),
    "nll": lambda said, true: float(-(true * np.log(said)).sum()),
}
"""Of shares that are always said, and the true ones [class]."""
