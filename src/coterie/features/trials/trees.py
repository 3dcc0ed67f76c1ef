"""Would another class of models matter more than partners? Boosted trees, alone, on the folds that choose.

Advice compares ways of training one model, a linear one mostly. Where each client's own rows do better with
boosted trees than with any partner, that is worth more to know than whom to train with. Trees are those of
scikit-learn with its own settings, of each client's rows by themselves: a yardstick beside the ways, never a
way. They are tried where all clients are in this process, rows are a table, and a client has at least LEAST
of them; survival has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.core.client import Client
from coterie.features.trials.gains import LIKELIHOODS, ROOT, SHARE

TREES = "trees"
LEAST = 50
MOST = 100_000  # rows of a client: trees of more take longer than all ways


def tries_trees(clients: Sequence[Client], metric: str) -> bool:
    """Whether there is anything to try them on."""
    known = metric in (SHARE, ROOT, *LIKELIHOODS)
    return bool(clients) and known and all(c.train.x.ndim == 2 and c.task != "survival" for c in clients)


def trees_on(clients: Sequence[Client], metric: str) -> tuple[list[float | None], list[list[float]]]:
    """[client] the measure on its test part, None where its rows are too few or of one class; and what it is
    the mean of, [client][row].
    """
    found = [_values_on(client, metric) for client in clients]
    means = [float(np.mean(rows)) if len(rows) else math.nan for rows in found]
    scores = [math.sqrt(m) if metric == ROOT and not math.isnan(m) else m for m in means]
    return [None if math.isnan(s) else s for s in scores], [
        [float(f"{v:.7g}") for v in rows] for rows in found
    ]


def _values_on(client: Client, metric: str) -> np.ndarray:
    """[row] of a client's test part; none where nothing can be tried."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    x, y = client.train.x.cpu().numpy(), client.train.y.cpu().numpy()
    there, truth = client.test.x.cpu().numpy(), client.test.y.cpu().numpy()
    if not LEAST <= len(y) <= MOST or not len(truth):
        return np.empty(0)
    options: dict[str, Any] = {
        "random_state": 0,
        "early_stopping": len(y) >= 4 * LEAST,
        "min_samples_leaf": 10,
    }
    if client.task == "regression":
        model = HistGradientBoostingRegressor(**options).fit(x, y)
        return np.asarray((model.predict(there) - truth) ** 2, dtype=float)
    if len(np.unique(y)) < 2:
        return np.empty(0)
    try:
        trees = HistGradientBoostingClassifier(**options).fit(x, y)
    except ValueError:  # a class of one row, of which early stopping can hold none out
        return np.empty(0)
    classes = max(int(y.max()), int(truth.max())) + 1
    p = np.zeros((len(truth), classes))
    p[:, trees.classes_] = trees.predict_proba(there)
    if metric == SHARE:
        return np.asarray(p.argmax(1) == truth, dtype=float)
    return np.asarray(LIKELIHOODS[metric](p, truth), dtype=float)
