"""Karlsson and Onoszko, "PENS: Leveraging Data Heterogeneity in Federated Learning", 2021.

CIFAR-10 is dealt in equal parts to 50, 200 or 1,000 clients; the pictures of one half of them are turned, so
that there are two clusters. Each client has 875, 125 or 25 pictures to train on and 125, 125 or 25 to
validate, and is tested on all 10,000 test pictures, turned as its own are. The network is `pens-cnn`, batches
of 8, rate 1e-3, 3 local epochs, at most 333 rounds; early stopping with patience 50 and window 5. Everybody
averages with 20 others; greedy methods with 4 of 20 sampled; PENS has 20 rounds of step 1, with 2, 10 or 50
epochs and 1 of 5, 4 of 20 or 4 of 20 picked, 10 samplings a round, and then 333 of step 2.

Cells are group/method. Groups: `common-N` and `independent-N` initialisation with N clients (Tables 4.2 and
4.3, figures 4.2 and 4.3), `iid-N` with no picture turned (Table 4.1), and `selected`, `epochs`, `rate`, in
which random on IID data has one of its options changed (figure 4.1; its values are ours, for the thesis gives
them in a picture alone). Local training is that of one client of each cluster; central training that of one
client that has all the pictures of a cluster (`central-half`) or of both (`central-all`), tested on both.

`text`: rotation by 180 degrees, SGD, all train and then average one after the other (order thesis), as in
section 3.4: figures are of averaged models. Algorithms 1 to 5 differ: they end a round with local training,
and figures would be of models trained after averaging (order trained), which are some points lower.

`as-run`, what the authors' program did otherwise:
    pictures are flipped, top to bottom
    Adam, made anew after each averaging
    one client after the other averages and trains at once (order program); nobody trains before
    step 1 has ⌊1250 / n⌋ + 1 epochs, n being the pictures to train on
    a neighbour needs more than m_selected R n_samplings / (N - 1) - 1 picks           LessOne

Table 3.2 gives greedy 20 for m_selected and nothing for m_sample; section 5 has 4, as for epsilon-greedy, and
so has this.

Scale `small`: 2,400 pictures of CIFAR-10 for 16 or 32 clients, 1,000 to test on, the network with 8 channels
for 32, 12 rounds of which 5 are PENS's step 1, 4 others to average with, greedy 1 of 5; SGD has rate 0.05, or
nothing would move in so few rounds. Scale `tiny`: the digits of scikit-learn and an MLP, 8 or 16 clients, 8
rounds, to try the programs. Neither stops early, their runs being shorter than any patience.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.client import Client, Samples
from coterie.core.method import Info, Method
from coterie.core.net import Net
from coterie.core.partners import Partners
from coterie.core.roster import Roster
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset, samples
from coterie.data.partition.clusters import turn as turned_by
from coterie.data.partition.counts import client_names
from coterie.data.sources import SOURCES
from coterie.data.sources.base import Normalise
from coterie.kernels import SGD, Adam
from coterie.methods import PENS, EpsilonGreedy, Greedy, Oracle, Random, RandomWeighted
from coterie.methods.peers.rounds import Choices, Peers, play
from coterie.methods.peers.turns import State
from coterie.models.base import Model
from coterie.models.mlp import Mlp
from coterie.models.pens_cnn import PensCnn
from coterie.studies.base import (
    Asked,
    Job,
    Paper,
    Preset,
    Scale,
    Step,
    fetch,
    first_model,
    seed_jobs,
    train_in,
    with_test,
)

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
class Size:
    """What depends on the number of clients: pictures of each, and whom PENS and greedy ask."""

    train: int
    validation: int
    selected: int
    sampled: int
    others: int


@dataclass(frozen=True)
class Setting:
    """What depends on the scale. `main` is the number of clients with all methods, and of IID data.

    passes      pictures that a client sees in a round of step 1, about
    sgd, adam   rates
    varied      figure 4.1's options and their values, beside the usual ones of iid-N/random; a rate is a
                multiple of the usual one
    """

    sizes: Mapping[int, Size]
    main: int
    rounds: int
    step1: int
    passes: int
    sgd: float
    tested: int
    evaluate: int
    model: Model
    varied: Mapping[str, tuple[float, ...]]
    adam: float = 1e-3
    epochs: int = 3
    patience: int = 0


SETTINGS: dict[Scale, Setting] = {
    "full": Setting(
        sizes={50: Size(875, 125, 1, 5, 20), 200: Size(125, 125, 4, 20, 20), 1000: Size(25, 25, 4, 20, 20)},
        main=200, rounds=333, step1=20, passes=1250, sgd=1e-3, patience=50, model=PensCnn(), tested=10_000,
        evaluate=10,
        varied={"selected": (1, 5, 10, 40), "epochs": (1, 5, 10), "rate": (0.1, 0.3, 3.0, 10.0)}
    ),
    "small": Setting(
        sizes={16: Size(150, 30, 1, 5, 4), 32: Size(75, 15, 1, 5, 4)},
        main=16, rounds=12, step1=5, passes=450, sgd=0.05, model=PensCnn(width=8), tested=1000, evaluate=12,
        varied={"selected": (1, 15), "epochs": (1,), "rate": (0.1,)}
    ),
    "tiny": Setting(
        sizes={8: Size(80, 20, 1, 3, 3), 16: Size(40, 10, 1, 5, 4)},
        main=16, rounds=8, step1=4, passes=120, sgd=0.1, adam=1e-2, model=Mlp(), tested=297, evaluate=4,
        varied={"selected": (1,), "epochs": (1,), "rate": (0.1,)}
    ),
}  # fmt: skip


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
class _LessOne(PENS):
    """as-run: one pick fewer makes a neighbour."""

    name: ClassVar[str] = "pens, threshold - 1"

    def threshold(self, picks: Tensor, clients: int) -> Tensor:
        return super().threshold(picks, clients) - 1


def _groups(scale: Scale) -> dict[str, tuple[str, ...]]:
    """The methods, or values, of each group of cells."""
    given = SETTINGS[scale]
    found: dict[str, tuple[str, ...]] = {f"iid-{given.main}": ("central-half", "random", "local")}
    for init in INITS:
        for n in given.sizes:
            alone = (ONE if n == given.main else ("local",)) if init == "common" else ()
            found[f"{init}-{n}"] = alone + (MAIN if n == given.main else FEW)
    return found | {option: tuple(f"{v:g}" for v in values) for option, values in given.varied.items()}


@dataclass(frozen=True)
class _Cell:
    """A cell taken apart: who learns how."""

    method: str
    init: str
    clients: int
    iid: bool
    selected: int = 0
    epochs: int = 0
    rate: float = 1.0


def cell_of(cell: str, scale: Scale) -> _Cell:
    group, _, method = cell.partition("/")
    given = SETTINGS[scale]
    if group in given.varied:
        option: dict[str, float] = {group: float(method) if group == "rate" else int(method)}
        return _Cell("random", "common", given.main, True, **option)  # type: ignore[arg-type]
    kind, _, n = group.partition("-")
    return _Cell(method, "common" if kind == "iid" else kind, int(n), kind == "iid")


def method_of(cell: _Cell, preset: Preset, scale: Scale) -> Method:
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
    return (_LessOne if as_run else PENS)(
        **shared, samplings=10, rounds_step1=given.step1, neighbours=size.others, epochs1=max(2, passes)
    )


def rounds_of(cell: _Cell, scale: Scale) -> int:
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
    turned = Arrays(turned_by(turn, pool.x), pool.y)
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


def clients_of(cell: _Cell, preset: Preset, scale: Scale, seed: int) -> tuple[Client, ...]:
    everybody = dealt(preset, scale, cell.clients, cell.iid, seed)
    if cell.method == "local":
        return everybody[0], everybody[-1]
    if cell.method == "central-half":  # which on IID data is all there is
        half = everybody if cell.iid else everybody[: len(everybody) // 2]
        return (_together("central", half, half[:1]),)
    if cell.method == "central-all":
        return (_together("central", everybody, (everybody[0], everybody[-1])),)
    return everybody


def _together(name: str, clients: Sequence[Client], tested: Sequence[Client]) -> Client:
    """One client with the data of all; its test set is that of the `tested`."""

    def joined(parts: Sequence[Samples]) -> Samples:
        return Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]))

    learn, validate = joined([c.train for c in clients]), joined([c.validation for c in clients])
    return Client(name, learn, joined([c.test for c in tested]), validate, classes=clients[0].classes)


class _Karlsson(Paper):
    """Cells are group/method: common-50/pens, iid-200/random, epochs/3."""

    name = "karlsson-2021"
    citation = (
        "Karlsson, Onoszko: PENS: Leveraging Data Heterogeneity in Federated Learning. "
        "Master's thesis, Chalmers University of Technology, 2021"
    )
    seeds = 4
    nothing = "no scored round of {} yet"

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{group}/{name}" for group, names in _groups(scale).items() for name in names)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if scale != "full":
            return self.cells(scale), ()
        some = tuple(c for c in self.cells(scale) if c.startswith("common-50/"))
        return some, (
            "common-50 alone, a day or more on a few cores for four seeds; --cells names others, "
            "--minutes stops in time, --scale small takes an hour",
        )

    def jobs(self, asked: Asked) -> list[Job]:
        def cost(name: str) -> float:
            """Pictures seen in training, about, in units of a round of everybody."""
            cell = cell_of(name, asked.scale)
            shares = {"local": 2 / cell.clients, "central-half": 1.0 if cell.iid else 0.5}
            epochs = cell.epochs or SETTINGS[asked.scale].epochs
            return shares.get(cell.method, 1.0) * rounds_of(cell, asked.scale) * epochs

        jobs = seed_jobs(asked, cost, _compute)
        if asked.scale != "tiny":
            fetch(["cifar10"], jobs)
        return jobs


def _compute(path: Path, preset: Preset, scale: Scale, name: str, seed: int, step: Step) -> None:
    cell = cell_of(name, scale)
    clients = clients_of(cell, preset, scale, seed)
    model, way = first_model(SETTINGS[scale].model, clients[0], seed), method_of(cell, preset, scale)
    given: dict[str, Any] = {"init": cell.init, "evaluate": SETTINGS[scale].evaluate}
    train_in(path, step, model, clients, way, rounds=rounds_of(cell, scale), seed=seed, **given)


PAPER = _Karlsson()
