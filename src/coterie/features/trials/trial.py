"""A trial: a run on what a fold leaves to train on, judged by the fold; and a folder of trials, with what is
asked, where and on what they began: the same question goes on in it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core import belief as tree
from coterie.core.errors import BadInput, BadRun, Diverged
from coterie.core.held import at_coordinator, hold
from coterie.core.method import Method
from coterie.metrics.summary import mean_over_clients
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.loop import Watch, first_state, run, same_threads
from coterie.runs.record import Record
from coterie.runs.scoring import evaluate
from coterie.runs.settings import Settings, read_toml
from coterie.sites.setup import Setup
from coterie.storage.atomic import read_lines, write_whole


def fold_experiment(settings: Settings, fold: Setup, method: Method) -> Experiment:
    """A run of these settings on what a fold leaves to train on, scored after its last round."""
    settings = dataclasses.replace(settings, evaluate=settings.rounds)
    connector, engine = settings.made("net"), settings.made("engine")
    return experiment_of(fold, settings, method, connector=connector, engine=engine, command=None)


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


def begin(path: Path, file: str, table: Mapping[str, Any], what: str, free: str = "") -> None:
    """Writes what is asked, or finds the same again; only the entry `free` may differ."""
    if path.is_dir() and any(path.iterdir()):
        if not (path / file).exists():
            raise BadRun(f"output folder {path} is not empty: choose another --out")
        if read_toml(path / file) | ({free: table[free]} if free else {}) != table:
            raise BadRun(
                f"{path} holds another {what}: go on with 'coterie resume {shlex.quote(str(path))}' or "
                "choose another --out"
            )
    write_whole(path / file, tomli_w.dumps(dict(table)))


def same_data(path: Path, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where and on what it began: kept from the first call, and its data compared with ours."""
    for past in read_lines(path / "run.json"):
        if past.get("fingerprint") != about["fingerprint"]:
            raise BadRun(f"{path}: the data or the first model differ from those it began with: start anew")
        same_threads(Record("", {}, past))
        return past
    write_whole(path / "run.json", json.dumps(about) + "\n")
    return about
