"""Several methods in several settings: do their ranks differ by more than chance?

Demšar, 2006, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning
Research 7. With N settings, k methods, and r_ij the rank of method j in setting i, 1 for the best and means
for ties:

    R_j  = (1/N) Σ_i r_ij
    χ²_F = 12 N / (k (k + 1)) (Σ_j R_j² - k (k + 1)² / 4)                        Friedman
    F    = (N - 1) χ²_F / (N (k - 1) - χ²_F),  F-distributed, k - 1 and (k - 1)(N - 1)     Iman and Davenport
    CD   = q_α √(k (k + 1) / (6 N)),  q_α the studentised range over √2          Nemenyi

Two methods whose mean ranks lie less than CD apart cannot be told from each other at the level α.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Friedman(NamedTuple):
    """Mean ranks R [method], Iman and Davenport's F, the chance p of a larger one if all are alike, and CD,
    the least difference of mean ranks that tells two methods apart.
    """

    ranks: np.ndarray
    statistic: float
    p: float
    critical: float
    settings: int


def ranked(figures: np.ndarray, higher: bool = True) -> np.ndarray:
    """Ranks [setting, method] of figures alike, 1 for the best; methods that tie share the mean of theirs."""
    from scipy.stats import rankdata  # only here: it takes a while to import

    found: np.ndarray = rankdata(-figures if higher else figures, axis=1)
    return found


def friedman(ranks: np.ndarray, level: float = 0.05) -> Friedman:
    """Of ranks [setting, method], at least two of each."""
    n, k = ranks.shape
    if n < 2 or k < 2:
        raise ValueError(f"ranks of {n} settings and {k} methods: at least 2 of each are needed")
    from scipy.stats import f as f_distribution

    mean = ranks.mean(axis=0)
    chi = 12 * n / (k * (k + 1)) * (float((mean**2).sum()) - k * (k + 1) ** 2 / 4)
    left = n * (k - 1) - chi
    statistic = math.inf if left <= 0 else (n - 1) * chi / left
    p = float(f_distribution.sf(statistic, k - 1, (k - 1) * (n - 1)))
    return Friedman(mean, statistic, p, nemenyi(k, n, level), n)


def nemenyi(methods: int, settings: int, level: float = 0.05) -> float:
    """CD, in ranks."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * settings))


def cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """Bars of a diagram: (first, last) places among sorted mean ranks of methods that lie within CD, each bar
    as long as it can be and none inside another; a method that is told from all has none.
    """
    order, bars = sorted(ranks), list[tuple[int, int]]()
    for first, rank in enumerate(order):
        last = max(i for i, other in enumerate(order) if other - rank < critical or i == first)
        if last > first and (not bars or last > bars[-1][1]):
            bars.append((first, last))
    return bars
