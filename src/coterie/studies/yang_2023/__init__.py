"""Yang and Elkoushy, "Guiding federated learning with low rank metrics", 2023.

CIFAR-10, CIFAR-100 and TinyImageNet-200 are dealt to four clients by Dirichlet draws with alpha 0.3 and
0.0001. A ResNet-18 is trained with Adam by FedAvg, FedKG and FedUnique, three trials each. A figure is the
mean of the four clients' test accuracies, the best of all rounds: chosen by the test set it is measured on,
and so too high. The last round's stands beside it.

Cells are data-alpha/method, such as cifar10-0.3/fedkg. No program was published, so there is no preset
`as-run`. What the text leaves open, and what is taken here: a round is one local epoch, of 250 in all; Adam
has rate 1e-3 and is made anew in each round; batches of 128; beta = 0.8 and zeta = 1, natural in programs of
the same school; a client is tested on its own part of the published test set (TinyImageNet: validation set),
dealt in the proportions of its training rows; batch norm is averaged like all else.

Scale `small`: 3,000 pictures of CIFAR-10 and 1,000 to test on, the CNN of karlsson-2021, batches of 32, 15
rounds. Not a narrow ResNet, whose layers in so few rounds are too close to their first, random weights for
the factorisation to find anything in five of six of them; then the guided methods are FedAvg. Scale `tiny`:
the digits of scikit-learn, the last 500 to test on, and the CNN of gengler-2020, 8 rounds, to try the
programs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path

from coterie.api.folders import is_finished
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
from coterie.studies.base import Asked, Job, Paper, Scale, Step, cut, fetch, first_model, place, train_in

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


class _Yang(Paper):
    """Cells are data-alpha/method: cifar10-0.3/fedkg."""

    name = "yang-2023"
    citation = (
        "Yang, Elkoushy: Guiding Federated Learning with Low Rank Metrics. 2023, doi:10.18686/ahe.v7i29.10721"
    )
    seeds = 3

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{d}-{a}/{m}" for d in SETTINGS[scale].data for a in ALPHAS for m in METHODS)

    def jobs(self, asked: Asked) -> list[Job]:
        if "as-run" in asked.presets:
            raise BadInput("yang-2023 has no preset 'as-run', for no program was published: take text")
        jobs = []
        for seed, cell in itertools.product(range(asked.seeds), asked.cells):
            path = place(asked.out, "text", asked.scale, cell, seed)
            run = partial(_compute, path, asked.scale, cell, seed)
            jobs.append(Job(f"{cell} seed {seed}", 1.0, is_finished(path), run))
        if asked.scale != "tiny":
            fetch((parts_of(cell)[0] for cell in asked.cells), jobs)
        return jobs


def _compute(path: Path, scale: Scale, cell: str, seed: int, step: Step) -> None:
    group, _, method = cell.partition("/")
    given, clients = SETTINGS[scale], clients_of(group, scale, seed)
    model = first_model(MODELS.make(given.model), clients[0], seed)
    way = method_of(method, scale)
    train_in(path, step, model, clients, way, rounds=given.rounds, seed=seed, one_class="allow")


PAPER = _Yang()
