"""Predictions to figures, the same for all of scikit-learn's models.

Definitions are Coterie's (docs/measures.md, docs/survival.md), so that its own figures can stand beside them;
a test holds one against the other.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from .splitting import Array, Part

HEADLINE = {"classification": "nll", "regression": "rmse", "survival": "concordance"}
MEASURES = {
    "classification": ("nll", "auc", "accuracy"),
    "regression": ("rmse",),
    "survival": ("concordance", "loss"),
}
HIGHER = ("auc", "accuracy", "concordance")


def figures(task: str, predicted: Array, test: Part) -> dict[str, float]:
    """By measure; NaN where these rows have none: an AUC of one class, a concordance without a pair.

    Predicted are probabilities [row, class], numbers [row], or risks [row].
    """
    if task == "regression":
        return {"rmse": float(np.sqrt(np.mean((predicted - test.y) ** 2)))}
    if task == "survival":
        return {"concordance": concordance(predicted, test), "loss": cox_loss(predicted, test)}
    classes = np.arange(predicted.shape[1])
    two = len(classes) == 2 and len(set(test.y)) == 2
    return {
        "nll": float(log_loss(test.y, predicted, labels=classes)),
        "auc": float(roc_auc_score(test.y, predicted[:, 1])) if two else float("nan"),
        "accuracy": float(np.mean(predicted.argmax(axis=1) == test.y)),
    }


def concordance(risk: Array, test: Part) -> float:
    """Harrell's, by the rules of lifelines: an event and a censoring at one time are a pair, two events not,
    equal risks count half.
    """
    assert test.event is not None
    time, event = test.y, test.event
    before = (time[:, None] < time[None, :]) | ((time[:, None] == time[None, :]) & ~event[None, :])
    pairs = before & event[:, None]
    np.fill_diagonal(pairs, False)
    right = (risk[:, None] > risk[None, :]) + 0.5 * (risk[:, None] == risk[None, :])
    return float(right[pairs].mean()) if pairs.any() else float("nan")


def cox_loss(risk: Array, test: Part) -> float:
    """Cox's negative partial log likelihood with Breslow's ties, over all rows."""
    assert test.event is not None
    order = np.argsort(-test.y, kind="stable")
    time, event, risk = test.y[order], test.event[order], risk[order]
    at_risk = np.logaddexp.accumulate(risk)
    last = np.searchsorted(-time, -time, side="right") - 1  # of all rows with the same time
    return float(np.sum((at_risk[last] - risk)[event]) / len(risk))
