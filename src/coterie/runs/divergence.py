"""Whether training has diverged: one rule, by which every run is judged before its models are written.

    times_i = L(model of client i) / L(a predictor that knows nothing of the inputs)

    regression        squared error over the variance of the targets, 1 - R²: it always says their mean
    classification    log loss over log K: it gives all K classes the same probability
    survival          Cox's loss over log n, which no order of n rows by the same risk for all exceeds
    a loss of one's own, or targets that are all the same: over what the first model had, before training

A model has diverged if its loss is no longer a number, or if `times` is above `FAR`; but not where

    slow        of numbers to predict: it is not above what the first model had, which may start far from the
                targets, and local work did not get worse
    unsuited    the client's local work did better than knowing nothing, and `times` is at most `VERY_FAR`: a
                sum of models that does not suit a client is what methods differ in

Where models are shared, targets of all clients count: one whose level is another is not to be had by a sum of
models, and the variance between clients is added to that within. Rankings make no models: their local work
is judged.

Test rows are looked at first, as they were scored anyway. Whoever is far off there may only have learned its
training rows by heart, so that these decide: on them, such a model does well and one that diverged does not.
They are not looked at where local work has noise (nothing but what was paid for may be told of them).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.errors import Diverged
from coterie.core.facts import method_fact
from coterie.core.held import Held
from coterie.core.kernel import Part
from coterie.core.method import Models, only_for
from coterie.kernels import Calibrate
from coterie.nets.sound import REMEDY
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment
from coterie.runs.record import Record
from coterie.runs.scoring import score_models

FAR, VERY_FAR = 10.0, 1000.0
WORSE = 1.5  # times the least loss of local work, from which on it got worse
LISTED = 5  # clients that a message names
INSTEAD: dict[Task, str] = {
    "regression": "always saying the mean of the targets",
    "classification": "giving every class the same probability",
    "survival": "the same risk for all",
}
"""What a predictor does that knows nothing of the inputs."""
Figures = Mapping[str, Any]
"""By name [client]: NaN or None for a client that was not scored."""


def refuse_diverged(experiment: Experiment, models: Models, start: Held, record: Record) -> None:
    """Ends the run if a client's own model has diverged, with all of them named. Where some clients lie on
    purpose, what becomes of models is what the study looks at, and nothing is refused.
    """
    if experiment.net.lies:
        return
    far = _far_off(experiment, models, start, record)
    if not far:
        return
    names, times = [experiment.roster.names[i] for i in far], list(far.values())
    others = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    whose = f"{', '.join(map(repr, names[:LISTED]))}{others}"
    what = "the models of {} have losses up to" if len(names) > 1 else "the model of {} has a loss"
    raise Diverged(
        f"round {record.done}: {what.format(whose)} {_amount(max(times))} that of "
        f"{INSTEAD[experiment.roster.task]}: {REMEDY}"
    )


def _amount(times: float) -> str:
    return f"{times:,.0f} times" if times < 1e6 else f"{times:.1e} times" if times < math.inf else "far above"


def _far_off(experiment: Experiment, models: Models, start: Held, record: Record) -> dict[int, float]:
    """{client: how many times the loss of knowing nothing}, of those whose own model has diverged."""
    roster, entry = experiment.roster, record.metrics[-1]
    owners = models.owners if method_fact(experiment.method, "train") else torch.arange(len(roster))
    last, first = ((m["scores"] or {}).get("own/test", {}) for m in (entry, record.metrics[0]))
    test = Sight(experiment, last, first, "test")
    if experiment.net.accounts:
        away = entry.get("away", {}) if "loss" in last else set(roster.names)  # nobody is scored, or by less
        scored = np.array([m.test > 0 and m.name not in away for m in roster.members])
        return test.diverged(owners, record, scored)
    local = _local_losses(record)[-1] / test.within
    if (test.losses / test.within <= FAR)[owners].all() and not (local > FAR).any():
        return {}
    net = replace(experiment, net=innermost(experiment.net))

    def on_training_rows(of: Models) -> Figures:
        return score_models(net, Calibrate("train"), of, record.done)

    now = on_training_rows(models)
    train = Sight(experiment, now, {}, "train")
    scored = train.figure(now, "samples") > 0
    sound = np.isfinite(train.figure(now, "loss")) & (train.losses / train.within <= FAR)
    if (sound | ~scored)[owners].all() and not (local > FAR).any():
        return {}
    rows = torch.arange(len(roster)) if len(start) > 1 else torch.zeros_like(models.of)
    began = on_training_rows(only_for(Models(start, rows), torch.isin(torch.arange(len(roster)), owners)))
    return replace(train, began=began).diverged(owners, record, scored)


@dataclass(frozen=True, eq=False)
class Sight:
    """Figures of the clients' own models on rows of theirs, and of the first model on the same."""

    experiment: Experiment
    now: Figures
    began: Figures
    part: Part

    def figure(self, figures: Figures, name: str) -> np.ndarray:
        found = figures.get(name)
        if found is None:
            return np.full(len(self.experiment.roster), np.nan)
        if isinstance(found, Tensor):
            return np.asarray(found.double().numpy())
        return np.array([np.nan if v is None else float(v) for v in found])

    def loss(self, figures: Figures) -> np.ndarray:
        """[client] by the task's own loss, unless somebody brought another."""
        task = "" if self.experiment.own.loss is not None else self.experiment.roster.task
        if task == "regression":
            return np.asarray(self.figure(figures, "rmse") ** 2)
        return self.figure(figures, "nll" if task == "classification" else "loss")

    @property
    def losses(self) -> np.ndarray:
        return self.loss(self.now)

    @property
    def within(self) -> np.ndarray:
        """[client] the loss of a predictor that knows nothing of the inputs; NaN where that is not known."""
        roster = self.experiment.roster
        if self.experiment.own.loss is not None:
            return np.full(len(roster), np.nan)
        if roster.task == "classification":
            return np.full(len(roster), math.log(max(2, roster.outputs)))
        if roster.task == "survival":
            return np.log(np.maximum(2, [getattr(member, self.part) for member in roster.members]))
        return variances(self.figure(self.now, "rmse"), self.figure(self.now, "r2"))

    def diverged(self, owners: Tensor, record: Record, scored: np.ndarray) -> dict[int, float]:
        experiment, before = self.experiment, self.loss(self.began)
        reveals, nothing = experiment.method.reveals(), self.within
        if experiment.roster.task == "regression" and (reveals.coordinator or reveals.sites or reveals.rows):
            nothing = np.fmax(nothing, spread(nothing, before))
        nothing = np.where(nothing > 0, nothing, before)
        told = _local_losses(record)
        losses = self.losses if method_fact(experiment.method, "train") else told[-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            times = losses / nothing
            slow = (losses <= before) & ~got_worse(told, before)
        if experiment.roster.task != "regression" and experiment.own.loss is None:
            slow = np.zeros_like(slow)
        unsuited = (told[-1] < nothing) & (times <= VERY_FAR)
        times = np.where(scored & ~np.isfinite(self.figure(self.now, "loss")), np.inf, times)
        far = (times > FAR) & ((times == np.inf) | ~(slow | unsuited))
        return {i: float(times[i]) for i in owners.tolist() if far[i]}


def variances(rmse: np.ndarray, r2: np.ndarray) -> np.ndarray:
    """[client] of the targets, from R² = 1 - rmse² / variance; NaN where they do not vary."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = rmse**2 / (1 - r2)
    return np.where(np.isfinite(found), found, np.nan)


def spread(within: np.ndarray, before: np.ndarray) -> float:
    """The variance of all clients' targets: the mean within clients, and that between their levels, from the
    squared error `before` of a first model, which says about 0: level² = before - variance.
    """
    known = np.isfinite(within)
    if not known.any():
        return math.nan
    levels = np.sqrt(np.maximum(before[known] - within[known], 0))
    return float(within[known].mean() + np.nan_to_num(levels).var())


def got_worse(told: np.ndarray, before: np.ndarray) -> np.ndarray:
    """[client] whether losses of local work [round, client] end well above their least, or above what the
    first model had (NaN where that is not known).
    """
    least = np.min(np.where(np.isnan(told), np.inf, told), axis=0)
    return np.asarray(told[-1] > WORSE * np.fmin(least, before))


def _local_losses(record: Record) -> np.ndarray:
    """[round, client] the loss that local work told last; NaN where it told none, or one of its own kind."""
    told = [[math.nan if v is None else v for v in entry["train_loss"]] for entry in record.metrics]
    found = np.array(told, dtype=float)
    for before, now in itertools.pairwise(found):
        np.copyto(now, before, where=np.isnan(now))
    return found if "loss" not in record.config else np.full_like(found, math.nan)
