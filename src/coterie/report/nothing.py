"""Which methods are worse than knowing nothing of the inputs, by the figures of a record.

regression        R² below 0: always saying the mean of the test targets has a smaller error
classification    an accuracy below the share of the most frequent class
survival          a concordance below one half, that of an order by chance
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.report import views
from coterie.runs.record import Record

HALF = 0.5  # the concordance of an order by chance


def worse_than_nothing(runs: Sequence[Record], among: np.ndarray) -> str:
    """Than what a method is worse, over its runs and clients `among` [client]; nothing where it is not, or
    where that is not known.
    """
    task = runs[0].about["task"]
    if task == "regression":
        r2 = views.over_seeds(runs, "r2", among=among).mean
        return "worse than always saying the mean of the targets (R² below 0)" if r2 < 0 else ""
    if task == "survival":
        order = views.over_seeds(runs, "concordance", among=among).mean
        return "worse than an order by chance" if order < HALF else ""
    shares = [share for run in runs if (share := most_frequent(run, among)) is not None]
    accuracy = views.over_seeds(runs, "accuracy", among=among).mean
    if len(shares) < len(runs) or not accuracy < np.mean(shares):
        return ""
    return (
        "worse than always saying each client's most frequent class, which is right in "
        f"{100 * np.mean(shares):.1f} %"
    )


def worse_lines(by_label: views.Groups) -> list[str]:
    """A line for all methods that are worse than the same."""
    found = dict[str, list[str]]()
    for label, runs in by_label.items():
        if worse := worse_than_nothing(runs, views.with_figure(runs, views.headline_metric(runs))):
            found.setdefault(worse, []).append(label)
    return [f"{', '.join(labels)}: {worse}" for worse, labels in found.items()]


def most_frequent(run: Record, among: np.ndarray) -> float | None:
    """The share of the most frequent class of training rows among test rows, the mean over clients; None
    where sites keep their labels to themselves.
    """
    found = list[float]()
    for client, here in zip(run.about["clients"], among, strict=True):
        if not here:
            continue
        if not client.get("labels"):
            return None
        train, test = np.array(client["labels"][0]), np.array(client["labels"][2])
        found.append(float(test[train.argmax()] / max(1, test.sum())))
    return float(np.mean(found)) if found else None
