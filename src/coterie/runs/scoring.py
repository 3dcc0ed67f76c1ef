"""Scoring: each client's own model on its own rows, through the net of the run. Who is away is not scored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from coterie.core.held import at_coordinator, hold
from coterie.core.kernel import Part, Scorer
from coterie.core.method import Models
from coterie.kernels import Calibrate, Crowd, Tallied
from coterie.kernels.calibrate import unpacked
from coterie.kernels.own import Beside
from coterie.metrics.bootstrap import Outcomes
from coterie.metrics.calibration import Calibration
from coterie.metrics.operating import Probabilities
from coterie.metrics.table import headline
from coterie.nets.accounted import EVALUATION
from coterie.nets.wrapped import innermost
from coterie.runs.experiment import Experiment
from coterie.runs.outcomes import asked_of, gathered, said
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
            numbers = judged(experiment, scorer(experiment, part), some, round)
            if not numbers:
                return None
            known[pairs] = {m: figures(v) for m, v in numbers.items() if m != "samples"}
        scores[name] = known[pairs]
    return scores


def scorer(experiment: Experiment, part: Part) -> Scorer:
    """What measures models on these rows: the usual figures, and metrics of somebody's own."""
    specificity = float(experiment.config.get("specificity", 0))
    metrics, usual = experiment.own.metrics, Calibrate(part, specificity, positive_in(experiment))
    return Beside(usual, metrics) if metrics else usual


def positive_in(experiment: Experiment) -> int:
    """Of which of two classes figures are; trials have that of the whole, whatever a fold has."""
    return int(experiment.config.get("positive", experiment.about.get("positive", 1)))


def judged(experiment: Experiment, kernel: Scorer, models: Models, round: int) -> Mapping[str, Tensor]:
    """Figures of each client's own model on its own data: [client], NaN for one that is away, or has no model
    or no such rows.
    """
    net, key = experiment.net, experiment.key.at_round(round, experiment.rounds).at(EVALUATION)
    n, owners = len(net.roster), models.owners
    if getattr(kernel, "part", "") == "test":
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


def tallied(experiment: Experiment, models: Models, round: int) -> Calibration | None:
    """How sure each client's own model is on its own test set, and how often right; None where there are no
    classes.

    A client that is away in the end, or has no model, has no counts.
    """
    if experiment.roster.task != "classification":
        return None
    numbers = judged(experiment, Tallied(positive=positive_in(experiment)), models, round)
    return unpacked({name: t.nan_to_num(nan=0.0) for name, t in numbers.items()}) if numbers else None


def row_by_row(
    experiment: Experiment, models: Models, record: Record
) -> tuple[Outcomes | None, Probabilities | None]:
    """What came of each test row and what was said of it, where that is kept (`outcomes.py`), in one pass.
    Nobody is asked: it is looked up.
    """
    kernel, scores = asked_of(experiment), record.metrics[-1]["scores"]
    told = (scores or {}).get("own/test", {}).get(headline(experiment.roster.task))
    if kernel is None or told is None:
        return None, None
    here = replace(experiment, net=innermost(experiment.net))
    at = judged(here, kernel, models, record.done).get("at")
    return (None, None) if at is None else (gathered(kernel, at, told), said(kernel, at, told))


def figures(values: Tensor) -> list[float | None]:
    """Numbers as JSON holds them: what is not finite becomes null."""
    return [v if math.isfinite(v) else None for v in values.tolist()]
