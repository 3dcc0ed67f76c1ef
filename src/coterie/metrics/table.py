"""The table of metrics: what is measured of a model on rows, one entry each, and all that is known of it.

Whoever scores, summarises, tunes, advises, draws or explains asks this table: a metric that is added here is
scored and shown everywhere. METRICS are in the order of a report's columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.groups import Groups, added, whole
from coterie.metrics.bootstrap import Figure
from coterie.metrics.calibration import at_label, brier, softmax, tally
from coterie.metrics.classification import accuracy, auc, balanced_accuracy, hits, of_two, sensitivity
from coterie.metrics.survival import concordance


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of several groups, and what a model said of them. What several metrics need is worked out once.

    outputs, losses, y   [row, out], [row] and [row]
    positive             of two classes, the one that a sensitivity is of
    specificity          where that sensitivity is read; 0: from a probability of one half on
    label_counts         whether figures may be told that say how many rows are of each class, or how one of
                         them ranks
    """

    task: Task
    outputs: Tensor
    losses: Tensor
    y: Tensor
    groups: Groups
    positive: int = 1
    specificity: float = 0.0
    label_counts: bool = True

    @property
    def classes(self) -> int:
        return self.outputs.shape[1]

    @cached_property
    def predicted(self) -> Tensor:
        """[row] of a regression or a survival."""
        return self.outputs.squeeze(-1)

    @cached_property
    def right(self) -> Tensor:
        """[row] 1 where the label has the largest output."""
        return hits(self.outputs, self.y)

    @cached_property
    def probabilities(self) -> tuple[Tensor, Tensor]:
        """[row, class] and their logarithms."""
        return softmax(self.outputs)

    @cached_property
    def from_half_on(self) -> Mapping[str, Tensor]:
        """What two classes have where the more probable is said; NaN, as of a client without such rows, where
        it is not to be told. Nothing where a sensitivity is read elsewhere.
        """
        if self.classes != 2 or self.specificity:
            return {}
        found = of_two(self.right, self.y, self.positive, self.groups)
        return (
            found if self.label_counts else {name: torch.full_like(v, torch.nan) for name, v in found.items()}
        )


def _of_auc(rows: Rows) -> Tensor | None:
    return auc(rows.outputs[:, 1] - rows.outputs[:, 0], rows.y, rows.groups) if rows.classes == 2 else None


def _of_sensitivity(rows: Rows) -> Tensor | None:
    if rows.classes != 2 or not rows.specificity:
        return rows.from_half_on.get("sensitivity")
    score = rows.outputs[:, rows.positive] - rows.outputs[:, 1 - rows.positive]
    found = sensitivity(score, rows.y == rows.positive, rows.specificity, rows.groups)
    return found if rows.label_counts else torch.full_like(found, torch.nan)


def _of_ece(rows: Rows) -> Tensor:
    confidence = rows.probabilities[0].amax(dim=1)
    return tally(confidence, confidence, rows.right, rows.groups).ece


def rmse(predicted: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """The root of the mean squared error, in the target's own unit."""
    return whole(groups, y).mean(_squared_errors(predicted, y)).sqrt()


def _squared_errors(predicted: Tensor, y: Tensor) -> Tensor:
    """[row]"""
    return (predicted.double() - y.double()).square()


def r2(predicted: Tensor, y: Tensor, groups: Groups | None = None) -> Tensor:
    """1 - (squared error) / (squared deviation from the mean of y); NaN where y does not vary."""
    groups, y = whole(groups, y), y.double()
    spread = groups.sum((y - groups.mean(y)[groups.index]).square())
    error = groups.sum(_squared_errors(predicted, y))
    # whether some row of a group differs from the one before: a mean may be rounded, and would not tell
    differs = (groups.index[1:] == groups.index[:-1]) & (y[1:] != y[:-1])
    varies = added(groups.index[1:], len(groups.sizes), differs) > 0
    return torch.where(varies, 1 - error / spread, math.nan)


@dataclass(frozen=True)
class _Named:
    """A figure and how it is written.

    label     what reports call it, with its `article`; its name in words, if nothing is given
    percent   whether it is a share, written in per cent
    range     what stands behind the label, as some programs report another range
    """

    name: str
    label: str = ""
    percent: bool = False
    article: Literal["a", "an"] = "a"
    range: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))


@dataclass(frozen=True, kw_only=True)
class Metric(_Named):
    """
    of         [group] what rows have; None where there is no such figure
    scored     it takes more work, and is looked at where a run scores its models, not while a method works
    judges     whether ways may be compared by it: `coterie advise --measure`
    by_row     what it says of each single row, if it is a mean over rows: bounds over test rows need it
    words      what the page calls it, by language
    tasks      that have it; it is the `headline` of its task where nothing else is asked for
    higher     whether a higher one is better
    plain, explained, also    for the glossary: what one might say instead, a sentence, other ways to write it
    """

    of: Callable[[Rows], Tensor | None]
    words: Mapping[str, str]
    tasks: tuple[Task, ...] = ("classification",)
    higher: bool = True
    headline: bool = False
    scored: bool = False
    judges: bool = True
    by_row: Figure | None = None
    plain: str = ""
    explained: str = ""
    also: tuple[str, ...] = ()


IN_ORDER = (
    Metric(
        name="accuracy",
        article="an",
        percent=True,
        headline=True,
        of=lambda rows: accuracy(rows.right, rows.groups),
        by_row=Figure(hits),
        words={"en": "accuracy", "fr": "exactitude", "de": "Genauigkeit"},
    ),
    Metric(
        name="ece",
        label="ECE",
        article="an",
        higher=False,
        of=_of_ece,
        scored=True,
        judges=False,
        words={
            "en": "gap between sure and right (ECE)",
            "fr": "écart entre certitude et justesse (ECE)",
            "de": "Abstand zwischen Sicherheit und Richtigkeit (ECE)",
        },
        plain="gap between sure and right",
        explained="Expected calibration error: the gap between how sure the model says it is and how often "
        "it is right, the mean over rows; 0 is best.",
        also=("expected calibration error",),
    ),
    Metric(
        name="nll",
        label="NLL",
        article="an",
        higher=False,
        of=lambda rows: rows.groups.mean(-at_label(rows.probabilities[1], rows.y)),
        scored=True,
        words={"en": "log loss", "fr": "perte logarithmique", "de": "logarithmischer Verlust"},
        plain="how surprised it is by the truth",
        explained="Negative log-likelihood: −log of the probability that the model gave to what came true, "
        "the mean over rows. 0 is certain and right, 0.69 a coin's toss between two classes; lower is "
        "better.",
        also=("negative log-likelihood", "log loss"),
    ),
    Metric(
        name="brier",
        label="Brier score",
        range=" (0 to 2)",  # some programs report one class alone, from 0 to 1
        higher=False,
        of=lambda rows: brier(rows.probabilities[0], rows.y, rows.groups),
        scored=True,
        words={
            "en": "Brier score (summed over classes, 0 to 2)",
            "fr": "score de Brier (somme sur les classes, de 0 à 2)",
            "de": "Brier-Score (über die Klassen summiert, 0 bis 2)",
        },
        plain="squared error of the probabilities",
        explained="The squared distance between the probabilities and the truth (1 for the class that came "
        "true, 0 for the others), summed over all classes: 0 is best, 2 the worst. For two classes it is "
        "twice the score of one class alone, which goes from 0 to 1.",
    ),
    Metric(
        name="balanced_accuracy",
        percent=True,
        of=lambda rows: balanced_accuracy(rows.right, rows.y, rows.classes, rows.groups),
        words={"en": "balanced accuracy", "fr": "exactitude équilibrée", "de": "balancierte Genauigkeit"},
        plain="how often it is right, each class counting alike",
        explained="The accuracy within each class, then the mean over classes: always naming the commonest "
        "class gains nothing.",
    ),
    Metric(
        name="auc",
        label="AUC",
        article="an",
        of=_of_auc,
        words={"en": "AUC", "fr": "AUC", "de": "AUC"},
        plain="how well it puts one class above the other",
        explained="The chance that a row of the second class gets a higher score than one of the first: 0.5 "
        "is a coin, 1 a perfect order.",
    ),
    Metric(
        name="sensitivity",
        percent=True,
        of=_of_sensitivity,
        scored=True,
        words={"en": "sensitivity", "fr": "sensibilité", "de": "Sensitivität"},
        plain="how many of the ill it finds",
        explained="Of the rows of the second class (mostly the illness), the share that is called so; where "
        "nothing else is said, from a probability of one half on.",
    ),
    Metric(
        name="specificity",
        percent=True,
        of=lambda rows: rows.from_half_on.get("specificity"),
        scored=True,
        judges=False,
        words={"en": "specificity", "fr": "spécificité", "de": "Spezifität"},
        plain="how many of the well it leaves alone",
        explained="Of the rows of the first class, the share that is not called the second.",
    ),
    Metric(
        name="net_benefit",
        of=lambda rows: rows.from_half_on.get("net_benefit"),
        scored=True,
        judges=False,
        words={
            "en": "net benefit (acting from 50 % on)",
            "fr": "bénéfice net (en agissant dès 50 %)",
            "de": "Nettonutzen (Handeln ab 50 %)",
        },
        plain="cases found, less what false alarms cost",
        explained="Cases found less false alarms, by row; a false alarm counts t / (1 − t) for whoever acts "
        "from a probability of t on. Treating none has 0; where no other t is said it is one half, and a "
        "false alarm counts as much as a case.",
        also=("decision curve", "decision curves"),
    ),
    Metric(
        name="rmse",
        label="RMSE",
        article="an",
        tasks=("regression",),
        higher=False,
        headline=True,
        of=lambda rows: rmse(rows.predicted, rows.y, rows.groups),
        by_row=Figure(lambda outputs, y: _squared_errors(outputs.squeeze(-1), y), np.sqrt),
        words={"en": "typical error (RMSE)", "fr": "erreur typique (RMSE)", "de": "typischer Fehler (RMSE)"},
        plain="typical error",
        explained="The root of the mean squared error, in the unit of what is predicted; lower is better.",
    ),
    Metric(
        name="r2",
        label="R²",
        article="an",
        tasks=("regression",),
        of=lambda rows: r2(rows.predicted, rows.y, rows.groups),
        words={"en": "share explained (R²)", "fr": "part expliquée (R²)", "de": "erklärter Anteil (R²)"},
        plain="share that it explains",
        explained="1 for perfect predictions, 0 for always naming the mean, below 0 for worse than that.",
    ),
    Metric(
        name="concordance",
        tasks=("survival",),
        headline=True,
        of=lambda rows: concordance(rows.predicted, rows.y, rows.groups),
        words={"en": "concordance", "fr": "concordance", "de": "Konkordanz"},
    ),
    Metric(
        name="loss",
        tasks=("classification", "regression", "survival"),
        higher=False,
        of=lambda rows: rows.groups.mean(rows.losses),
        words={"en": "loss", "fr": "perte", "de": "Verlust"},
        plain="how far off it is",
        explained="What training makes small: the NLL for classes, the squared error for numbers. Lower is "
        "better.",
    ),
)
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in IN_ORDER}
COLLABORATION: Mapping[str, _Named] = {
    named.name: named
    for named in (
        _Named("precision", percent=True),
        _Named("recall", percent=True),
        _Named("circle_precision", "precision of the circle", percent=True),
        _Named("circle_recall", "recall of the circle", percent=True),
        _Named("drift", "distance to the mean model"),
    )
}
"""What is measured of who learns from whom, and not of a model on rows: `runs/scoring.py`."""
NAMED: Mapping[str, _Named] = {**METRICS, **COLLABORATION}
BY_ROW: Mapping[str, Figure] = {name: m.by_row for name, m in METRICS.items() if m.by_row is not None}


def of_task(task: str) -> list[str]:
    """The metrics of a task."""
    return [name for name, metric in METRICS.items() if task in metric.tasks]


def headline(task: str) -> str:
    """The metric of a task where nothing else is asked for."""
    return next(name for name in of_task(task) if METRICS[name].headline)


def figures(rows: Rows, names: Sequence[str] = (), scored: bool = False) -> dict[str, Tensor]:
    """[group] each, of how many rows first behind the loss: the figures of these names, else all of the task,
    those that take more work if a run is `scored`.
    """
    asked = names or [n for n in of_task(rows.task) if scored or not METRICS[n].scored]
    found = {"samples": rows.groups.sizes.double()}
    for metric in (METRICS[n] for n in asked if n in METRICS and rows.task in METRICS[n].tasks):
        if (value := metric.of(rows)) is not None:
            found[metric.name] = value
    return {n: found[n] for n in names} if names else {"loss": found["loss"], **found}
