"""What ways of training are compared by, and what no model at all would have on the same rows.

Accuracy is blind where one class is common: of 27 rows with one ill, whoever always says "well" is right on
26, and so are all ways. From a share of COMMON on at any client that asks, ways are compared by the negative
log-likelihood instead (log loss): it is defined on every part, also without anybody ill in it, and sees how
probable each way finds what happened. All who ask have the same measure, so that answers can be compared.

How many rows are of which class is in the roster. A site that keeps that to itself is not judged by it.

Would another class of models matter more than partners? Advice compares ways of training one model, a linear
one mostly. Where each client's own rows do better with boosted trees than with any partner, that is worth
more to know than whom to train with. Trees are those of scikit-learn with its own settings, of each client's
rows by themselves: a yardstick beside the ways, never a way. They are tried where all clients are in this
process, rows are a table, and a client has at least LEAST of them; survival has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.core.client import Client
from coterie.core.roster import Roster
from coterie.features.trials.gains import LIKELIHOODS, ROOT, SHARE
from coterie.metrics.table import headline
from coterie.runs.about import COMMON, SEEING, commonest, labels_of
from coterie.show.words import Figure, said

TREES = "trees"
LEAST = 50
MOST = 100_000  # rows of a client: trees of more take longer than all ways


class Measure(NamedTuple):
    """Its name, and why it is that one, or can hardly tell; nothing where it is the usual one, and can."""

    name: str
    why: str = ""


class Outcome(NamedTuple):
    """Of a client's training rows: what most of them are, how many are not, and what these are.

    common   the class that most rows are of; empty for a survival
    rare     what the others are called, for people: "ill", "other than well", "with an event"
    """

    common: str
    rare: str
    counted: int
    rows: int

    @property
    def share(self) -> float:
        return 1 - self.counted / self.rows


def outcome_of(roster: Roster, client: int) -> Outcome | None:
    """None where rows have no classes, or nobody knows them."""
    counts = labels_of(roster.members[client])
    if not sum(counts):
        return None
    if roster.task == "survival":
        return Outcome("", "with an event", counts[1], sum(counts))
    names = roster.classes or tuple(f"class {c}" for c in range(len(counts)))
    most = commonest(counts)
    rare = names[1 - most] if len(counts) == 2 else f"other than {names[most]}"
    return Outcome(names[most], rare, sum(counts) - counts[most], sum(counts))


def balanced_always_the_same(folds: Sequence[Roster], client: int) -> float:
    """The balanced accuracy of always saying the most frequent class, the mean over held-out parts of two
    classes or more: how many classes a part has may differ. NaN where that is not known.
    """
    members = [roster.members[client].labels for roster in folds]
    parts = [(labels[0], labels[2]) for labels in members if labels]
    found = [
        (test[commonest(train)] > 0) / classes
        for train, test in parts
        if (classes := sum(count > 0 for count in test)) > 1
    ]
    return sum(found) / len(found) if found else math.nan


def measure_of(asked: str, roster: Roster, asks: Sequence[int]) -> Measure:
    """What was asked for, else the usual figure of the task, unless it is blind for somebody who asks."""
    name = headline(roster.task) if asked == "auto" else asked
    if roster.task != "classification" or name != "accuracy":
        return Measure(name)
    known = [(found, roster.names[i]) for i in asks if (found := outcome_of(roster, i)) is not None]
    found, client = max(known, key=lambda pair: pair[0].share, default=(None, ""))
    if found is None or found.share < COMMON:
        return Measure(name)
    name = SEEING if asked == "auto" else name
    return Measure(name, why_measured(found, client, name))


def why_measured(found: Outcome, client: str, name: str) -> str:
    """That accuracy sees nothing at this client, and what ways are compared by instead, or could be."""
    return said(
        "trials.log_loss" if name == SEEING else "trials.blind",
        counted=found.rows - found.counted,
        rows=found.rows,
        client=client,
        name=found.common,
        share=Figure(f"{100 * found.share:.0f} %"),
    )


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
