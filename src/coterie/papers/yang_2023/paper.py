"""Cells, and what each of them runs; the facts are in the package's own text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from torch import nn

from coterie.api.folders import Record, is_finished
from coterie.api.train import train
from coterie.core.client import Client
from coterie.core.errors import BadInput
from coterie.core.method import Method
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Dataset
from coterie.data.partition.dirichlet import Dirichlet
from coterie.data.sources import SOURCES
from coterie.kernels import Adam
from coterie.methods import FedAvg, FedKG, FedUnique, Guided
from coterie.models import MODELS
from coterie.papers.base import Asked, Job, Preset, Scale, Step
from coterie.papers.places import place
from coterie.papers.rows import cut, fetch
from coterie.watching import Round

METHODS: dict[str, type[FedAvg] | type[Guided]] = {"fedavg": FedAvg, "fedkg": FedKG, "fedunique": FedUnique}
ALPHAS = ("0.3", "0.0001")
CLIENTS = 4


@dataclass(frozen=True)
class Setting:
    """What depends on the scale; rows are all, or so many to learn from and to test on."""

    data: tuple[str, ...]
    model: str
    rounds: int
    batch: int
    rows: tuple[int, int] | None = None


SETTINGS: dict[Scale, Setting] = {
    "full": Setting(("cifar10", "cifar100", "tiny-imagenet"), "resnet18", 250, 128),
    "small": Setting(("cifar10",), "pens-cnn", 15, 32, (3000, 1000)),
    "tiny": Setting(("digits",), "erosion-cnn", 8, 16, (1297, 500)),
}


def method_of(name: str, scale: Scale) -> Method:
    return METHODS[name](local=Adam(lr=1e-3, batch=SETTINGS[scale].batch, epochs=1))


def parts_of(cell: str) -> tuple[str, str, str]:
    """Data, alpha and method of a cell."""
    group, _, method = cell.partition("/")
    data, _, alpha = group.rpartition("-")
    return data, alpha, method


@cache
def loaded(name: str) -> Dataset:
    return SOURCES.make(name).load()


def rows_of(data: Dataset, scale: Scale, seed: int) -> Dataset:
    """All rows, or as many as the scale has: to learn from, drawn for each seed; to test on, the same."""
    return cut(data, SETTINGS[scale].rows, Key(seed).at("rows").numpy())


@lru_cache(maxsize=1)
def clients_of(group: str, scale: Scale, seed: int) -> tuple[Client, ...]:
    name, alpha, _ = parts_of(f"{group}/")
    data = rows_of(loaded(name), scale, seed)
    return deal_clients(data, Dirichlet(float(alpha)), CLIENTS, Key(seed).at("data"), one_class=True).clients


def model_of(clients: tuple[Client, ...], scale: Scale, seed: int) -> nn.Module:
    first, drawn = clients[0], Key(seed).at("model").integer()
    shape = tuple(first.train.x.shape[1:])
    return MODELS.make(SETTINGS[scale].model).build(shape, len(first.classes), drawn)


def compute(path: Path, scale: Scale, cell: str, seed: int, step: Step) -> None:
    """A run as any other, in its folder; one that was cut off goes on."""
    group, _, method = cell.partition("/")
    rounds, clients = SETTINGS[scale].rounds, clients_of(group, scale, seed)

    def watch(seen: Round) -> None:
        step(seen.round / rounds, f"round {seen.round} {100 * seen.metrics['accuracy']:.1f} %")

    train(
        model_of(clients, scale, seed),
        clients,
        method_of(method, scale),
        rounds=rounds,
        seed=seed,
        one_class="allow",
        out=path,
        resume=True,
        watch=watch,
    )


def best_and_last(record: Record) -> tuple[float, float]:
    """The mean accuracy over clients, in the best round and in the last."""
    _, values = record.curve("accuracy")
    means = values.mean(axis=1)
    return float(means.max()), float(means[-1])


@dataclass(frozen=True)
class Yang:
    """Cells are data-alpha/method: cifar10-0.3/fedkg."""

    name: str = "yang-2023"
    citation: str = (
        "Yang, Elkoushy: Guiding Federated Learning with Low Rank Metrics. 2023, doi:10.18686/ahe.v7i29.10721"
    )
    presets: tuple[Preset, ...] = ("text",)
    seeds: int = 3
    scales: tuple[Scale, ...] = ("full", "small", "tiny")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{d}-{a}/{m}" for d in SETTINGS[scale].data for a in ALPHAS for m in METHODS)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.cells(scale), ()

    def jobs(self, asked: Asked) -> list[Job]:
        if "as-run" in asked.presets:
            raise BadInput("yang-2023 has no preset 'as-run', for no program was published: take text")
        jobs = [job_of(asked, cell, seed) for seed in range(asked.seeds) for cell in asked.cells]
        if asked.scale != "tiny":
            fetch((parts_of(cell)[0] for cell in asked.cells), jobs)
        return jobs

    def write(self, asked: Asked) -> list[Path]:
        from coterie.papers.yang_2023.report import write_all

        return write_all(self, asked)


def job_of(asked: Asked, cell: str, seed: int) -> Job:
    path = place(asked.out, "text", asked.scale, cell, seed)

    def run(step: Step) -> None:
        compute(path, asked.scale, cell, seed, step)

    return Job(f"{cell} seed {seed}", 1.0, is_finished(path), run)


PAPER = Yang()
