"""Cells, and what each of them runs; the facts are in the package's own text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coterie.api.folders import digest, origin
from coterie.api.play import rounds
from coterie.core.belief import Belief
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput
from coterie.core.learner import Learner
from coterie.core.method import Method
from coterie.core.seeds import Key
from coterie.data.clients import samples
from coterie.data.dataset import Dataset
from coterie.data.partition import AgeSome, AgeStrict, Deal, Silos, Split
from coterie.data.sources import SOURCES
from coterie.data.sources.heart_disease import HOSPITALS
from coterie.data.sources.titanic import Titanic
from coterie.kernels import SGD
from coterie.methods import FedAvg, Local, WeightErosion
from coterie.models.linear import Logistic
from coterie.papers.base import Asked, Job, Preset, Scale, Step
from coterie.papers.grimberg_2020.as_run import CompletedEpochs, WrongAxis, by_batches, halves
from coterie.storage.atomic import append_line, keep_lines, read_lines

ROUNDS, P_D, P_S = 30, 0.01, 0.2
RATE, DECAY, GLOBAL_RATE = 3.0 / 2, 2e-3, 0.07 / 2
METHODS = ("global", "weight-erosion", "local")
AGENTS = 4
OVERLAP = 1.0  # the user's test rows over those it trains on: halves, drawn anew by every seed


@dataclass(frozen=True)
class Study:
    """Whose rows, how they are split, and how many make a batch."""

    title: str
    data: str
    split: Split
    batch: int
    users: tuple[str, ...]


STUDIES = {
    "age-strict": Study("Titanic, AGE_STRICT", "titanic", AgeStrict(), 161, ("0", "1", "2", "3")),
    "age-some": Study("Titanic, AGE_SOME", "titanic", AgeSome(), 132, ("0", "1", "2", "3")),
    "heart": Study("heart disease, four hospitals", "heart-disease", Silos(), 62, HOSPITALS),
}


@dataclass(frozen=True)
class Trace:
    """What is kept of a run, round 0 first.

    accuracy     on all of the user's test rows
    by_batches   the mean of the accuracies of its batches, as the author's program has it
    alpha        [round from 1, agent], for Weight Erosion
    weights      [output, feature and bias last] of the last model
    always       accuracy of always naming the first class; 1 - always is that of the second
    """

    method: str
    seed: int
    accuracy: list[float]
    by_batches: list[float]
    weights: list[list[float]]
    always: float
    names: list[str]
    features: list[str]
    alpha: list[list[float]] | None = None
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


def method_of(name: str, preset: Preset, batch: int, user: str) -> Method:
    as_run = preset == "as-run"
    rate = GLOBAL_RATE if as_run and name == "global" else RATE
    work = SGD(lr=rate, steps=1, batch=batch, shuffle=not as_run, weight_decay=DECAY)
    if name == "local":
        return Local(work, requester=user)
    if name == "global":
        return WrongAxis(work) if as_run else FedAvg(work, weighted=False)
    erosion = CompletedEpochs if as_run else WeightErosion
    return erosion(work, requester=user, p_d=P_D, p_s=P_S)


def agents(data: Dataset, deal: Deal, user: int, preset: Preset, key: Key) -> list[Client]:
    """The user tests on half of its rows; the others train on all of theirs and are not tested."""
    made = []
    for i, name in enumerate(deal.names):
        rows, rng = np.flatnonzero(deal.owner == i), key.at("rows", i).numpy()
        held = rows[:0]
        if i == user:
            held, rows = halves(data.train.y, rows, preset, rng)
        rng.shuffle(rows)
        pools = [data.train.take(part) for part in (rows, rows[:0], held)]
        if data.prepare is not None:
            pools, _ = data.prepare(*pools)
        train, validation, test = (samples(p.x, p.y) for p in pools)
        made.append(Client(name, train, test, validation, data.features, data.classes))
    return made


@cache
def loaded(name: str, preset: Preset) -> Dataset:
    as_run = name == "titanic" and preset == "as-run"
    return (Titanic("share") if as_run else SOURCES.make(name)).load()


def trace(study: Study, preset: Preset, user: int, seed: int, methods: Sequence[str]) -> Iterator[Trace]:
    """Each method on the same agents, from the same first model."""
    data, key = loaded(study.data, preset), Key(seed)
    deal = study.split.deal(data, data.train, None, key.at("data"))
    clients = agents(data, deal, user, preset, key.at("data"))
    model = Logistic().build((len(data.features),), len(data.classes), key.at("model", 0).integer())
    for name in methods:
        method = method_of(name, preset, study.batch, clients[user].name)
        accuracy, batched, alpha, last = play(method, model, clients, user, seed, study.batch)
        test = clients[user].test
        yield Trace(
            method=name,
            seed=seed,
            accuracy=accuracy,
            by_batches=batched,
            weights=torch.cat([last["head.weight"], last["head.bias"].unsqueeze(1)], dim=1).tolist(),
            always=float((test.y == 0).double().mean()),
            names=[c.name for c in clients],
            features=[*data.features, "bias"],
            alpha=alpha or None,
        )


def play(
    method: Method, model: nn.Module, clients: Sequence[Client], user: int, seed: int, batch: int
) -> tuple[list[float], list[float], list[list[float]], Belief]:
    """All rounds; after each, the user's model on the user's test rows. Nothing is saved in between:
    a run takes a tenth of a second.
    """
    learner, me = Learner(model, "classification"), clients[user]
    accuracy, batched, alpha = [], [], []
    own: Belief = {}
    for _, models, info in rounds(model, clients, method, rounds=ROUNDS, seed=seed):
        own = models[me.name]
        if info is not None and "alpha" in info.matrices:
            alpha.append(info.matrices["alpha"][user].tolist())
        with torch.no_grad():
            right = (learner.outputs(own, me.test.x).argmax(dim=1) == me.test.y).double()
        accuracy.append(float(right.mean()))
        batched.append(by_batches(right, batch))
    return accuracy, batched, alpha, own


def settings_of(study: Study, preset: Preset) -> str:
    """A fingerprint of all that decides a run but its seed: results of other settings do not count."""
    facts = {"rounds": ROUNDS, "p": [P_D, P_S], "rates": [RATE, GLOBAL_RATE, DECAY], "preset": preset}
    return digest({**facts, "batch": study.batch, "data": study.data, "split": str(study.split)})


def place(out: Path, preset: Preset, study: str, user: str) -> Path:
    return out / preset / "full" / study / f"{user}.jsonl"


def kept(out: Path, preset: Preset, study: str, user: str) -> list[Trace]:
    """The finished runs of a cell, by method and seed; each once."""
    wanted = settings_of(STUDIES[study], preset)
    lines = read_lines(place(out, preset, study, user))
    found = {(e["method"], e["seed"]): Trace(**e) for e in lines if e["settings"] == wanted}
    return [found[key] for key in sorted(found)]


@dataclass(frozen=True)
class Grimberg:
    """Cells are study/user: age-strict/0 to 3, age-some/0 to 3, heart/cleveland, ..."""

    name: str = "grimberg-2020"
    citation: str = (
        "Grimberg: Privacy-preserving and personalized federated machine learning for medical data. "
        "EPFL, 2020"
    )
    presets: tuple[Preset, ...] = ("text", "as-run")
    seeds: int = 20
    scales: tuple[Scale, ...] = ("full",)

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{name}/{user}" for name, study in STUDIES.items() for user in study.users)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        try:
            SOURCES.make("heart-disease").fetch()
        except BadData as error:
            few = tuple(c for c in self.cells(scale) if not c.startswith("heart/"))
            return few, (f"the four hospitals are left out: {error}",)
        return self.cells(scale), ()

    def jobs(self, asked: Asked) -> list[Job]:
        said = cache(origin)
        jobs = [
            job_of(asked, preset, cell, said)
            for preset in asked.presets
            for cell in asked.cells
            if preset == "text" or not cell.startswith("heart/")
        ]
        if not jobs:
            raise BadInput("the four hospitals, which the paper does not have, go with preset text only")
        return jobs

    def write(self, asked: Asked) -> list[Path]:
        from coterie.papers.grimberg_2020.report import write_all

        return write_all(self, asked)


def job_of(asked: Asked, preset: Preset, cell: str, said: Callable[[], dict[str, Any]]) -> Job:
    """All methods and seeds of a cell; each run is kept as soon as it is finished."""
    study, _, user = cell.partition("/")
    path, settings = place(asked.out, preset, study, user), settings_of(STUDIES[study], preset)
    have = {(t.method, t.seed) for t in kept(asked.out, preset, study, user)}
    left = {s: [m for m in METHODS if (m, s) not in have] for s in range(asked.seeds)}
    left = {seed: methods for seed, methods in left.items() if methods}

    def run(step: Step) -> None:
        keep_lines(path, lambda entry: entry["settings"] == settings)  # and no half line that a kill left
        who = STUDIES[study].users.index(user)
        for done, (seed, methods) in enumerate(left.items(), start=1):
            for found in trace(STUDIES[study], preset, who, seed, methods):
                append_line(path, {**asdict(found), "settings": settings, "origin": said()})
            step(done / len(left), f"seed {seed}")

    return Job(f"{preset} {cell}", float(sum(map(len, left.values()))), not left, run)


PAPER = Grimberg()
