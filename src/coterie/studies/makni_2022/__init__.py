"""Makni, "Deriving FL-SWAG as a one-shot method for the sake of calibration and privacy protection", 2022.

Ten clients of different sizes, each with a favourite class, train alone on MNIST, FashionMNIST or CIFAR-10
and send a Gaussian once. Cells are what is trained and on what:

    cancer/wisconsin        section 6: SWAG beside HMC, see `cancer.py`
    logistic/DATA           the table of 7.1: ten clients, FL-SWAG, four averages
    common/DATA             its last line: a logistic regression on all data in one place
    lenet/DATA              the table of 8.3 after a server's pretraining; resnet/cifar10 likewise
    sgld/DATA, psgld/DATA   the calibration table's rows beside FL-SWAG, on all data in one place

Everybody is tested on the published test set. Clients of a cell are trained once, and everything that can be
made of what they sent is scored: see `aggregates.py`.

Facts of the authors' program, used in both presets: rate .01, constant; batches of 64; 10 plain epochs and
20 collecting, one state an epoch; the network that it calls LeNet5. The server trains 20 epochs, its rate
falling from .1 to .005. Of the LeNet the text says 20 epochs, of CIFAR-10 30, which may be the collecting
ones or all; the epochs of logistic regressions are not known.

    preset    text                                              as-run
    server    learns from a fifth of each client's rows,        learns from all clients' rows
              which the client gives up
    clients   train the last layer, on frozen features          train all layers, from the server's, with the
                                                                last layer's bias drawn afresh
    epochs    10 plain, 20 collecting                           on FashionMNIST the LeNet's clients 1 and 5
    batches   in a new order each epoch                         in the rows' order, for FL-SWAG's clients
    moments   begin with the state before collecting            have collected states only
    draws     from the Gaussian                                 with noise variance · z
    sgld,     as their papers have them, on a whole LeNet,      one program for both: psgld with decay .95, in
    psgld     10 epochs; of the second half 30 states           which FashionMNIST had no noise at all (and
                                                                MNIST none for 3,000 steps; here at once)

Rates of the samplers are not known either: here .1 for SGLD and .001, in units of its metric, for pSGLD,
whose 1e-2 in the program is taken for what is added to the root of squared gradients.

CIFAR-10: the authors' ResNet-18 weights are not published; a ResNet-18 is trained here in the same way as the
LeNet, on clients' data as the preset says, and its last layer is what clients train under both presets, for
the program did so too. SGLD and pSGLD then sample that layer.

Scale `small`: 6,000 pictures and 2,000 to test on, a ResNet-18 of width 8. Scale `tiny`: the digits of
scikit-learn and an MLP for both networks, to try the programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coterie.api.folders import body_of, is_finished, origin, read_record, sent
from coterie.api.play import net_of
from coterie.api.train import train
from coterie.core.client import Client, Samples
from coterie.core.method import Method
from coterie.core.net import Net
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset, samples
from coterie.data.partition.interests import Interests
from coterie.data.sources import SOURCES
from coterie.kernels import PSGLD, SGD, SGLD, SWAG
from coterie.methods import FLSWAG, BayesCentral, Central
from coterie.models.base import Model
from coterie.models.lenet import LeNet5Small
from coterie.models.linear import Logistic
from coterie.models.mlp import Mlp
from coterie.models.resnet import ResNet18
from coterie.storage.atomic import write_whole
from coterie.studies.base import Asked, Job, Paper, Preset, Scale, Step, cut, fetch, first_model, seed_jobs
from coterie.studies.makni_2022.aggregates import FLOOR, SAMPLES, score
from coterie.studies.makni_2022.cancer import cancer as swag_beside_hmc
from coterie.watching import Round, every_round

Server = Mapping[str, Any]  # the options of `train`'s features

CLIENTS = 10
SCORES = "scores.json"
CANCER = "cancer.json"
EXCHANGES = ("logistic", "lenet", "resnet")
SAMPLERS = ("sgld", "psgld")
ASIDE = 0.2  # of each client's rows, for the server


@dataclass(frozen=True)
class Setting:
    """What depends on the scale.

    networks   by data: what the server trains
    epochs     plain ones and collecting ones; `short` by data, of a LeNet's clients, where as-run differs
    server     the server's epochs
    chain      a sampler's epochs
    rows       to learn from and to test on; all, if None
    """

    networks: Mapping[str, Model]
    epochs: tuple[int, int] = (10, 20)
    short: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"fashion-mnist": (1, 5)})
    server: int = 20
    chain: int = 10
    rows: tuple[int, int] | None = None
    lr: float = 0.01


LENETS: dict[str, Model] = {"mnist": LeNet5Small(), "fashion-mnist": LeNet5Small()}
SETTINGS: dict[Scale, Setting] = {
    "full": Setting(LENETS | {"cifar10": ResNet18()}),
    "small": Setting(LENETS | {"cifar10": ResNet18(width=8)}, rows=(6000, 2000)),
    "tiny": Setting({"digits": Mlp(hidden=(16,))}, (2, 4), server=30, chain=10, rows=(1297, 500), lr=0.3),
}


@cache
def loaded(name: str, scale: Scale) -> Dataset:
    return cut(SOURCES.make(name).load(), SETTINGS[scale].rows, np.random.default_rng(0))


def prepared(data: Dataset, pool: Arrays) -> Samples:
    """Rows as numbers, which for pictures is the same for every client."""
    pools = [pool] if data.prepare is None else data.prepare(pool)[0]
    return samples(pools[0].x, pools[0].y)


@lru_cache(maxsize=1)
def clients_of(name: str, scale: Scale, seed: int) -> tuple[Client, ...]:
    """Algorithm 4; the published test set is everybody's."""
    data = loaded(name, scale)
    assert data.test is not None
    deal = Interests().deal(data, data.train, CLIENTS, Key(seed).at("data"))
    test = prepared(data, data.test)
    nothing = Samples(test.x[:0], test.y[:0])
    trains = (prepared(data, data.train.take(np.flatnonzero(deal.owner == i))) for i in range(CLIENTS))
    return tuple(
        Client(name, train, test, nothing, classes=data.classes)
        for name, train in zip(deal.names, trains, strict=True)
    )


def swag(preset: Preset, scale: Scale) -> SWAG:
    as_run = preset == "as-run"
    return SWAG(lr=SETTINGS[scale].lr, batch=64, shuffle=not as_run, per="epoch", rank=20, origin=not as_run)


def server(kind: str, preset: Preset, scale: Scale) -> Server:
    as_run = preset == "as-run"
    source = "clients" if as_run else "aside"
    frozen = kind == "resnet" or not as_run
    return {"source": source, "aside": ASIDE, "freeze": frozen, "epochs": SETTINGS[scale].server}


def sampler(kind: str, data: str, preset: Preset, scale: Scale) -> SGLD:
    """Of the second half of the chain, 30 states or more, the last 30 kept."""
    rows = len(loaded(data, scale).train)
    if data == "cifar10" and preset == "text":
        rows = int(rows * (1 - ASIDE))
    every = max(1, SETTINGS[scale].chain * -(-rows // 64) // 2 // SAMPLES)
    if preset == "as-run":
        noise = 0.0 if data == "fashion-mnist" else 1.0
        return PSGLD(batch=64, decay=0.95, every=every, rank=SAMPLES, temperature=noise)
    if kind == "sgld":
        return SGLD(lr=0.1, batch=64, every=every, rank=SAMPLES)
    return PSGLD(batch=64, every=every, rank=SAMPLES)


@dataclass(frozen=True)
class Work:
    """A cell taken apart: the model, the method, its rounds (epochs), and the server's part."""

    model: Model
    method: Method
    rounds: int
    features: Server | None = None


def work_of(kind: str, data: str, preset: Preset, scale: Scale) -> Work:
    given = SETTINGS[scale]
    short = given.short if (kind, preset) == ("lenet", "as-run") else {}
    plain, collecting = short.get(data, given.epochs)
    rounds, network = plain + collecting, given.networks[data]
    if kind == "common":
        return Work(Logistic(), Central(SGD(lr=given.lr, batch=64)), rounds)
    if kind in SAMPLERS:
        features = server("resnet", preset, scale) if data == "cifar10" else None
        return Work(network, BayesCentral(sampler(kind, data, preset, scale)), given.chain, features)
    # draws are made once, of what was sent, and not by every client in the run itself
    clamp: dict[str, Any] = {"floor": FLOOR, "below": "raise"}  # the authors', in both presets
    method = FLSWAG(swag(preset, scale), warm=plain / rounds, form="low-rank", samples=0, **clamp)
    if kind == "logistic":
        return Work(Logistic(), method, rounds)
    return Work(network, method, rounds, server(kind, preset, scale))


def _compute(path: Path, preset: Preset, scale: Scale, cell: str, seed: int, step: Step) -> None:
    """A run as any other, in its folder; one that was cut off goes on. Then what was sent is scored."""
    kind, _, data = cell.partition("/")
    if kind == "cancer":
        found = swag_beside_hmc(preset, seed, step, scale)
        write_whole(path / CANCER, json.dumps({**found, "origin": origin()}))
        return
    clients, work = clients_of(data, scale, seed), work_of(kind, data, preset, scale)
    model = first_model(work.model, clients[0], seed)

    @every_round
    def watch(seen: Round) -> None:
        step(0.9 * seen.round / work.rounds, f"round {seen.round}")

    if not is_finished(path):
        train(
            model, clients, work.method, rounds=work.rounds, seed=seed, evaluate=work.rounds,
            one_class="allow", features=work.features, out=path, resume=True, watch=watch,
        )  # fmt: skip
    if kind in EXCHANGES:
        step(0.9, "scoring")
        sizes = torch.tensor([c["train"] for c in read_record(path).about["clients"]])
        judge = _tested(path, work, model, clients[0])
        scores = score(judge, list(sent(path).values()), sizes, preset, Key(seed).at("scores"))
        write_whole(path / SCORES, json.dumps({"figures": scores.figures, "tallies": scores.tallies}))


def _tested(path: Path, work: Work, model: nn.Module, client: Client) -> Net:
    """One site with the test set, as what clients trained takes it: of frozen layers, what these give."""
    if work.features is None or not work.features["freeze"]:
        return net_of(model, [client])
    body = body_of(path, model)
    test = Samples(body.features(client.test.x), client.test.y)
    return net_of(model.get_submodule(body.last), [replace(client, train=test, validation=test, test=test)])


def is_done(path: Path, cell: str) -> bool:
    kind = cell.partition("/")[0]
    if kind == "cancer":
        return (path / CANCER).exists()
    return is_finished(path) and (kind not in EXCHANGES or (path / SCORES).exists())


class _Makni(Paper):
    """Cells are what is trained and the data: logistic/mnist, sgld/fashion-mnist, cancer/wisconsin."""

    name = "makni-2022"
    citation = (
        "Makni: Deriving FL-SWAG as a One-Shot Method for the Sake of Calibration and Privacy Protection. "
        "Bachelor's thesis, École polytechnique, 2022"
    )

    def cells(self, scale: Scale) -> tuple[str, ...]:
        found = ["cancer/wisconsin"] if scale != "small" else []
        for kind in ("logistic", "common", "lenet", "resnet", *SAMPLERS):
            for name in SETTINGS[scale].networks:
                if kind in SAMPLERS or (name == "cifar10") == (kind == "resnet"):
                    found.append(f"{kind}/{name}")
        return tuple(found)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if scale != "full":
            return self.cells(scale), ()
        some = tuple(c for c in self.cells(scale) if not c.endswith("/cifar10"))
        return some, (
            "all but CIFAR-10, whose ResNet-18 takes a core hours to train; --cells resnet,sgld,psgld names "
            "it, --scale small has a narrow one",
        )

    def jobs(self, asked: Asked) -> list[Job]:
        # at full scale, about
        seconds = {"cancer": 60.0, "logistic": 20.0, "common": 20.0, "resnet": 20_000.0}
        jobs = seed_jobs(asked, lambda cell: seconds.get(cell.partition("/")[0], 150.0), _compute, is_done)
        fetch({c.partition("/")[2] for c in asked.cells} - {"wisconsin", "digits"}, jobs)
        return jobs


PAPER = _Makni()
