"""Cross-validation inside each client: a fold of its training rows takes the place of its test rows.

The clients are those of the run itself. While a trial runs, a client trains on k - 1 folds and its `test` is
the fold that is left: its real test rows are nowhere in the trial. What prepared the rows (medians, scales)
was fitted on all of the client's training rows, as in the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, Diverged
from coterie.data.holdout import Rows
from coterie.core.method import Method
from coterie.engines import Absent
from coterie.nets.in_process import Engine
from coterie.metrics.summary import mean_over_clients
from coterie.runs.experiment import Experiment
from coterie.runs.runner import Watch, run


def deal_folds(y: npt.NDArray[np.generic], folds: int, rng: np.random.Generator) -> Rows:
    """The fold of each row: sizes differ by at most one, and so do the counts of each label.

    Rows are ordered by label (ties at random) and dealt in turn, so each range of a continuous target is
    spread over the folds too.
    """
    order = np.lexsort((rng.random(len(y)), y))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = (np.arange(len(y)) + rng.integers(folds)) % folds
    return fold


def folds_of(experiment: Experiment, folds: int) -> list[Rows]:
    """The fold of each training row of each client, from the run's seed."""
    small = min(experiment.clients, key=lambda c: len(c.train))
    if len(small.train) < folds:
        raise BadInput(
            f"folds={folds} exceeds the {len(small.train)} training row(s) of client {small.name!r}: "
            "lower it or give every client more rows"
        )
    return [
        deal_folds(c.train.y.cpu().numpy(), folds, experiment.key.at("folds", i).numpy())
        for i, c in enumerate(experiment.clients)
    ]


def held_out(client: Client, fold: Rows, i: int) -> Client:
    """The client with fold i for its test part, the other folds for training, and no other test rows."""
    x, y, mine = client.train.x, client.train.y, torch.from_numpy(fold == i)
    return replace(client, train=Samples(x[~mine], y[~mine]), test=Samples(x[mine], y[mine]))


def fold_experiment(
    whole: Experiment, folds: Sequence[Rows], i: int, method: Method, engine: Engine
) -> Experiment:
    """The same run on what fold i leaves to train on, scored after its last round."""
    clients = tuple(held_out(c, f, i) for c, f in zip(whole.clients, folds, strict=True))
    judge = replace(whole.judge, engine=engine, clients=clients)
    absent = float(whole.config["absent"])
    return replace(
        whole,
        config={**whole.config, "evaluate": whole.rounds},
        clients=clients,
        method=method,
        judge=judge,
        net=Absent(judge, absent) if absent else judge,
    )


def validate(experiment: Experiment, metric: str, watch: Watch) -> float:
    """The mean over clients of a metric on the fold that was left out."""
    record = run(experiment, None, "fold", watch).record
    if any(math.isnan(loss) for loss in record.final("loss")):
        raise Diverged("the loss on held-out rows is not finite: lower the learning rate")
    value = mean_over_clients(record.final(metric))
    if math.isnan(value):
        raise BadInput(f"{metric} is not defined on any client's held-out rows: lower folds or use loss")
    return value
