"""Plain models for advice: logistic or ridge regression on a site's own rows, prepared as for training.

Whatever is fitted, scales and stand-ins for missing values among it, is fitted without the rows that it is
then asked about.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from coterie.data.quality.rows import SiteRows, as_arrays
from coterie.data.tabular import TabularPrepare


def prepared(rows: SiteRows, train: np.ndarray, *parts: np.ndarray) -> list[np.ndarray]:
    """[row, input] of the training rows and of raw numbers [row, column]; a column of which the training rows
    know nothing is 0.
    """
    (way,) = TabularPrepare(rows.columns, "median", "site", "mask").fitted([as_arrays(rows, train)])
    return [np.asarray(way.inputs(raw), dtype=np.float64) for raw in (rows.raw[train], *parts)]


def fitted(rows: SiteRows, inputs: np.ndarray, y: np.ndarray) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    model = LogisticRegression(max_iter=1000) if rows.task == "classification" else Ridge()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged: advice is still advice
        return model.fit(inputs, y)


def folds_of(rows: SiteRows, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training rows, the others) of each fold, with classes as in all rows."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = StratifiedKFold if rows.task == "classification" else KFold
    return list(kind(folds, shuffle=True, random_state=seed).split(rows.raw, rows.y))


def out_of_sample(rows: SiteRows, folds: int, seed: int) -> np.ndarray:
    """[row, class present] chances by models that have not seen the row."""
    present = np.unique(rows.y)
    found = np.zeros((len(rows), len(present)))
    for train, held in folds_of(rows, folds, seed):
        inside, outside = prepared(rows, train, rows.raw[held])
        model = fitted(rows, inside, rows.y[train])
        found[np.ix_(held, np.searchsorted(present, model.classes_))] = model.predict_proba(outside)
    return found
