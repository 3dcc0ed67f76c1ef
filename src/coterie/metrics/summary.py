"""From many clients and seeds to one line: mean, worst client, and an interval over seeds.

Seeds that each draw data of their own are independent: Student's t. Seeds that split the same rows anew share
most of them, and the spread between them is too small. Nadeau and Bengio ("Inference for the generalization
error", Machine Learning 52, 2003) correct it: of J splits with standard deviation s,

    half = t_{J-1} √(1/J + r) s,    r = n_test / n_train

r is `overlap`: two splits' test sets have the share ρ = n_test / n of all n rows in common, in the mean, and
r = ρ / (1 - ρ). With r = 0 this is Student's t.

Of figures on rows, seeds that all agree tell nothing of how far another might lie: a row or two decide, and
these were the same. Such a mean has no interval, as that of a single seed has none (`telling`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

ROUNDING = 1e-12  # halves below this share of their mean are none


class Interval(NamedTuple):
    """A mean and half the width of its 95 % interval over seeds; NaN where one value, or values that
    are all the same, tell nothing of it.

    `low` and `high` bound it beside that over which test rows there happened to be (`bootstrap.py`), where
    that is known and `half` does not cover it already.
    """

    mean: float
    half: float
    seeds: int
    low: float = math.nan
    high: float = math.nan

    @property
    def side(self) -> int:
        """1 where all that is known lies above 0, -1 where all of it lies below, else 0; 0 for one seed."""
        low, high = self.bounds
        if self.seeds < 2 or math.isnan(low):
            return 0
        return 1 if low > 0 else -1 if high < 0 else 0

    @property
    def bounds(self) -> tuple[float, float]:
        """The wider of all that is known, at either end; NaN where nothing is."""
        lows, highs = (self.mean - self.half, self.low), (self.mean + self.half, self.high)
        known = [[end for end in ends if not math.isnan(end)] for ends in (lows, highs)]
        return min(known[0], default=math.nan), max(known[1], default=math.nan)


class _Intervals(NamedTuple):
    """Many of them: [row] each."""

    mean: np.ndarray
    half: np.ndarray
    seeds: np.ndarray


def interval(values: Sequence[float] | np.ndarray, level: float = 0.95, overlap: float = 0.0) -> Interval:
    """Of a mean over seeds: Student's t, corrected where seeds split the same rows anew."""
    mean, half, seeds = intervals(np.array([values], dtype=float), level, overlap)
    return Interval(float(mean[0]), float(half[0]), int(seeds[0]))


def intervals(values: np.ndarray, level: float = 0.95, overlap: float | np.ndarray = 0.0) -> _Intervals:
    """The same of every row of [row, seed]; NaN is a seed that is not there. `overlap` is one, or [row]."""
    known = ~np.isnan(values)
    seeds, mean = known.sum(axis=1), means_of_known(values)
    factors = np.array([student(n - 1, level) if n > 1 else math.nan for n in range(values.shape[1] + 1)])
    with np.errstate(divide="ignore", invalid="ignore"):  # one seed has no spread
        apart = np.where(known, values - mean[:, None], 0.0)
        deviation = np.sqrt((apart * apart).sum(axis=1) / (seeds - 1))
        return _Intervals(mean, factors[seeds] * deviation * np.sqrt(1 / seeds + overlap), seeds)


Some = TypeVar("Some", Interval, _Intervals)


def telling(found: Some) -> Some:
    """Without width zero: what all seeds agree on is not known to the last digit."""
    none = found.half <= ROUNDING * np.maximum(np.abs(found.mean), 1)
    if isinstance(found, Interval):
        return found._replace(half=math.nan) if none else found
    return found._replace(half=np.where(none, math.nan, found.half))


@functools.cache
def student(degrees: int, level: float) -> float:
    """t with P(|T| < t) = level for Student's T of so many degrees of freedom, by halving.

    In the angle θ = arctan(t / √degrees) the probability is a finite sum (`_within`). To have it from scipy
    would load a quarter of a second of code.
    """
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, degrees) < level else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    """P(|T| < √degrees tan θ), Abramowitz and Stegun, 1964, 26.7.3 and 26.7.4:

    odd     2/π (θ + sin θ (cos θ + 2/3 cos³ θ + (2·4)/(3·5) cos⁵ θ + ... up to cos^(degrees-2)))
    even    sin θ (1 + 1/2 cos² θ + (1·3)/(2·4) cos⁴ θ + ... up to cos^(degrees-2))
    """
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for power in range(2 + odd, degrees, 2):
        term *= (power - 1) / power * math.cos(angle) ** 2
        total += term
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


def mean_over_clients(values: Sequence[float | None]) -> float:
    """The plain mean over clients that have a figure: each client counts once, large or small."""
    return float(means_of_known(np.array([values], dtype=float))[0])


def means_of_known(values: np.ndarray) -> np.ndarray:
    """The mean of each row, [row]; NaN stands for a client without a figure, or a seed that is not there."""
    known = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 where nothing is known
        means: np.ndarray = np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)
    return means


def worst(values: Sequence[float | None], higher: bool) -> float:
    """The lowest figure where higher is better, else the highest; NaN where nobody has one."""
    known = [v for v in values if v is not None and not math.isnan(v)]
    if not known:
        return math.nan
    return min(known) if higher else max(known)
