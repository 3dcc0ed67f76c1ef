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

Models are plain, as this is advice: logistic or ridge regression on a site's own rows, prepared as for
training. Whatever is fitted, scales and stand-ins for missing values among it, is fitted without the rows
that it is then asked about.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays
from coterie.data.quality.site_rows import SiteRows
from coterie.data.tabular import TabularPrepare
from coterie.show.words import Saying, said

RECORDED = 0.5  # share of known values from which a site is said to record a column
FOLDS, TIMES = 5, 5
SHUFFLES = 5  # of a held-out fold
FEWEST = 50  # rows with a value
FEWEST_OF_CLASS = 10
CONFIDENCE = 0.95


class _Change(NamedTuple):
    """A mean over folds with its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class _Worth:
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
    loss: _Change
    score: _Change
    permuted: _Change

    @property
    def helps(self) -> bool:
        return self.loss.low > 0

    def to_dict(self) -> dict[str, Any]:
        changes = {name: getattr(self, name)._asdict() for name in ("loss", "score", "permuted")}
        return {**asdict(self), **changes, "helps": self.helps}


def worth(sites: Sequence[SiteRows], requester: str, seed: int = 0) -> tuple[list[_Worth], list[Saying]]:
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
    has = _recorded(mine)
    lacks = [i for i in range(len(mine.columns)) if not has[i]]
    found, notes = list[_Worth](), list[Saying]()
    for i in lacks:
        judged = False
        for rows in sites:
            if rows.site == requester or not _recorded(rows)[i]:
                continue
            beside = [j for j in range(len(has)) if has[j] and _recorded(rows)[j]]
            if why := _why_not(rows, i, beside):
                notes.append(why)
                continue
            found.append(_gain(rows, i, beside, seed))
            judged = True
        if not judged:
            notes.append(said("check.worth.nobody", column=mine.columns[i].name))
    if not lacks:
        notes.append(said("check.worth.everything", requester=requester))
    return sorted(found, key=lambda w: -w.loss.mean), notes


def _recorded(rows: SiteRows) -> np.ndarray:
    """[column] whether half and more of the values are known."""
    return np.asarray((~np.isnan(rows.raw)).mean(axis=0) >= RECORDED)


def _why_not(rows: SiteRows, column: int, beside: Sequence[int]) -> Saying | None:
    known = ~np.isnan(rows.raw[:, column])
    which = {"column": rows.columns[column].name, "site": rows.site}
    if known.sum() < FEWEST:
        return said("check.worth.few", **which, known=int(known.sum()), fewest=FEWEST)
    if not beside:
        return said("check.worth.no_other", **which)
    if rows.task == "classification":
        counts = np.unique(rows.y[known], return_counts=True)[1]
        if len(counts) < 2 or counts.min() < FEWEST_OF_CLASS:
            return said("check.worth.few_of_class", **which, fewest=FEWEST_OF_CLASS)
    return None


def _gain(rows: SiteRows, column: int, beside: Sequence[int], seed: int) -> _Worth:
    """Of one column at one partner, beside those others."""
    known = np.flatnonzero(~np.isnan(rows.raw[:, column]))
    whole = replace(rows, raw=rows.raw[known], y=rows.y[known], lines=rows.lines[known])
    without, having = _narrowed(whole, beside), _narrowed(whole, [*beside, column])
    measure = "R²" if rows.task == "regression" else "AUC" if len(np.unique(whole.y)) == 2 else "accuracy"
    changes = list[tuple[float, float, float]]()
    for time in range(TIMES):
        for k, (train, held) in enumerate(_folds_of(whole, FOLDS, seed * TIMES + time)):
            y = whole.y[held]
            draws = Key(seed).at("worth", column, time, k).numpy()
            mixtures = [having.raw[held] for _ in range(SHUFFLES)]
            for raw in mixtures:
                raw[:, -1] = draws.permutation(raw[:, -1])
            (less,) = _predicted(without, train, [without.raw[held]])
            more, *mixed = _predicted(having, train, [having.raw[held], *mixtures])
            loss = _loss_of(whole, more, y)
            score = _score_of(whole, measure, more, y) - _score_of(whole, measure, less, y)
            permuted = float(np.mean([_loss_of(whole, m, y) for m in mixed])) - loss
            changes.append((_loss_of(whole, less, y) - loss, score, permuted))
    intervals = (resampled(np.array(d), FOLDS) for d in zip(*changes, strict=True))
    return _Worth(rows.columns[column].name, rows.site, len(whole), len(beside), measure, *intervals)


def _narrowed(rows: SiteRows, columns: Sequence[int]) -> SiteRows:
    return replace(rows, columns=tuple(rows.columns[i] for i in columns), raw=rows.raw[:, list(columns)])


def _predicted(rows: SiteRows, train: np.ndarray, held: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a model of the training rows says of others, raw numbers [row, column]: chances [row, class], or
    numbers [row]. A column of which the training rows know nothing is 0.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    known = Arrays(rows.raw[train], rows.y[train])
    way = TabularPrepare(rows.columns, "median", "site", "mask").fitted([known])[0]
    inside, *outside = (np.asarray(way.inputs(raw), dtype=np.float64) for raw in (rows.raw[train], *held))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged: advice is still advice
        if rows.task == "regression":
            numbers = Ridge().fit(inside, rows.y[train])
            return [np.asarray(numbers.predict(part)) for part in outside]
        model = LogisticRegression(max_iter=1000).fit(inside, rows.y[train])
    present, made = np.unique(rows.y), list[np.ndarray]()
    for part in outside:
        made.append(np.zeros((len(part), len(present))))
        made[-1][:, np.searchsorted(present, model.classes_)] = model.predict_proba(part)
    return made


def _folds_of(rows: SiteRows, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training rows, the others) of each fold, with classes as in all rows."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = StratifiedKFold if rows.task == "classification" else KFold
    return list(kind(folds, shuffle=True, random_state=seed).split(rows.raw, rows.y))


def out_of_sample(rows: SiteRows, folds: int, seed: int) -> np.ndarray:
    """[row, class present] chances by models that have not seen the row."""
    found = np.zeros((len(rows), len(np.unique(rows.y))))
    for train, held in _folds_of(rows, folds, seed):
        (found[held],) = _predicted(rows, train, [rows.raw[held]])
    return found


def _loss_of(rows: SiteRows, answer: np.ndarray, y: np.ndarray) -> float:
    """Log loss, or the mean squared error."""
    if rows.task == "regression":
        return float(((answer - y) ** 2).mean())
    right = answer[np.arange(len(y)), np.searchsorted(np.unique(rows.y), y)]
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def _score_of(rows: SiteRows, measure: str, answer: np.ndarray, y: np.ndarray) -> float:
    from sklearn.metrics import r2_score, roc_auc_score

    if measure == "R²":
        return float(r2_score(y, answer))
    if measure == "AUC":
        return float(roc_auc_score(y == rows.y.max(), answer[:, 1]))
    return float((answer.argmax(axis=1) == np.searchsorted(np.unique(rows.y), y)).mean())


def resampled(differences: np.ndarray, folds: int) -> _Change:
    """The corrected resampled t interval, where one of so many folds is held out each time."""
    from scipy.stats import t

    many, mean = len(differences), float(differences.mean())
    variance = (1 / many + 1 / (folds - 1)) * float(differences.var(ddof=1))
    half = float(t.ppf((1 + CONFIDENCE) / 2, many - 1)) * math.sqrt(variance)
    return _Change(mean, mean - half, mean + half)
