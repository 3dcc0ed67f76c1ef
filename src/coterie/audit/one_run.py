"""A lower bound on epsilon from one training run.

Steinke, Nasr and Jagielski, 2023, "Privacy Auditing with One (1) Training Run", Theorem 5.2.

m rows (canaries) are each put in with chance 1/2. Whoever sees the outcome guesses for r of them whether they
were in, says nothing of the others, and is right v times. Were training (ε, δ)-private, then

    P[right ≥ v] ≤ β + α m δ
    β = P[W ≥ v],    W ~ Binomial(r, q),  q = e^ε / (1 + e^ε)
    α = max_{i=1..m} (2/i) P[v > W ≥ v - i]

m is `canaries`, r `guesses`, v `right`, β + α m δ `chance`, q `accuracy`, β `tail`, α `slope`. The largest ε
for which that chance is below 1 - confidence is refuted, and so a lower bound: `lower_bound`. With δ = 0 it
is the binomial tail alone.

Guesses (`guessed`): the k highest scores are said to be in, the k lowest to be out, the rest is abstained
from. How many guesses do best is not known beforehand. Deviation: several numbers are tried (`TRIED`), and
each bound is held at a confidence that allows for so many tries (Bonferroni), where the paper reports the
best of them as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

TRIED = (0.1, 0.25, 0.5, 1.0)  # guesses, as shares of the canaries
MOST = 60.0  # an epsilon that means nothing any more


@dataclass(frozen=True)
class Bound:
    """What the guesses came to: the best of the numbers of guesses that were tried."""

    epsilon: float
    guesses: int
    right: int
    canaries: int
    delta: float
    confidence: float


def accuracy(epsilon: float) -> float:
    """q = e^ε / (1 + e^ε): how often a guess is right at best, if training is ε-private."""
    return 1 / (1 + math.exp(-epsilon))


def tail(guesses: int, right: int, epsilon: float) -> float:
    """β = P[W ≥ v]"""
    from scipy.stats import binom  # only here: it takes a while to import

    return float(binom.sf(right - 1, guesses, accuracy(epsilon)))


def slope(guesses: int, right: int, epsilon: float) -> float:
    """α = max_i (2/i) P[v > W ≥ v - i]; beyond i = v the sum grows no more."""
    from scipy.stats import binom

    if right == 0:
        return 0.0
    each = binom.pmf(np.arange(right - 1, -1, -1), guesses, accuracy(epsilon))
    return float((2 * np.cumsum(each) / np.arange(1, right + 1)).max())


def chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """β + α m δ: how likely so many right guesses are at most, if training is (ε, δ)-private."""
    extra = slope(guesses, right, epsilon) * canaries * delta if delta else 0.0
    return min(1.0, tail(guesses, right, epsilon) + extra)


def lower_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The largest ε that so many right guesses refute; 0 if they refute none."""
    refuted = 1 - confidence
    if chance(canaries, guesses, right, 0.0, delta) >= refuted:
        return 0.0
    low, high = 0.0, MOST
    for _ in range(60):
        middle = (low + high) / 2
        if chance(canaries, guesses, right, middle, delta) < refuted:
            low = middle
        else:
            high = middle
    return low


def guessed(scores: np.ndarray, present: np.ndarray, guesses: int) -> int:
    """How many of so many guesses are right: the higher half of them `in`, the lower half `out`.

    Of equal scores the first counts as lower: a score that says nothing is right half of the time.
    """
    order = np.argsort(scores, kind="stable")
    upper, lower = guesses - guesses // 2, guesses // 2
    said_in, said_out = order[len(order) - upper :], order[:lower]
    return int(present[said_in].sum() + (~present[said_out]).sum())


def best_bound(scores: np.ndarray, present: np.ndarray, delta: float, confidence: float = 0.95) -> Bound:
    """Over all numbers of guesses in `TRIED`, with a confidence that holds for all of them at once."""
    m = len(scores)
    each = 1 - (1 - confidence) / len(TRIED)
    found = []
    for share in TRIED:
        guesses = max(1, round(share * m))
        right = guessed(scores, present, guesses)
        epsilon = lower_bound(m, guesses, right, delta, each)
        found.append(Bound(epsilon, guesses, right, m, delta, confidence))
    return max(found, key=lambda b: (b.epsilon, b.right / b.guesses))
