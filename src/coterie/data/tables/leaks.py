"""Columns that tell the target without predicting it: known only afterwards, or too good to be true."""

from __future__ import annotations

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.texts import loose

AFTERWARDS = {
    "discharge", "discharged", "outcome", "death", "died", "dead", "deceased", "mortality", "survival",
    "survived", "autopsy", "readmission", "readmitted", "followup", "relapse", "recurrence", "los", "icd",
    "entlassung", "verstorben",
}  # fmt: skip
AFTERWARDS_PHRASES = (
    "length of stay",
    "follow up",
    "time to",
    "days to",
    "cause of",
    "final diagnosis",
    "vital status",
)
TOO_WELL = 0.97  # AUC, or share of the variance
ENOUGH = 10  # rows of a class, or with and without a value


def known_afterwards(name: str) -> str:
    """The word in a column's name that says so, if any."""
    text = loose(name)
    found = [w for w in text.split() if w in AFTERWARDS] or [
        p for p in AFTERWARDS_PHRASES if f" {p} " in f" {text} "
    ]
    return found[0] if found else ""


def filled_for_one_class(filled: Array, y: Array) -> int | None:
    """The class in whose rows alone a column is filled in, if it is one; `filled`, `y` [row]."""
    if min(filled.sum(), (~filled).sum()) < ENOUGH:
        return None
    counts = np.bincount(y[filled], minlength=int(y.max()) + 1)
    label = int(counts.argmax())
    usual = float(np.mean(y == label))
    return label if counts[label] >= 0.98 * counts.sum() and usual < 0.85 else None


def alone(x: Array, y: Array, classes: int) -> float:
    """How well a column predicts the target by itself, fitted on every other row and tested on the rest.

    AUC for classes (the mean over them), the share of the variance for numbers; NaN where rows are too few.
    """
    known = ~np.isnan(x)
    x, y = x[known], y[known]
    order = np.random.default_rng(0).permutation(len(x))
    fit, test = order[::2], order[1::2]
    if len(test) < 2 * ENOUGH or len(np.unique(x)) < 2:
        return float("nan")
    cells = bins(x[fit], x)
    if not classes:
        return explained(means(cells[fit], y[fit])[cells[test]], y[test])
    found = []
    for label in range(classes):
        hit = y == label
        if min(hit[test].sum(), (~hit[test]).sum()) >= ENOUGH // 2:
            found.append(auc(means(cells[fit], hit[fit].astype(float))[cells[test]], hit[test]))
    return float(np.mean(found)) if found else float("nan")


def bins(known: Array, x: Array) -> Array:
    """[row] which of up to twenty ranges of equally many rows it is in; a few values are one each."""
    values = np.unique(known)
    edges = (
        (values[1:] + values[:-1]) / 2
        if len(values) <= 20
        else np.unique(np.quantile(known, np.linspace(0, 1, 21)[1:-1]))
    )
    return np.searchsorted(edges, x, side="right")


def means(cells: Array, y: Array) -> Array:
    """[bin] the mean of y, drawn a little to that of all."""
    sums = np.bincount(cells, weights=y, minlength=21)
    counts = np.bincount(cells, minlength=21)
    return np.asarray((sums + y.mean()) / (counts + 1))


def auc(score: Array, hit: Array) -> float:
    """The chance that a hit scores above one that is none, ties counting half."""
    order = np.argsort(score, kind="stable")
    _, inverse, counts = np.unique(score[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = np.empty(len(score))
    ranks[order] = (ends - (counts - 1) / 2)[inverse]
    hits = int(hit.sum())
    return float((ranks[hit].sum() - hits * (hits + 1) / 2) / (hits * (len(hit) - hits)))


def explained(guess: Array, y: Array) -> float:
    left = float(((y - guess) ** 2).sum())
    return 1 - left / float(((y - y.mean()) ** 2).sum() or 1.0)
