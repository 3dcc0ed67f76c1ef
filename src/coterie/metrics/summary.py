"""From many clients and seeds to one line: mean, worst client, and an interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

HIGHER_IS_BETTER = {
    "accuracy": True,
    "balanced_accuracy": True,
    "auc": True,
    "r2": True,
    "loss": False,
    "ece": False,
    "brier": False,
    "nll": False,
    "rmse": False,
}
HEADLINE = {"classification": "accuracy", "regression": "rmse"}


class Interval(NamedTuple):
    """A mean and half the width of its 95 % interval; NaN where one value has no spread."""

    mean: float
    half: float
    seeds: int


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's t interval of a mean, over seeds."""
    known = np.asarray([v for v in values if not math.isnan(v)], dtype=float)
    if len(known) == 0:
        return Interval(math.nan, math.nan, 0)
    if len(known) == 1:
        return Interval(float(known[0]), math.nan, 1)
    quantile = float(special.stdtrit(len(known) - 1, (1 + level) / 2))
    half = quantile * float(known.std(ddof=1)) / math.sqrt(len(known))
    return Interval(float(known.mean()), half, len(known))


def mean_over_clients(values: Sequence[float | None]) -> float:
    """The plain mean over clients that have a figure: each client counts once, large or small."""
    known = [v for v in values if v is not None and not math.isnan(v)]
    return float(np.mean(known)) if known else math.nan


def worst_client(values: Sequence[float | None], metric: str) -> float:
    """The figure of the client that fares worst."""
    known = [v for v in values if v is not None and not math.isnan(v)]
    if not known:
        return math.nan
    return min(known) if HIGHER_IS_BETTER[metric] else max(known)
