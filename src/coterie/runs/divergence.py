"""Whether training has diverged: one rule, by which every run is judged before its models are written.

    times_i = L(model of client i) / L(a predictor that knows nothing of the inputs)

    regression        squared error over the variance of the targets, 1 - R²: it always says their mean
    classification    log loss over log K: it gives all K classes the same probability
    survival          Cox's loss over log n, which no order of n rows by the same risk for all exceeds

A model has diverged if its loss is no longer a number, or if `times` is above `FAR`, and above what the first
model had, before any training, and the client's local work, where it tells its loss, did no better than
knowing nothing either. To start far from the targets and be slow is no divergence; nor is a sum of models
that does not suit a client whose own work goes well: that is what methods differ in. Where few rows of a
client happen to be alike, their variance says little, and that of all clients in the mean stands for it.

Test rows are looked at first, as they were scored anyway. Whoever is far off there may only have learned its
training rows by heart, so that these decide: on them, such a model does well and one that diverged does not.
They are not looked at where local work has noise (nothing but what was paid for may be told of them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.client import Task
from coterie.core.errors import Diverged
from coterie.core.held import Held
from coterie.core.kernel import Part
from coterie.core.method import Models, only_for
from coterie.core.roster import Roster
from coterie.kernels import Calibrate
from coterie.nets.accounted import accounted
from coterie.nets.sound import REMEDY
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment
from coterie.runs.record import Record
from coterie.runs.scoring import judged

FAR = 10.0
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
    far = far_off(experiment, models, start, record)
    if not far:
        return
    names, times = [experiment.roster.names[i] for i in far], list(far.values())
    others = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    whose = f"{', '.join(map(repr, names[:LISTED]))}{others}"
    what = "the models of {} have losses up to" if len(names) > 1 else "the model of {} has a loss"
    raise Diverged(
        f"round {record.done}: {what.format(whose)} {amount(max(times))} that of "
        f"{INSTEAD[experiment.roster.task]}: {REMEDY}"
    )


def amount(times: float) -> str:
    return f"{times:,.0f} times" if times < 1e6 else f"{times:.1e} times" if times < math.inf else "far above"


def far_off(experiment: Experiment, models: Models, start: Held, record: Record) -> dict[int, float]:
    """{client: how many times the loss of knowing nothing}, of those whose own model has diverged."""
    roster, owners = experiment.roster, models.owners
    last, first = ((m["scores"] or {}).get("own/test", {}) for m in (record.metrics[-1], record.metrics[0]))
    tested = times_nothing(roster, last, "test")
    if accounted(experiment.net) is not None:
        return {i: float(tested[i]) for i in grown(tested, times_nothing(roster, first, "test"), owners)}
    if (tested[owners] <= FAR).all():
        return {}
    here = replace(experiment, net=innermost(experiment.net))

    def on_training_rows(of: Models) -> Figures:
        return judged(here, Calibrate("train"), of, record.done)

    figures = on_training_rows(models)
    times = times_nothing(roster, figures, "train")
    if not (times[owners] > FAR).any():
        return {}
    rows = torch.arange(len(roster)) if len(start) > 1 else torch.zeros_like(models.of)
    began = on_training_rows(only_for(Models(start, rows), models.of >= 0))
    learning = local_losses(record) / loss_of_nothing(roster, figures, "train")
    suspects = grown(times, times_nothing(roster, began, "train"), owners)
    return {i: float(times[i]) for i in suspects if times[i] == math.inf or not learning[i] < 1}


def grown(times: np.ndarray, before: np.ndarray, owners: Tensor) -> list[int]:
    """Those that are far above, and were not so before training."""
    return [i for i in owners.tolist() if times[i] > FAR and not times[i] <= before[i]]


def times_nothing(roster: Roster, figures: Figures, part: Part) -> np.ndarray:
    """[client] how many times the loss of a predictor that knows nothing of the inputs; NaN where a client
    was not scored, inf where one was and its loss is no longer a number.
    """
    figure = partial(figure_of, figures, len(roster))
    own: dict[Task, Callable[[], np.ndarray]] = {
        "regression": lambda: figure("rmse") ** 2,
        "classification": lambda: figure("nll"),
        "survival": lambda: figure("loss"),
    }
    times = own[roster.task]() / loss_of_nothing(roster, figures, part)
    scored = figure("samples") > 0
    return np.where(scored & ~np.isfinite(figure("loss")), np.inf, times)


def loss_of_nothing(roster: Roster, figures: Figures, part: Part) -> np.ndarray:
    """[client] that of a predictor that knows nothing of the inputs, on the same rows."""
    if roster.task == "classification":
        return np.full(len(roster), math.log(max(2, roster.outputs)))
    if roster.task == "survival":
        return np.log(np.maximum(2, [getattr(member, part) for member in roster.members]))
    return variances(figure_of(figures, len(roster), "rmse"), figure_of(figures, len(roster), "r2"))


def variances(rmse: np.ndarray, r2: np.ndarray) -> np.ndarray:
    """[client] of the targets, from R² = 1 - rmse² / variance; the mean of all where that is larger."""
    with np.errstate(invalid="ignore", divide="ignore"):
        own = rmse**2 / (1 - r2)
    usual = np.mean(own[np.isfinite(own)]) if np.isfinite(own).any() else np.nan
    return np.asarray(np.fmax(own, usual))


def local_losses(record: Record) -> np.ndarray:
    """[client] the loss that its local work told last; NaN where it tells none, or one of its own kind."""
    found = np.full(len(record.clients), np.nan)
    for entry in record.metrics if "loss" not in record.config else ():
        told = np.array([np.nan if v is None else v for v in entry["train_loss"]], dtype=float)
        found = np.where(np.isnan(told), found, told)
    return found


def figure_of(figures: Figures, clients: int, name: str) -> np.ndarray:
    found = figures.get(name)
    if found is None:
        return np.full(clients, np.nan)
    if isinstance(found, Tensor):
        return np.asarray(found.double().numpy())
    return np.array([np.nan if v is None else float(v) for v in found])
