"""Intervals of contributions that are added up over rounds.

Rounds are drawn independently of each other, so variances add up; degrees of freedom by Satterthwaite, 1946:

    value = Σ_t value_t,   variance = Σ_t variance_t,   freedom = variance² / Σ_t (variance_t² / freedom_t)
    half  = t · √variance + Σ_t hidden_t

t is Student's quantile at `level`, held by all of m figures at once (Bonferroni: 1 - (1 - level) / m), with
degrees of freedom rounded down.
"""

from __future__ import annotations

import math

import numpy as np

from coterie.metrics.summary import student

MANY = 1000  # degrees of freedom beyond which Student's quantile no longer falls by a thousandth


class Sums:
    """Figures [...] added up; each has a factor at which it counts."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.value, self.variance, self.fourth, self.hidden = (np.zeros(shape) for _ in range(4))
        self.seen = np.zeros(shape, dtype=bool)

    def add(
        self,
        at: tuple[np.ndarray, ...],
        value: np.ndarray,
        variance: np.ndarray,
        freedom: np.ndarray,
        hidden: np.ndarray,
        *,
        factor: float = 1.0,
    ) -> None:
        """Further figures, at their places."""
        spread = factor**2 * variance
        np.add.at(self.value, at, factor * value)
        np.add.at(self.variance, at, spread)
        np.add.at(
            self.fourth, at, np.divide(spread**2, freedom, out=np.zeros_like(spread), where=freedom > 0)
        )
        np.add.at(self.hidden, at, factor * hidden)
        self.seen[at] = True

    def half(self, level: float, beside: int = 0) -> np.ndarray:
        """Half the width of the intervals, all of which hold at once at this level, and so do as many others
        `beside` them; NaN where nothing is.
        """
        apart = 1 - (1 - level) / max(1, int(self.seen.sum()) + beside)
        freedom = np.divide(
            self.variance**2, self.fourth, out=np.full_like(self.fourth, MANY), where=self.fourth > 0
        )
        found = np.full(self.value.shape, math.nan)
        for place in zip(*np.nonzero(self.seen), strict=True):
            t = student(max(1, min(MANY, int(freedom[place]))), apart)
            found[place] = t * math.sqrt(self.variance[place]) + self.hidden[place]
        return found

    def known(self) -> np.ndarray:
        """The values; NaN where nothing is."""
        return np.where(self.seen, self.value, math.nan)
