"""Which methods are worse than knowing nothing of the inputs, or no better, by the figures of a record.

regression        R² of 0 or below: always saying the mean of the test targets has no larger an error
classification    an accuracy of no more than the share of the most frequent class
survival          a concordance of no more than one half, that of an order by chance
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.metrics.no_model import CONSTANT
from coterie.report import views
from coterie.runs.record import Record

ROUNDING = 1e-6  # figures are float32: two that lie nearer to each other are the same


def worse_than_nothing(runs: Sequence[Record], among: np.ndarray) -> str:
    """Than what a method is worse or no better, over its runs and clients `among` [client]; nothing where it
    is better, or where that is not known.
    """
    task = runs[0].about["task"]
    if task == "regression":
        r2 = views.over_seeds(runs, "r2", among=among).mean
        below = "below" if r2 < -ROUNDING else "of"
        return _not_above(r2, CONSTANT["r2"], f"always saying the mean of the targets (R² {below} 0)")
    if task == "survival":
        order = views.over_seeds(runs, "concordance", among=among).mean
        return _not_above(order, CONSTANT["concordance"], "an order by chance")
    shares = [share for run in runs if (share := most_frequent(run, among)) is not None]
    accuracy = views.over_seeds(runs, "accuracy", among=among).mean
    if len(shares) < len(runs):
        return ""
    share = float(np.mean(shares))
    always = f"always saying each client's most frequent class, which is right in {100 * share:.1f} %"
    return _not_above(accuracy, share, always)


def _not_above(figure: float, nothing: float, what: str) -> str:
    """Worse than `what` has, or no better where both are the same; nothing where the figure is above it."""
    if figure < nothing - ROUNDING:
        return f"worse than {what}"
    return f"no better than {what}" if figure <= nothing + ROUNDING else ""


def worse_lines(by_label: views.Groups) -> list[str]:
    """A line for all methods that are worse, or no better, than the same."""
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
