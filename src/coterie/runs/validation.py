"""A run on what a fold leaves to train on, judged by the fold."""

from __future__ import annotations

import math

from coterie.core import belief as tree
from coterie.core.errors import BadInput, Diverged
from coterie.core.held import at_coordinator, hold
from coterie.core.method import Method
from coterie.metrics.summary import mean_over_clients
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.runner import Watch, first_state, run
from coterie.runs.scoring import evaluate
from coterie.runs.settings import Settings
from coterie.sites.footing import Footing


def fold_experiment(settings: Settings, fold: Footing, method: Method) -> Experiment:
    """A run of these settings on what a fold leaves to train on, scored after its last round."""
    config = {**settings.table(), "evaluate": settings.rounds}
    connector, engine = settings.made("net"), settings.made("engine")
    return experiment_of(fold, config, method, connector=connector, engine=engine, command=None)


def measured_by(experiment: Experiment) -> list[str]:
    """The figures that models of these clients have, from a look at the first ones; it closes the net."""
    start = hold(experiment.beliefs, at_coordinator(tree.count(experiment.beliefs)))
    try:
        known = evaluate(experiment, experiment.method.models(first_state(experiment, start)), 0)
    finally:
        experiment.net.close()
    return list(known["own/test"]) if known else []


def validate(experiment: Experiment, metric: str, watch: Watch) -> float:
    """The mean over clients of a metric on the fold that was left out."""
    try:
        outcome = run(experiment, None, "fold", watch)
    finally:
        experiment.net.close()
    record, losses = outcome.record, outcome.record.final("loss")
    if any(math.isnan(losses[i]) for i in outcome.models.owners.tolist()):
        raise Diverged("the loss on held-out rows is not finite: lower the learning rate")
    value = mean_over_clients(record.final(metric))
    if math.isnan(value):
        raise BadInput(f"{metric} is not defined on any client's held-out rows: lower folds or use loss")
    return value
