"""Is there anything to learn here? What models have against always saying the same, and whether chance would
bring as much.

    yes       a model is better by its proper measure, and by more than chance brings
    partly    it is not, but it is right more often, or tells classes apart: its probabilities are no better
    no        neither
    unknown   what always the same answer has is not known

How much held-out rows speak for models against always saying the same, in nats: log likelihood ratios.

Of clients k with n_k rows each, all of them together:

    log loss       Σ n_k (L_0k - L_1k)                        L_0 is that of always the same
    RMSE           Σ n_k log(E_0k / E_1k)                     Gaussian errors, each of its own size
    accuracy       n (a log(a/a_0) + (1-a) log((1-a)/(1-a_0)))    of n rows a share a is right; 0 below a_0
    AUC            z²/2,  z_k = (A_k - 1/2) / √((p + q + 1) / (12 p q))     p and q rows of two classes
    concordance    z²/2,  z_k = 3 √e_k (C_k - 1/2)            e events: Kendall's variance, 1/(9 e) for many
                   z = Σ z_k / √clients                       (Stouffer), nothing where it is below 0

On rows that no training saw, a ratio of 20 comes about by chance once in 20 times at the most if always the
same is right (Markov's inequality: the ratio has mean 1); z²/2 is above that more rarely still. Of k ratios
that are looked at one of 20 k is asked for (`enough`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from coterie.metrics.summary import means_of_known
from coterie.metrics.table import METRICS

RARELY = 20  # one in so many
PROPER = {"classification": "nll", "regression": "rmse", "survival": "concordance"}
"""What says whether a model knows anything, by task: of classes the log loss, which sees probabilities."""
ALSO: Mapping[str, tuple[str, ...]] = {"classification": ("accuracy", "auc")}
"""What may show that it does where its probabilities are too bold for the log loss to show it."""


class Held(NamedTuple):
    """Of one client's held-out rows: how many, and how many of each class, or without and with an event."""

    rows: int
    counts: Sequence[int] = ()


def enough(looks: int) -> float:
    """From how many nats on the best of so many is more than chance brings."""
    return math.log(RARELY * max(1, looks))


def nats(metric: str, model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    """For a model's figures [client] against those of always the same; NaN where nothing is known."""
    known = np.isfinite(model) & np.isfinite(same) & np.array([h.rows > 0 for h in held])
    if not known.any():
        return math.nan
    some = [h for h, here in zip(held, known, strict=True) if here]
    return NATS[metric](model[known], same[known], some)


def _log_loss(model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    return float((_rows(held) * (same - model)).sum())


def _rmse(model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):  # of no error at all any is infinitely worse
        ratio = np.where(same == model, 0.0, np.log(same / model))
    return float((_rows(held) * ratio).sum())


def _accuracy(model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    rows = _rows(held)
    right, expected = (float((rows * share).sum() / rows.sum()) for share in (model, same))
    if right <= expected:
        return 0.0
    if expected <= 0:
        return math.inf
    parts = ((right, expected), (1 - right, 1 - expected))
    return float(rows.sum() * sum(a * math.log(a / b) for a, b in parts if a > 0))


def _auc(model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    """Of two classes alone."""
    errors = [
        math.sqrt((sum(h.counts) + 1) / (12 * math.prod(h.counts)))
        if len(h.counts) == 2 and min(h.counts)
        else math.nan
        for h in held
    ]
    return _of_order(model - same, np.array(errors))


def _concordance(model: np.ndarray, same: np.ndarray, held: Sequence[Held]) -> float:
    events = np.array([h.counts[1] if len(h.counts) == 2 and h.counts[1] else math.nan for h in held])
    return _of_order(model - same, 1 / (3 * np.sqrt(events)))


def _of_order(above: np.ndarray, errors: np.ndarray) -> float:
    known = np.isfinite(errors)
    if not known.any():
        return math.nan
    together = float((above[known] / errors[known]).sum() / math.sqrt(known.sum()))
    return max(0.0, together) ** 2 / 2


def _rows(held: Sequence[Held]) -> np.ndarray:
    return np.array([h.rows for h in held], dtype=float)


NATS: Mapping[str, Callable[[np.ndarray, np.ndarray, Sequence[Held]], float]] = {
    "nll": _log_loss,
    "rmse": _rmse,
    "accuracy": _accuracy,
    "auc": _auc,
    "concordance": _concordance,
}

Verdict = Literal["yes", "partly", "no", "unknown"]


class Figures(NamedTuple):
    """A way's, and those of always the same on the same rows: by measure, [seed, client] each."""

    model: Mapping[str, np.ndarray]
    same: Mapping[str, np.ndarray]


class Shown(NamedTuple):
    """By one measure: the means of a way and of always the same, and how much rows speak for the way."""

    way: str
    metric: str
    model: float
    same: float
    nats: float

    @property
    def better(self) -> bool:
        return self.model > self.same if METRICS[self.metric].higher else self.model < self.same


class Learnt(NamedTuple):
    """`by` is what the answer rests on; `beside`, of a way that learns partly, what its log loss is; `first`
    what the way that is looked at first has by the same measure, where that is not it.
    """

    verdict: Verdict
    by: Shown | None = None
    beside: Shown | None = None
    first: Shown | None = None


UNKNOWN = Learnt("unknown")


def learnt(task: str, ways: Mapping[str, Figures], held: Sequence[Sequence[Held]], first: str = "") -> Learnt:
    """Of figures by way, on rows `held` [seed][client]. Where the way named `first` learns anything, the
    answer is of it; else of the best of the others.
    """
    asked = (PROPER[task], *ALSO.get(task, ()))
    found = {(way, m): s for way, of in ways.items() for m in asked if (s := _shown(way, m, of, held))}
    metrics = [m for m in asked if any(m == metric for _, metric in found)]
    if not metrics:
        return UNKNOWN
    for some in ([first] if first in ways else [], list(ways)):  # one look first, then at all of them
        for metric in metrics:
            each = [found[way, metric] for way in some if (way, metric) in found]
            clear = [s for s in each if s.better and s.nats > enough(len(some) * len(metrics))]
            if clear:
                best = max(clear, key=lambda s: s.nats)
                bold = found.get((best.way, PROPER[task])) if metric != PROPER[task] else None
                alone = found.get((first, metric)) if best.way != first else None
                return Learnt("partly" if bold else "yes", best, bold, alone)
    sign = 1 if METRICS[metrics[0]].higher else -1
    nearest = max((s for (_, m), s in found.items() if m == metrics[0]), key=lambda s: sign * s.model)
    return Learnt("no", nearest)


def _shown(way: str, metric: str, of: Figures, held: Sequence[Sequence[Held]]) -> Shown | None:
    """None where either side has no figure."""
    if metric not in of.model or metric not in of.same:
        return None
    both = np.isfinite(of.model[metric]) & np.isfinite(of.same[metric])
    model, same = (np.where(both, side[metric], math.nan) for side in (of.model, of.same))
    each = [nats(metric, m, s, rows) for m, s, rows in zip(model, same, held, strict=True)]
    known = [value for value in each if not math.isnan(value)]
    if not known:
        return None
    level, other = (float(np.nanmean(means_of_known(side))) for side in (model, same))
    return Shown(way, metric, level, other, float(np.mean(known)))
