"""Whether training has diverged: one rule, by which every run is judged before its models are written.

    times_i = L(model of client i) / L(a predictor that knows nothing of the inputs)

    regression        squared error over the variance of the targets, 1 - R²: it always says their mean
    classification    log loss over log K: it gives all K classes the same probability
    survival          Cox's loss over log n, which no order of n rows by the same risk for all exceeds

A model has diverged if its loss is no longer a number, or if `times` is above `FAR` and above what the first
model had, before any training: to start far from the targets and be slow is no divergence. Where few rows of
a client happen to be alike, their variance says little, and that of all clients in the mean stands for it.

Test rows are looked at first, as they were scored anyway. Whoever is far off there may only have learned its
training rows by heart, so that these decide: on them, such a model does well and one that diverged does not.
They are not looked at where local work has noise (nothing but what was paid for may be told of them).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
        return grown(tested, times_nothing(roster, first, "test"), owners)
    if (tested[owners] <= FAR).all():
        return {}
    here = replace(experiment, net=innermost(experiment.net))

    def on_training_rows(of: Models) -> np.ndarray:
        return times_nothing(roster, judged(here, Calibrate("train"), of, record.done), "train")

    times = on_training_rows(models)
    if not (times[owners] > FAR).any():
        return {}
    rows = torch.arange(len(roster)) if len(start) > 1 else torch.zeros_like(models.of)
    return grown(times, on_training_rows(only_for(Models(start, rows), models.of >= 0)), owners)


def grown(times: np.ndarray, before: np.ndarray, owners: Tensor) -> dict[int, float]:
    """Those that are far above, and were not so before training."""
    return {i: float(times[i]) for i in owners.tolist() if times[i] > FAR and not times[i] <= before[i]}


def times_nothing(roster: Roster, figures: Figures, part: Part) -> np.ndarray:
    """[client] how many times the loss of a predictor that knows nothing of the inputs; NaN where a client
    was not scored, inf where one was and its loss is no longer a number.
    """
    figure = partial(figure_of, figures, len(roster))
    if roster.task == "classification":
        times = figure("nll") / math.log(max(2, roster.outputs))
    elif roster.task == "survival":
        sizes = np.array([getattr(member, part) for member in roster.members])
        times = figure("loss") / np.log(np.maximum(2, sizes))
    else:
        times = of_regression(figure("rmse"), figure("r2"))
    scored = figure("samples") > 0
    return np.where(scored & ~np.isfinite(figure("loss")), np.inf, times)


def of_regression(rmse: np.ndarray, r2: np.ndarray) -> np.ndarray:
    """[client] squared error over the variance of the targets: a client's own, or the mean of all if that is
    larger.
    """
    squared = rmse**2
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = squared / (1 - r2)
        usual = np.nanmean(variance) if np.isfinite(variance).any() else np.nan
        return np.asarray(squared / np.fmax(variance, usual))


def figure_of(figures: Figures, clients: int, name: str) -> np.ndarray:
    found = figures.get(name)
    if found is None:
        return np.full(clients, np.nan)
    if isinstance(found, Tensor):
        return np.asarray(found.double().numpy())
    return np.array([np.nan if v is None else float(v) for v in found])
