"""Cells, and what each of them runs; the facts are in the package's own text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from coterie.api.folders import is_finished
from coterie.api.train import train
from coterie.core.belief import Beliefs
from coterie.core.client import Client, Samples
from coterie.core.method import Info, Method
from coterie.core.net import Net
from coterie.core.partners import Partners
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.data.clients import samples
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.counts import client_names
from coterie.data.partition.turns import TURNS
from coterie.data.sources import SOURCES
from coterie.data.sources.images import Normalise
from coterie.kernels import SGD, Adam
from coterie.methods import PENS, EpsilonGreedy, Greedy, Oracle, Random, RandomWeighted
from coterie.methods.peers.rounds import Choices, Peers, play
from coterie.methods.peers.turns import State
from coterie.papers.base import Asked, Job, Preset, Scale, Step
from coterie.papers.karlsson_2021.scales import SETTINGS
from coterie.papers.places import place
from coterie.papers.rows import fetch, with_test
from coterie.watching import Round

EPSILONS = {
    "epsilon-greedy-0.5": (0.5, 1.0),
    "epsilon-greedy-1-0.99": (1.0, 0.99),
    "epsilon-greedy-0.2": (0.2, 1.0),
}
MAIN = ("oracle", "pens", *EPSILONS, "greedy", "random-weighted", "random")  # Table 4.2
FEW = ("oracle", "pens", "random")  # figure 4.3
ONE = ("central-half", "central-all", "local")  # a single client trains; no other's first model matters
DRAWN: dict[str, type[Random]] = {"random": Random, "oracle": Oracle, "random-weighted": RandomWeighted}
INITS = ("independent", "common")


@dataclass(frozen=True)
class Alone(Peers):
    """Everybody by itself, with the peers' early stopping: local and, with all the data, central training."""

    name: ClassVar[str] = "alone"
    chooses: ClassVar[Partners] = Partners(shares="model")

    def check(self, roster: Roster, start: Beliefs, key: Key) -> list[str]:
        """One client will do."""
        return []

    def round(self, state: State, net: Net, key: Key) -> tuple[State, Info]:
        return play(self, state, net, key, Choices([[] for _ in range(len(net.roster))]))


@dataclass(frozen=True)
class LessOne(PENS):
    """as-run: one pick fewer makes a neighbour."""

    name: ClassVar[str] = "pens, threshold - 1"

    def threshold(self, picks: Tensor, clients: int) -> Tensor:
        return super().threshold(picks, clients) - 1


def groups(scale: Scale) -> dict[str, tuple[str, ...]]:
    """The methods, or values, of each group of cells."""
    given = SETTINGS[scale]
    found: dict[str, tuple[str, ...]] = {f"iid-{given.main}": ("central-half", "random", "local")}
    for init in INITS:
        for n in given.sizes:
            alone = (ONE if n == given.main else ("local",)) if init == "common" else ()
            found[f"{init}-{n}"] = alone + (MAIN if n == given.main else FEW)
    return found | {option: tuple(f"{v:g}" for v in values) for option, values in given.varied.items()}


@dataclass(frozen=True)
class Cell:
    """A cell taken apart: who learns how."""

    method: str
    init: str
    clients: int
    iid: bool
    selected: int = 0
    epochs: int = 0
    rate: float = 1.0


def cell_of(cell: str, scale: Scale) -> Cell:
    group, _, method = cell.partition("/")
    given = SETTINGS[scale]
    if group in given.varied:
        option: dict[str, float] = {group: float(method) if group == "rate" else int(method)}
        return Cell("random", "common", given.main, True, **option)  # type: ignore[arg-type]
    kind, _, n = group.partition("-")
    return Cell(method, "common" if kind == "iid" else kind, int(n), kind == "iid")


def method_of(cell: Cell, preset: Preset, scale: Scale) -> Method:
    given, as_run = SETTINGS[scale], preset == "as-run"
    size, rate = given.sizes[cell.clients], cell.rate * (given.adam if as_run else given.sgd)
    shared: dict[str, Any] = {
        "local": (Adam if as_run else SGD)(lr=rate, batch=8, epochs=cell.epochs or given.epochs),
        "order": "program" if as_run else "thesis",
        "patience": given.patience,
    }
    if cell.method in ONE:
        return Alone(**shared)
    if cell.method in DRAWN:
        return DRAWN[cell.method](**shared, selected=cell.selected or size.others)
    shared |= {"selected": size.selected, "sampled": size.sampled, "direction": "mine-on-theirs"}
    if cell.method == "greedy":
        return Greedy(**shared)
    if cell.method in EPSILONS:
        epsilon, decay = EPSILONS[cell.method]
        return EpsilonGreedy(**shared, epsilon=epsilon, decay=decay)
    passes = given.passes // size.train + (1 if as_run else 0)
    return (LessOne if as_run else PENS)(
        **shared,
        samplings=10,
        rounds_step1=given.step1,
        neighbours=size.others,
        epochs1=max(2, passes),
    )


def rounds_of(cell: Cell, scale: Scale) -> int:
    """At full scale PENS has its step 1 on top; where rounds are few, within them."""
    given = SETTINGS[scale]
    return given.rounds + (given.step1 if cell.method == "pens" and scale == "full" else 0)


@cache
def pictures(scale: Scale) -> Dataset:
    if scale == "tiny":
        data = SOURCES.make("digits").load()
        return with_test(data, SETTINGS[scale].tested)
    data = SOURCES.make("cifar10").load()
    return replace(data, prepare=Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))


def numbers(data: Dataset, pool: Arrays, turn: str) -> Samples:
    """Pictures turned and prepared, which is the same for every client."""
    turned = Arrays(TURNS[turn](pool.x), pool.y)
    if data.prepare is not None:
        (turned,), _ = data.prepare(turned)
    return samples(turned.x, turned.y)


@lru_cache(maxsize=1)
def dealt(preset: Preset, scale: Scale, n: int, iid: bool, seed: int) -> tuple[Client, ...]:
    """All clients, those of the first cluster first; a cluster's share their test set."""
    data, given = pictures(scale), SETTINGS[scale]
    assert data.test is not None
    size, turn = given.sizes[n], "flip-vertical" if preset == "as-run" else "rotate-180"
    turns = ["identity", "identity" if iid else turn]
    tests = [numbers(data, data.test.take(np.arange(given.tested)), t) for t in dict.fromkeys(turns)]
    order = Key(seed).at("data").numpy().permutation(len(data.train))
    each = size.train + size.validation
    made = []
    for k, name in enumerate(client_names(n)):
        cluster = 2 * k // n
        mine = order[k * each : (k + 1) * each]
        learn, validate = (
            numbers(data, data.train.take(rows), turns[cluster])
            for rows in (mine[: size.train], mine[size.train :])
        )
        test = tests[0 if iid else cluster]
        made.append(Client(name, learn, test, validate, classes=data.classes, cluster=0 if iid else cluster))
    return tuple(made)


def clients_of(cell: Cell, preset: Preset, scale: Scale, seed: int) -> tuple[Client, ...]:
    everybody = dealt(preset, scale, cell.clients, cell.iid, seed)
    if cell.method == "local":
        return everybody[0], everybody[-1]
    if cell.method == "central-half":  # which on IID data is all there is
        half = everybody if cell.iid else everybody[: len(everybody) // 2]
        return (together("central", half, half[:1]),)
    if cell.method == "central-all":
        return (together("central", everybody, (everybody[0], everybody[-1])),)
    return everybody


def together(name: str, clients: Sequence[Client], tested: Sequence[Client]) -> Client:
    """One client with the data of all; its test set is that of the `tested`."""

    def joined(parts: Sequence[Samples]) -> Samples:
        return Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))

    learn, validate = joined([c.train for c in clients]), joined([c.validation for c in clients])
    return Client(name, learn, joined([c.test for c in tested]), validate, classes=clients[0].classes)


def model_of(client: Client, scale: Scale, seed: int) -> nn.Module:
    shape = tuple(client.train.x.shape[1:])
    return SETTINGS[scale].model.build(shape, len(client.classes), Key(seed).at("model").integer())


def compute(path: Path, preset: Preset, scale: Scale, cell: Cell, seed: int, step: Step) -> None:
    """A run as any other, in its folder; one that was cut off goes on."""
    rounds = rounds_of(cell, scale)

    def watch(seen: Round) -> None:
        step(seen.round / rounds, f"round {seen.round} {100 * seen.metrics['accuracy']:.1f} %")

    clients = clients_of(cell, preset, scale, seed)
    train(
        model_of(clients[0], scale, seed),
        clients,
        method_of(cell, preset, scale),
        rounds=rounds,
        seed=seed,
        init=cell.init,  # type: ignore[arg-type]
        evaluate=SETTINGS[scale].evaluate,
        out=path,
        resume=True,
        watch=watch,
    )


def cost_of(cell: Cell, scale: Scale) -> float:
    """Pictures seen in training, about, in units of a round of everybody."""
    shares = {"local": 2 / cell.clients, "central-half": 1.0 if cell.iid else 0.5}
    return shares.get(cell.method, 1.0) * rounds_of(cell, scale) * (cell.epochs or SETTINGS[scale].epochs)


@dataclass(frozen=True)
class Karlsson:
    """Cells are group/method: common-50/pens, iid-200/random, epochs/3."""

    name: str = "karlsson-2021"
    citation: str = (
        "Karlsson, Onoszko: PENS: Leveraging Data Heterogeneity in Federated Learning. "
        "Master's thesis, Chalmers University of Technology, 2021"
    )
    presets: tuple[Preset, ...] = ("text",)
    seeds: int = 4
    scales: tuple[Scale, ...] = ("full", "small", "tiny")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{group}/{name}" for group, names in groups(scale).items() for name in names)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if scale != "full":
            return self.cells(scale), ()
        some = tuple(c for c in self.cells(scale) if c.startswith("common-50/"))
        return some, (
            "common-50 alone, a day or more on a few cores for four seeds; --cells names others, "
            "--minutes stops in time, --scale small takes an hour",
        )

    def jobs(self, asked: Asked) -> list[Job]:
        jobs = [
            job_of(asked, preset, cell, seed)
            for seed in range(asked.seeds)
            for preset in asked.presets
            for cell in asked.cells
        ]
        if asked.scale != "tiny":
            fetch(["cifar10"], jobs)
        return jobs

    def write(self, asked: Asked) -> list[Path]:
        from coterie.papers.karlsson_2021.report import write_all

        return write_all(self, asked)


def job_of(asked: Asked, preset: Preset, cell: str, seed: int) -> Job:
    path, taken = place(asked.out, preset, asked.scale, cell, seed), cell_of(cell, asked.scale)

    def run(step: Step) -> None:
        compute(path, preset, asked.scale, taken, seed, step)

    label = f"{preset} {cell} seed {seed}"
    return Job(label, cost_of(taken, asked.scale), is_finished(path), run)


PAPER = Karlsson()
