"""What a way gained on each row that was held out, where rows can be looked at one by one.

    d_i      what row i gained over training alone, above 0 is better; each row is held out in one fold
    g        the gain, a mean over folds
    SE²    = var(d) / n · (1 + K / (K - 1))          trainings of the K folds share rows
    I      = g ± t SE                                what such a choice gains
    I_m    = g ± t sqrt(SE² + var(d) / m)            what it will have gained on m rows to come

The correction is that of Nadeau and Bengio, 2003, for a variance that is known from n rows instead of K
folds, so that t has n - 1 degrees of freedom instead of K - 1: with five folds intervals are half as wide.
The gain of a root of means is turned into one of rows by √A - √B = (A - B) / (√A + √B). A share of rows has
half a row more on either side, by which few rows that differ are not taken for none (Agresti and Min, 2005,
"Simple improved confidence intervals for comparing matched proportions").

Rows are known where all clients are in this process, and where none of them have several rows of one patient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coterie.metrics.summary import Interval, student
from coterie.runs.record import Record

SHARE, ROOT = "accuracy", "rmse"
LIKELIHOODS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "nll": lambda p, y: -np.log(np.clip(p[np.arange(len(y)), y], 1e-12, None)),
    "brier": lambda p, y: ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1),
}
"""Of probabilities [row, class] and labels [row], what is averaged over rows."""
MOST_DEGREES = 200  # from which on Student's t is a normal distribution


def values_of(record: Record, metric: str) -> list[list[float]]:
    """[client][row] of the test rows of a run; nothing where they are not known, or are no mean of rows."""
    if metric in LIKELIHOODS:
        said = record.probabilities()
        if said is None:
            return []
        of = LIKELIHOODS[metric]
        return [np.round(of(*said.of(i)), 6).tolist() for i in range(len(said.sizes))]
    found = record.outcomes() if metric in (SHARE, ROOT) else None
    if found is None:
        return []
    ends = np.cumsum(found.sizes)
    parts = np.split(np.asarray(found.values, dtype=float), ends[:-1])
    return [[float(f"{v:.7g}") for v in part.tolist()] for part in parts]


def gained(
    there: Sequence[Sequence[float]], alone: Sequence[Sequence[float]], metric: str, higher: bool
) -> np.ndarray | None:
    """[row] over all folds, of values [fold][row] with a way and alone; None where they do not match."""
    if any(len(a) != len(b) or not len(a) for a, b in zip(there, alone, strict=True)):
        return None
    a, b = (np.concatenate([np.asarray(f, dtype=float) for f in some]) for some in (there, alone))
    apart: np.ndarray = a - b
    if metric == ROOT:
        total = math.sqrt(a.mean()) + math.sqrt(b.mean())
        apart = np.asarray(apart / total) if total else apart
    return apart if higher else -apart


def interval_over_rows(
    gains: np.ndarray, mean: float, folds: int, level: float, metric: str, coming: int = 0
) -> Interval:
    """Around a gain, of what each row gained; with so many rows `coming`, of what these will show."""
    n = len(gains)
    if n < 2:
        return Interval(mean, math.nan, folds)
    spread = float(gains.var(ddof=1))
    if metric == SHARE:
        differ = float(np.abs(gains).sum()) + 1
        spread = (differ - (gains.sum() ** 2) / (n + 2)) / (n + 2)
    if spread <= 0:
        return Interval(mean, math.nan, folds)
    t = student(min(n - 1, MOST_DEGREES), level)
    half = t * math.sqrt(spread * ((1 + folds / (folds - 1)) / n + (1 / coming if coming else 0.0)))
    return Interval(mean, half, folds)
