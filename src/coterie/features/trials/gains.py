"""What a candidate gains over training alone, on the folds that both were tried on, and how sure that is.

Intervals are of one of three kinds:

    over rows        where it is known what came of each row, as below
    shares of rows   accuracy, sensitivity: every row is held out once, so that k and l of n rows are right
                     with the way and alone. Newcombe's of two shares (`operating.difference`), as if they
                     were of different rows: models that are tried on the same rows mostly fail on the same
                     ones, so that it is wider than need be. A fold in which alone was chosen has the same
                     model twice, and its rows count as no difference
    other figures    Student's t over folds that share rows (Nadeau and Bengio, 2003). Folds that agree to the
                     last digit tell nothing: there is none then

Over rows, which are known where all clients are in this process and none has several rows of one patient:

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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from coterie.metrics import operating
from coterie.metrics.summary import Interval, interval, student, telling
from coterie.runs.record import Record

LEVEL = 0.95
SHARE, ROOT = "accuracy", "rmse"
SHARES = (SHARE, "sensitivity")
"""Figures that are shares of rows: of all, or of those of class 1."""
LIKELIHOODS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "nll": lambda p, y: -np.log(np.clip(p[np.arange(len(y)), y], 1e-12, None)),
    "brier": lambda p, y: ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1),
}
"""Of probabilities [row, class] and labels [row], what is averaged over rows."""
MOST_DEGREES = 200  # from which on Student's t is a normal distribution


class Gain:
    """What a candidate gained over training alone, on the same folds [fold]; above 0 is better."""

    def __init__(self, scores: Sequence[float], alone: Sequence[float], higher: bool) -> None:
        apart = np.asarray(scores, dtype=float) - np.asarray(alone, dtype=float)
        self.by_fold = apart if higher else -apart
        known = self.by_fold[~np.isnan(self.by_fold)]
        self.folds = len(known)
        self.mean = float(known.mean()) if self.folds else math.nan
        self.error = standard_error(known)

    def exceeds(self, sure: float) -> bool:
        """Whether it is above 0 by more than so many standard errors; of one fold nobody knows."""
        return self.mean > 0 and self.mean > sure * self.error


def standard_error(values: np.ndarray) -> float:
    """Of a mean over K folds that share rows: sqrt((1/K + 1/(K-1)) var); infinite below two."""
    many = len(values)
    return math.sqrt((1 / many + _overlap_of(many)) * values.var(ddof=1)) if many > 1 else math.inf


def _overlap_of(folds: int) -> float:
    """n_test / n_train of a cross-validation."""
    return 1 / (folds - 1) if folds > 1 else 0.0


def values_by_row(record: Record, metric: str) -> list[list[float]]:
    """[client][row] of the test rows of a run; nothing where they are not known, or are no mean of rows."""
    if metric in LIKELIHOODS:
        said = record.of("probabilities")
        if said is None:
            return []
        of = LIKELIHOODS[metric]
        return [np.round(of(*said.of(i)), 6).tolist() for i in range(len(said.sizes))]
    found = record.of("outcomes") if metric in (SHARE, ROOT) else None
    if found is None:
        return []
    parts = np.split(np.asarray(found.values, dtype=float), np.cumsum(found.sizes)[:-1])
    return [[float(f"{v:.7g}") for v in part.tolist()] for part in parts]


def gain_by_row(
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


def interval_over_folds(by_fold: np.ndarray, level: float = LEVEL, more: float = 0.0) -> Interval:
    """Of a mean over folds that share rows; `more` is the share of a fold's rows in those to come."""
    known = by_fold[~np.isnan(by_fold)]
    return telling(interval(known, level, _overlap_of(len(known)) + more))


def interval_of_shares(
    there: np.ndarray, alone: np.ndarray, folds: int, rows: float, level: float = LEVEL, coming: int = 0
) -> Interval:
    """Of the mean over folds, from shares [fold] of the folds in which the two could differ; all of them have
    so many rows together.
    """
    if not folds:
        return Interval(math.nan, math.nan, 0)
    part, z = len(there) / folds, NormalDist().inv_cdf((1 + level) / 2)
    if not part:  # alone in every fold: nothing was gained, and nothing is known of what might be
        return Interval(0.0, math.nan, folds)
    some = rows * part
    some = 1 / (1 / some + 1 / coming) if coming else some  # these and those to come
    shares = [operating.share(float(values.mean()) * some, some, z) for values in (there, alone)]
    low, high = (part * end for end in operating.difference(shares[0], shares[1]))
    return Interval(part * float((there - alone).mean()), math.nan, folds, low, high)
