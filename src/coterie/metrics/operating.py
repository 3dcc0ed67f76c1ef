"""What a classifier does at a threshold that a person chooses.

A row is called positive where the probability of the class in question is at least t. Of n rows,

                     is of the class    is not
    called positive        TP             FP
    called negative        FN             TN

    sensitivity                TP / (TP + FN)     of those who are, how many are called so
    specificity                TN / (TN + FP)     of those who are not, how many are not called so
    positive predictive value  TP / (TP + FP)     of those called so, how many are
    negative predictive value  TN / (TN + FN)     of those not called so, how many are not

Each is a share k / n, whose 95 % interval is Wilson's ("Probable inference, the law of succession, and
statistical inference", 1927): the shares p from which k / n lies at most z = 1.96 standard errors,

    |k / n - p| <= z √(p (1 - p) / n)
    p = (k + z²/2) / (n + z²) ± z / (n + z²) √(k (n - k) / n + z²/4)

It is of use for few rows too, and for none or all of them. It says what other rows of the same kind might
have given at one threshold, chosen beforehand: the best of many is too good by chance.

Whoever acts from a probability of t on says that one false alarm costs t / (1 - t) of a case that is found:
who treats from 20 % on takes four needless treatments for one that is needed. In units of cases found, by
row, that is the net benefit (Vickers and Elkin, "Decision curve analysis: a novel method for evaluating
prediction models", Medical Decision Making 26, 2006):

    net benefit of the model     TP / n - FP / n · t / (1 - t)
    of treating all              π - (1 - π) t / (1 - t),  π the share of rows that are of the class
    of treating none             0

Over all t that is a decision curve. A model is of use at t where it lies above both others.

Where only two shares p = k / m and q = l / n are known, and not which rows they are of, their difference has
Newcombe's interval ("Interval estimation for the difference between independent proportions", 1998, method
10), made of Wilson's bounds of each:

    p - q - √((p - low(p))² + (high(q) - q)²)   to   p - q + √((high(p) - p)² + (q - low(q))²)

Two models that are tried on the same rows mostly fail on the same ones: for these it is wider than need be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Z = 1.959963984540054  # 95 % of a normal distribution lie between -z and z


class Probabilities(NamedTuple):
    """What was said of each test row: probabilities `p` [row, class] and labels `y` [row], one client after
    the other, and how many rows of each there are: `sizes` [client].
    """

    sizes: np.ndarray
    p: np.ndarray
    y: np.ndarray

    def of(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of one client, by number."""
        end = int(self.sizes[: client + 1].sum())
        rows = slice(end - int(self.sizes[client]), end)
        return self.p[rows], self.y[rows]


class Counts(NamedTuple):
    """Rows by what they are called and what they are: each [threshold]."""

    tp: np.ndarray
    fp: np.ndarray
    tn: np.ndarray
    fn: np.ndarray


class Share(NamedTuple):
    """k / n and between what it lies by Wilson's interval; NaN where n is 0."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def grid() -> np.ndarray:
    """0, 0.01, ..., 1"""
    return np.arange(101) / 100


def counts(p_of_class: np.ndarray, is_class: np.ndarray, thresholds: np.ndarray) -> Counts:
    """From what a class is given [row] and whether it is that class [row].

    Compared as precisely as probabilities are kept, so that 0.35 reaches 0.35 in float32 too.
    """
    p, positive = np.asarray(p_of_class), np.asarray(is_class, dtype=bool)
    at = np.asarray(thresholds, dtype=p.dtype)
    fn, tn = (np.searchsorted(np.sort(p[some]), at) for some in (positive, ~positive))  # how many lie below
    return Counts(positive.sum() - fn, (~positive).sum() - tn, tn, fn)


def sensitivity(c: Counts) -> Share:
    return share(c.tp, c.tp + c.fn)


def specificity(c: Counts) -> Share:
    return share(c.tn, c.tn + c.fp)


def positive_predictive_value(c: Counts) -> Share:
    return share(c.tp, c.tp + c.fp)


def net_benefit(c: Counts, thresholds: np.ndarray) -> np.ndarray:
    """TP / n - FP / n · t / (1 - t): [threshold]; NaN without rows, and for t = 1, where no false alarm is
    worth a case that is found.
    """
    t = np.asarray(thresholds, dtype=float)
    n = np.asarray(c.tp + c.fp + c.tn + c.fn, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(t < 1, t / (1 - t), np.nan)
        return np.asarray((c.tp - c.fp * odds) / n)


def treating_all(c: Counts) -> Counts:
    """What is counted if every row is called positive, whatever the threshold."""
    none = np.zeros_like(c.tp)
    return Counts(c.tp + c.fn, c.fp + c.tn, none, none)


def abstention(p: np.ndarray, y: np.ndarray, thresholds: np.ndarray) -> tuple[Share, Share]:
    """Of rows [row, class], where the most probable class has less than t nothing is said: the share that is
    answered, and the share of those that is right.

    `calibration.abstention` counts the same of many clients at once, for the τ of reports.
    """
    c = counts(p.max(axis=1, initial=0.0), p.argmax(axis=1) == y, thresholds)
    return share(c.tp + c.fp, len(y)), positive_predictive_value(c)


def share(k: np.ndarray | float, n: np.ndarray | float, z: float = Z) -> Share:
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    value = np.divide(k, n, out=np.full(n.shape, np.nan), where=n > 0)
    return Share(value, *wilson(k, n, z))


def wilson(k: np.ndarray | float, n: np.ndarray | float, z: float = Z) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of the share of which k of n is an example; NaN where n is 0."""
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    some = np.where(n > 0, n, np.nan)
    middle, half = k + z**2 / 2, z * np.sqrt(k * (some - k) / some + z**2 / 4)
    return np.clip((middle - half) / (some + z**2), 0, 1), np.clip((middle + half) / (some + z**2), 0, 1)


def difference(p: Share, q: Share) -> tuple[float, float]:
    """Between what the difference of two shares lies, as if they were of different rows."""
    low = p.value - q.value - np.hypot(p.value - p.low, q.high - q.value)
    high = p.value - q.value + np.hypot(p.high - p.value, q.value - q.low)
    return float(low), float(high)
