"""Scoring: each client's own model on its own rows, through the net of the run. Who is away is not scored.

Beside scores it is measured (`measure`) whether clients find their own kind, and how far models part:

    precision, recall                 of those a client gave a weight above 0, beside itself
    circle_precision, circle_recall   of the method's CIRCLE, where it fills one (PENS, table 4.3)
    drift                             how far a client's model is from the mean of all clients' models

Each is [client], NaN where it is not defined; the formulas are in `metrics/collaboration.py`. The first four
need true clusters and a round; drift needs the models, and so is measured only when they are scored and all
sites are in this process.

Whether training has diverged: one rule, by which every run is judged before its models are written.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.client import Task
from coterie.core.errors import Diverged
from coterie.core.facts import kernel_fact, method_fact
from coterie.core.held import Held, at_coordinator, hold
from coterie.core.kernel import Part, Scorer
from coterie.core.method import CIRCLE, Info, Models, asked, only_for
from coterie.core.net import EVALUATION
from coterie.kernels import Calibrate, Crowd
from coterie.kernels.score import Beside
from coterie.metrics.collaboration import drifts, neighbours_found
from coterie.nets.sound import REMEDY
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment
from coterie.runs.record import Record

Scores = dict[str, list[float | None]]


def evaluate(experiment: Experiment, models: Models, round: int) -> dict[str, Scores] | None:
    """Each client's own model on its own test set, and the shared one on everybody's where there is one.

    Where a client averages the predictions of several models, that is its own model, and the one which
    stands for them is scored as `point`. The same pairs of model and client are scored once, however many
    names they go by. A client that is away is not scored; if all that have a model are, there are no scores.
    """
    clients = len(experiment.roster)
    one = replace(models, crowd=None, shares=None)
    wanted: dict[str, tuple[Models, Part]] = {"own/test": (models, "test")}
    if models.crowd is not None:
        wanted["point/test"] = (one, "test")
    if models.shared is not None:
        shared = Models(models.shared, torch.zeros(clients, dtype=torch.int64))
        wanted["shared/test"] = (shared, "test")
    if all(m.validation for m in experiment.roster.members):
        wanted["own/validation"] = (models, "validation")
    scores: dict[str, Scores] = {}
    known: dict[tuple[Any, ...], Scores] = {}
    for name, (some, part) in wanted.items():
        ids = tuple(tuple(p.ids[some.of[some.owners]].tolist()) for p in some.beliefs.parts)
        pairs = (part, some.crowd is None, tuple(some.owners.tolist()), ids)
        if pairs not in known:
            usual = Calibrate(part, experiment.specificity, positive_in(experiment))
            scorer = Beside(usual, experiment.own.metrics) if experiment.own.metrics else usual
            numbers = score_models(experiment, scorer, some, round)
            if not numbers:
                return None
            known[pairs] = {m: figures(v) for m, v in numbers.items() if m != "samples"}
        scores[name] = known[pairs]
    return scores


def positive_in(experiment: Experiment) -> int:
    """Of which of two classes figures are; trials have that of the whole, whatever a fold has."""
    own = experiment.positive
    return int(experiment.about.get("positive", 1)) if own is None else own


def score_models(experiment: Experiment, kernel: Scorer, models: Models, round: int) -> Mapping[str, Tensor]:
    """Figures of each client's own model on its own data: [client], NaN for one that is away, or has no model
    or no such rows.
    """
    net, key = experiment.net, experiment.key.at_round(round, experiment.rounds).at(EVALUATION)
    n, owners = len(net.roster), models.owners
    if kernel_fact(kernel, "part") == "test":
        owners = owners[torch.tensor([m.test > 0 for m in net.roster.members])[owners]]
    if models.crowd is None:
        edges = torch.stack([models.of[owners], owners], dim=1)
        replies = net.visit(kernel, models.beliefs, edges, key)
    else:
        crowd = models.crowd[owners]
        hosts = owners.unsqueeze(1).expand_as(crowd)
        edges = torch.stack([crowd.flatten(), hosts.flatten()], dim=1)
        beside = {}
        if models.shares is not None:
            shares = models.shares[owners].flatten()
            beside["share"] = hold({"share": shares}, at_coordinator(len(edges)))
        replies = net.visit(Crowd(kernel), models.beliefs, edges, key, beside=beside)
    out = {}
    for name, values in replies.numbers.items():
        out[name] = torch.full((n,), math.nan, dtype=torch.float64).index_copy_(
            0, replies.hosts, values.double()
        )
    return out


def figures(values: Tensor) -> list[float | None]:
    """Numbers as JSON holds them: what is not finite becomes null."""
    return [v if math.isfinite(v) else None for v in values.tolist()]


def measure(
    info: Info | None,
    beliefs: Beliefs | None,
    of: Tensor | None,
    clusters: Sequence[int | None],
    trained: Sequence[str],
) -> dict[str, Tensor]:
    """What a round's info tells, if there was one, and the models after it, if they are at hand: row of[i] is
    client i's, which has none below 0.
    """
    told: dict[str, Tensor] = {}
    if info is not None and None not in clusters:
        chosen = neighbours_found(info.weights, clusters)
        gone = info.weights.sum(dim=1) == 0  # was not reached, and so had no choice
        told |= {"precision": chosen.precision, "recall": chosen.recall.masked_fill(gone, math.nan)}
        if CIRCLE in info.matrices:
            circle = neighbours_found(info.matrices[CIRCLE], clusters)
            told |= {"circle_precision": circle.precision, "circle_recall": circle.recall}
    if beliefs is not None and of is not None:
        told["drift"] = drifts(beliefs, of, trained)
    return told


def measured(
    experiment: Experiment, info: Info | None, models: Models | None
) -> dict[str, list[float | None]]:
    """Measures of collaboration by name, one value for each client; of a round without models, fewer. Who did
    not ask for a model has none of them.
    """
    seen = None if models is None else experiment.net.peek(models.beliefs)
    trained = [n for n, p in experiment.model.named_parameters() if p.requires_grad]
    told = measure(info, seen, None if models is None else models.of, experiment.roster.clusters, trained)
    who = asked(experiment.method, experiment.roster.names)
    return {name: figures(values.where(who, math.nan)) for name, values in told.items()}


# whether training has diverged

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
    most = max(times)
    amount = f"{most:,.0f} times" if most < 1e6 else f"{most:.1e} times" if most < math.inf else "far above"
    raise Diverged(
        f"round {record.done}: {what.format(whose)} {amount} that of "
        f"{INSTEAD[experiment.roster.task]}: {REMEDY}"
    )


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
