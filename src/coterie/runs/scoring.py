"""Scoring: each client's own model on its own rows, through the net of the run. Who is away is not scored.

Beside scores it is measured (`measure`) whether clients find their own kind, and how far models part:

    precision, recall                 of those a client gave a weight above 0, beside itself
    circle_precision, circle_recall   of the method's CIRCLE, where it fills one (PENS, table 4.3)
    drift                             how far a client's model is from the mean of all clients' models

Each is [client], NaN where it is not defined; the formulas are in `metrics/collaboration.py`. The first four
need true clusters and a round; drift needs the models, and so is measured only when they are scored and all
sites are in this process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.facts import kernel_fact
from coterie.core.held import at_coordinator, hold
from coterie.core.kernel import Part, Scorer
from coterie.core.method import CIRCLE, Info, Models, asked
from coterie.core.net import EVALUATION
from coterie.kernels import Calibrate, Crowd
from coterie.kernels.score import Beside
from coterie.metrics.collaboration import drifts, neighbours_found
from coterie.runs.experiment import Experiment

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
