"""FLamby (Ogier du Terrail et al., 2022, "FLamby: datasets and benchmarks for cross-silo federated learning
in realistic healthcare settings", NeurIPS datasets and benchmarks): two of its federations run again, its
methods first and then personal ones on the same rows.

**Heart disease** (Fed-Heart-Disease): four hospitals, slope, ca and thal left out, then rows with an unknown
value; a cholesterol of 0 counts as a number. 13 inputs: chest pain and resting ECG one-hot without their
first value. 66 % of a hospital's rows are trained on, drawn by scikit-learn's
`train_test_split(random_state=43)`, stratified where each class has more than two rows. All inputs, flags
too, are standardised by the mean and deviation of the hospital's own training rows; for the pooled model and
the pooled test set by those of all. Linear 13-1, logistic loss, batches of 4. Pooled and alone: Adam, 0.001,
50 epochs. Others: SGD, 100 updates a round, 15 rounds.

**Breast cancer** (Fed-TCGA-BRCA): six regions, its fixed split (source `tcga-brca`, fold=flamby), age in
years. Linear 39-1, Cox's loss, batches of 8. Pooled and alone: Adam, 0.1, 30 epochs. Others: 5 rounds.

First weights are those of FLamby's seeds 42 to 46. Rates are those that it published as the best of a search;
beta1 = 0.9, beta2 = 0.999, tau = 1e-8. `as-run` is what its program does otherwise than its text says: its
`Cyclic` never hands the model on (flamby/strategies/cyclic.py, `perform_round`): each client trains a model
of its own when its turn comes, one client a round, and the first client's is tested.
"""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from coterie.api.folders import digest
from coterie.api.train import train
from coterie.core.client import Samples
from coterie.core.errors import BadInput, CoterieWarning
from coterie.core.kernel import Trainer
from coterie.core.method import METHODS
from coterie.kernels import SGD, Adam
from coterie.studies.base import Asked, CellFile, Job, LineStudy, Scale
from coterie.studies.flamby.federations import FEDERATIONS, POOLED, Federation, model_of, rows_of, score

FIRST_SEED = 42
UPDATES = 100
OURS = 0.01  # the rate of all that FLamby did not search one for
PROGRAM = {"beta1": 0.9, "tau": 1e-8}
ADAPTIVE = {**PROGRAM, "beta2": 0.999}
PUBLISHED_WAYS: dict[str, dict[str, tuple[float, dict[str, Any]]]] = {
    "fedavg": {"heart": (0.001, {}), "brca": (0.1, {})},
    "fedprox": {"heart": (0.001, {"mu": 0.01}), "brca": (0.1, {"mu": 0.1})},
    "scaffold": {"heart": (0.001, {"weighted": True}), "brca": (0.01, {"weighted": True})},
    "fedadam": {
        "heart": (0.01, {"server_lr": 0.01, **ADAPTIVE}),
        "brca": (0.01, {"server_lr": 0.1, **ADAPTIVE}),
    },
    "fedyogi": {
        "heart": (0.003162, {"server_lr": 0.01, **ADAPTIVE}),
        "brca": (0.01, {"server_lr": 0.1, **ADAPTIVE}),
    },
    "fedadagrad": {
        "heart": (0.003162, {"server_lr": 0.316228, **PROGRAM}),
        "brca": (0.01, {"server_lr": 1.0, **PROGRAM}),
    },
    "cyclic": {"heart": (0.01, {}), "brca": (0.01, {})},
    "finetune": {"heart": (0.001, {"tune": 1}), "brca": (0.1, {"tune": 1})},
}
"""By federation the rate of clients and the method's options, as published."""
BASELINES = ("pooled", "alone")
AS_RUN = "cyclic-as-run"
AT_OUR_RATE = ("local", "fedavg", "finetune")
"""Beside the personal methods, with their rate."""
PERSONAL = (
    "ditto", "pfedme", "apfl", "fedper", "fedrep", "per-fedavg", "fedfomo", "fedamp",
    "fedala", "pfedgraph", "ifca", "cfl", "data-interpolation", "advised", "weight-erosion", "pens", "ndoye",
    "influence", "similar", "dac", "d-psgd", "robust-personal", "fl-swag",
)  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "fedper": {"home": "*bias"},
    "fedrep": {"home": "*bias"},
    "finetune": {"tune": 1},
}
"""Where the defaults do not do for a model of one layer, or leave nothing to tune."""
HELD_OUT = {"fedfomo": 0.2}
"""Share of the training rows that become validation rows, for who needs some."""
RATED = "-0.01"
TINY = {"rounds": 2, "updates": 3, "epochs": 1}


WAYS = (*BASELINES, *PUBLISHED_WAYS, AS_RUN, *(f"{name}{RATED}" for name in (*AT_OUR_RATE, *PERSONAL)))
"""What there is to run, in the order of the tables."""


@dataclass(frozen=True)
class Trace:
    """What is kept of a run: figures by test set; `refused` says why there is none."""

    seed: int
    scores: dict[str, float]
    refused: str = ""
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Length:
    """How long is trained."""

    rounds: int
    updates: int
    epochs: int


def _length_of(study: Federation, scale: Scale) -> Length:
    full = Length(study.rounds, UPDATES, study.epochs)
    return dataclasses.replace(full, **TINY) if scale == "tiny" else full


def trace(name: str, way: str, seed: int, long: Length) -> Trace:
    """One run; seeds count from 0 here and are FLamby's inside."""
    study, seed = FEDERATIONS[name], FIRST_SEED + seed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoterieWarning)
            return Trace(seed, run(name, study, way, seed, long))
    except BadInput as error:
        return Trace(seed, {}, refused=str(error).splitlines()[0])


def run(name: str, study: Federation, way: str, seed: int, long: Length) -> dict[str, float]:
    rows, model = rows_of(name), model_of(name, seed)
    adam = Adam(lr=study.rate, batch=study.batch, epochs=long.epochs)
    told: dict[str, Any] = {"seed": seed, "one_class": "allow", "progress": False}
    if way == "pooled":
        made = train(model, [rows.pooled], "local", rounds=1, kernel=adam, **told)
        return {test: score(name, made.models[POOLED], r) for test, r in rows.tests.items()}
    clients = list(rows.clients)
    if way == "alone":
        made = train(model, clients, "local", rounds=1, kernel=adam, **told)
        return _own_scores(name, made.models)
    if way == AS_RUN:
        turns = turns_of_first(len(clients), long.rounds, seed)
        work = _sgd(study, PUBLISHED_WAYS["cyclic"][name][0], long)
        if turns:
            made = train(model, clients[:1], "local", rounds=turns, kernel=work, **told)
            model = made.models[clients[0].name]
        return {test: score(name, model, r) for test, r in rows.tests.items()}
    called = way.removesuffix(RATED)
    rate, options = PUBLISHED_WAYS[way][name] if way in PUBLISHED_WAYS else (OURS, OPTIONS.get(called, {}))
    if called in HELD_OUT:
        for i, client in enumerate(clients):  # some of its training rows are for validation
            rows_in_turn = torch.randperm(len(client.train), generator=torch.Generator().manual_seed(seed))
            last = round(HELD_OUT[called] * len(client.train))
            learn, validate = (
                Samples(client.train.x[some], client.train.y[some])
                for some in (rows_in_turn[last:], rows_in_turn[:last])
            )
            clients[i] = dataclasses.replace(client, train=learn, validation=validate)
    rounds = long.rounds + (called == "finetune")
    method = METHODS.make(called, local=_sgd(study, rate, long), **options)
    made = train(model, clients, method, rounds=rounds, evaluate=rounds, **told)
    found = _own_scores(name, made.models)
    if made.shared is not None and called != "finetune":
        found[POOLED] = score(name, made.shared, rows.tests[POOLED])
    return found


def _sgd(study: Federation, rate: float, long: Length) -> Trainer:
    return SGD(lr=rate, batch=study.batch, steps=long.updates)


def _own_scores(name: str, models: Any) -> dict[str, float]:
    return {c.name: score(name, models[c.name], c.test) for c in rows_of(name).clients}


def turns_of_first(clients: int, rounds: int, seed: int) -> int:
    """In how many of so many rounds FLamby's program has the turn of its first client."""
    rng, drawn = np.random.default_rng(seed), list[int]()
    while len(drawn) < rounds:
        drawn += rng.permutation(clients).tolist()
    return drawn[:rounds].count(0)


class _Flamby(LineStudy[Trace]):
    """Cells are federation/way: heart/fedavg, brca/scaffold, ..."""

    name = "flamby"
    citation = (
        "Ogier du Terrail et al., FLamby: datasets and benchmarks for cross-silo federated learning in "
        "realistic healthcare settings, 2022"
    )
    nothing = "no results of {}"
    sources: ClassVar[dict[str, str]] = {name: study.source for name, study in FEDERATIONS.items()}
    ways = WAYS

    def file(self, out: Path, scale: Scale, study: str, way: str) -> CellFile[Trace]:
        """The fingerprint has all that decides a run but its seed."""
        called = way.removesuffix(RATED)
        ours = called != "finetune" and called in PERSONAL
        own = [OPTIONS.get(called), HELD_OUT.get(called)] if ours else []
        chosen = PUBLISHED_WAYS.get(way, {}).get(study, (OURS, way, *(o for o in own if o)))
        told = {"study": str(FEDERATIONS[study]), "way": repr(chosen)}
        settings = digest({**told, "length": str(_length_of(FEDERATIONS[study], scale))})
        path = out / "text" / scale / study / f"{way}.jsonl"
        return CellFile(path, settings, Trace, lambda trace: trace.seed - FIRST_SEED)

    def job(self, asked: Asked, study: str, way: str) -> Job:
        """All seeds of a cell."""

        def compute(seed: int) -> list[Trace]:
            return [trace(study, way, seed, _length_of(FEDERATIONS[study], asked.scale))]

        file = self.file(asked.out, asked.scale, study, way)
        return file.job(
            f"{study}/{way}", range(asked.seeds), compute, lambda seed: f"seed {FIRST_SEED + seed}"
        )


PAPER = _Flamby()
