"""What a column would bring that others record: their gain by it, as an estimate of what it might be here.

At a partner that records the column, on its rows with a value of it, and beside it only columns that the
requester records too: 5-fold cross-validation, five times, of a logistic (or ridge) model with the column and
without. The gain is the fall of the loss on held-out rows, and the rise of AUC (or R²); by permutation, what
the loss rises in the model with the column when its held-out values are shuffled among rows.

Folds share rows, so that their J differences d_j with variance s² are not independent. The interval is that
of the corrected resampled t (Nadeau, Bengio: Inference for the generalization error. Machine Learning 52,
2003):

    d̄ ± t_{J-1} √((1 / J + n_test / n_train) s²)

It is about models of that size on the partner's patients. It may be another gain here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.quality.models import fitted, folds_of, prepared
from coterie.data.quality.rows import SiteRows

RECORDED = 0.5  # share of known values from which a site is said to record a column
FOLDS, TIMES = 5, 5
SHUFFLES = 5  # of a held-out fold
FEWEST = 50  # rows with a value
FEWEST_OF_CLASS = 10
CONFIDENCE = 0.95


class Change(NamedTuple):
    """A mean over folds with its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Worth:
    """What one column brings at one partner: changes are positive where it helps.

    loss       log loss, or mean squared error, without the column less that with it
    score      AUC (of two classes), accuracy (of more) or R², with less without; `measure` says which
    permuted   loss with the column's values shuffled less that with them as they are
    """

    column: str
    partner: str
    rows: int
    beside: int
    measure: str
    loss: Change
    score: Change
    permuted: Change

    @property
    def helps(self) -> bool:
        return self.loss.low > 0

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        changes = {name: getattr(self, name)._asdict() for name in ("loss", "score", "permuted")}
        return {**asdict(self), **changes, "helps": self.helps}


def worth(sites: Sequence[SiteRows], requester: str, seed: int = 0) -> tuple[list[Worth], list[str]]:
    """Of every column that the requester lacks and a partner records, the most helpful first; and which could
    not be judged, and why.
    """
    names = [rows.site for rows in sites]
    if requester not in names:
        raise UnknownName("requester, of the clients,", requester, names)
    if sites[0].task == "survival":
        raise BadInput(
            "what a column is worth is measured for classes and numbers, not for a survival: leave it out"
        )
    if len(sites) < 2:
        raise BadInput(f"requester {requester!r} has no partners to ask: give data of several sites")
    mine = next(rows for rows in sites if rows.site == requester)
    has = recorded(mine)
    lacks = [i for i in range(len(mine.columns)) if not has[i]]
    found, notes = list[Worth](), list[str]()
    for i in lacks:
        judged = False
        for rows in sites:
            if rows.site == requester or not recorded(rows)[i]:
                continue
            beside = [j for j in range(len(has)) if has[j] and recorded(rows)[j]]
            why = why_not(rows, i, beside)
            if why:
                notes.append(f"{mine.columns[i].name} at {rows.site}: {why}")
                continue
            found.append(gain(rows, i, beside, seed))
            judged = True
        if not judged:
            notes.append(f"{mine.columns[i].name}: no partner records it well enough to judge")
    if not lacks:
        notes.append(f"{requester} records every column that the others do")
    return sorted(found, key=lambda w: -w.loss.mean), notes


def recorded(rows: SiteRows) -> np.ndarray:
    """[column] whether half and more of the values are known."""
    return np.asarray((~np.isnan(rows.raw)).mean(axis=0) >= RECORDED)


def why_not(rows: SiteRows, column: int, beside: Sequence[int]) -> str:
    known = ~np.isnan(rows.raw[:, column])
    if known.sum() < FEWEST:
        return f"{int(known.sum())} rows with a value, at least {FEWEST} are needed"
    if not beside:
        return "no other column that both record"
    if rows.task == "classification":
        counts = np.unique(rows.y[known], return_counts=True)[1]
        if len(counts) < 2 or counts.min() < FEWEST_OF_CLASS:
            return f"a class with fewer than {FEWEST_OF_CLASS} rows with a value"
    return ""


def gain(rows: SiteRows, column: int, beside: Sequence[int], seed: int) -> Worth:
    """Of one column at one partner, beside those others."""
    known = np.flatnonzero(~np.isnan(rows.raw[:, column]))
    whole = replace(rows, raw=rows.raw[known], y=rows.y[known], lines=rows.lines[known])
    without, having = narrowed(whole, beside), narrowed(whole, [*beside, column])
    measure = measure_of(whole)
    changes = list[tuple[float, float, float]]()
    for time in range(TIMES):
        for k, (train, held) in enumerate(folds_of(whole, FOLDS, seed * TIMES + time)):
            y = whole.y[held]
            draws = Key(seed).at("worth", column, time, k).numpy()
            mixtures = [shuffled(having.raw[held], draws) for _ in range(SHUFFLES)]
            (less,) = answers(without, train, [without.raw[held]])
            more, *mixed = answers(having, train, [having.raw[held], *mixtures])
            loss = loss_of(whole, more, y)
            changes.append(
                (
                    loss_of(whole, less, y) - loss,
                    score_of(whole, measure, more, y) - score_of(whole, measure, less, y),
                    float(np.mean([loss_of(whole, m, y) for m in mixed])) - loss,
                )
            )
    loss_change, score, permuted = (resampled(np.array(d), FOLDS) for d in zip(*changes, strict=True))
    name = rows.columns[column].name
    return Worth(name, rows.site, len(whole), len(beside), measure, loss_change, score, permuted)


def narrowed(rows: SiteRows, columns: Sequence[int]) -> SiteRows:
    return replace(rows, columns=tuple(rows.columns[i] for i in columns), raw=rows.raw[:, list(columns)])


def shuffled(raw: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """The last column's values among the rows."""
    made = raw.copy()
    made[:, -1] = draws.permutation(made[:, -1])
    return made


def answers(rows: SiteRows, train: np.ndarray, held: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a model of the training rows says of others: chances [row, class], or numbers [row]."""
    inside, *outside = prepared(rows, train, *held)
    model = fitted(rows, inside, rows.y[train])
    if rows.task == "regression":
        return [np.asarray(model.predict(part)) for part in outside]
    places = np.searchsorted(np.unique(rows.y), model.classes_)
    made = []
    for part in outside:
        chances = np.zeros((len(part), len(np.unique(rows.y))))
        chances[:, places] = model.predict_proba(part)
        made.append(chances)
    return made


def loss_of(rows: SiteRows, said: np.ndarray, y: np.ndarray) -> float:
    """Log loss, or the mean squared error."""
    if rows.task == "regression":
        return float(((said - y) ** 2).mean())
    right = said[np.arange(len(y)), np.searchsorted(np.unique(rows.y), y)]
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def measure_of(rows: SiteRows) -> str:
    if rows.task == "regression":
        return "R²"
    return "AUC" if len(np.unique(rows.y)) == 2 else "accuracy"


def score_of(rows: SiteRows, measure: str, said: np.ndarray, y: np.ndarray) -> float:
    from sklearn.metrics import r2_score, roc_auc_score

    if measure == "R²":
        return float(r2_score(y, said))
    if measure == "AUC":
        return float(roc_auc_score(y == rows.y.max(), said[:, 1]))
    return float((said.argmax(axis=1) == np.searchsorted(np.unique(rows.y), y)).mean())


def resampled(differences: np.ndarray, folds: int) -> Change:
    """The corrected resampled t interval, where one of so many folds is held out each time."""
    from scipy.stats import t

    many, mean = len(differences), float(differences.mean())
    half = float(t.ppf((1 + CONFIDENCE) / 2, many - 1)) * math.sqrt(
        (1 / many + 1 / (folds - 1)) * float(differences.var(ddof=1))
    )
    return Change(mean, mean - half, mean + half)
