"""Coterie's server methods beside fluke 0.8.1, on the same rows from the same first weights: the largest
difference of a weight after some rounds.

fluke (https://github.com/makgyver/fluke, PyPI fluke-fl) gets an environment of its own, with Coterie in it:

    python -m venv fluke-env
    fluke-env/bin/pip install -c constraints.txt . fluke-fl==0.8.1
    fluke-env/bin/python benchmarks/server_agreement.py

Four clients of 12, 20, 31 and 45 rows, three classes, logistic regression in float64, three local passes over
a client's rows in one batch each, so that no order of batches is in it, eight rounds. Where the two differ
by design, both get what they have in common: fluke's optimisers begin with v = 0 and ours with τ², so τ is
1e-12; its SCAFFOLD sums control variates with equal weights, so both get equal weights. Its FedAvgM leaves
the first round out (its momentum is made, and stays 0): it gets one round more.

Cyclic transfer is in no package that we know, and is held against a loop in NumPy.
"""

from __future__ import annotations

import argparse
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import coterie
from coterie.kernels import SGD

SIZES, INPUTS, CLASSES = (12, 20, 31, 45), 5, 3
RATE, PASSES, ROUNDS = 0.1, 3, 8
TAU = 1e-12
ADAPTIVE = {"beta1": 0.9, "beta2": 0.99, "tau": TAU}
WORK = SGD(lr=RATE, epochs=PASSES, batch=10**6, shuffle=False)


def tables(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Clients that differ in their inputs and in what these say."""
    rng = np.random.default_rng(seed)
    made = []
    for i, n in enumerate(SIZES):
        x = rng.normal(i / 2, 1, size=(n, INPUTS)).astype(np.float32).astype(np.float64)
        y = (x @ rng.normal(size=(INPUTS, CLASSES))).argmax(axis=1)
        made.append((x, y))
    return made


def first(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(INPUTS, CLASSES).double()


def vector(model: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def ours(method: str, seed: int, **options: Any) -> np.ndarray:
    clients = [
        coterie.Client.from_arrays(x, y, name=f"c{i}", test=(x, y)) for i, (x, y) in enumerate(tables(seed))
    ]
    made = coterie.train(
        first(seed), clients, method=method, rounds=ROUNDS, kernel=WORK, engine="loop", **options
    )
    return vector(made.models["c0"])


def theirs(
    client: Any, server: Any, seed: int, rounds: int = ROUNDS, of_client: Any = None, **options: Any
) -> np.ndarray:
    """Rounds by fluke's own client and server classes."""
    from fluke.comm import Channel
    from fluke.config import OptimizerConfigurator
    from fluke.data import FastDataLoader

    clients = []
    for i, (x, y) in enumerate(tables(seed)):
        rows = FastDataLoader(
            torch.from_numpy(x), torch.from_numpy(y), num_labels=CLASSES, batch_size=len(x), shuffle=False
        )
        optimiser = OptimizerConfigurator({"name": torch.optim.SGD, "lr": RATE})
        clients.append(
            client(
                index=i,
                train_set=rows,
                test_set=None,
                optimizer_cfg=optimiser,
                loss_fn=nn.CrossEntropyLoss(),
                local_epochs=PASSES,
                **(of_client or {}),
            )
        )
    made = server(model=first(seed), test_set=None, clients=clients, **options)
    for one in clients:
        one.set_channel(made.channel)
    assert isinstance(made.channel, Channel)
    made.fit(n_rounds=rounds, eligible_perc=1.0, finalize=False)
    return vector(made.model)


def looped(seed: int) -> np.ndarray:
    """The model goes round, in NumPy: softmax regression, whole-batch steps."""
    weight, bias = (p.detach().numpy().copy() for p in first(seed).parameters())
    for _ in range(ROUNDS):
        for x, y in tables(seed):
            for _ in range(PASSES):
                logits = x @ weight.T + bias
                odds = np.exp(logits - logits.max(axis=1, keepdims=True))
                wrong = odds / odds.sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
                weight, bias = weight - RATE * wrong.T @ x / len(x), bias - RATE * wrong.mean(axis=0)
    return np.concatenate([weight.ravel(), bias])


def without_metrics() -> None:
    """fluke's metrics are not asked for: a stand-in saves torchmetrics, which wants torchvision."""
    shell = types.ModuleType("torchmetrics")
    for name in ("Accuracy", "F1Score", "Metric", "Precision", "Recall"):
        setattr(shell, name, type(name, (), {}))
    sys.modules.setdefault("torchmetrics", shell)


def pairs() -> dict[str, tuple[Callable[[int], np.ndarray], Callable[[int], np.ndarray]]]:
    without_metrics()
    try:
        from fluke.algorithms.fedavgm import FedAVGMServer
        from fluke.algorithms.fedopt import FedOptServer
        from fluke.algorithms.fedprox import FedProxClient
        from fluke.algorithms.scaffold import SCAFFOLDClient, SCAFFOLDServer
        from fluke.client import Client
        from fluke.server import Server
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed here: see the top of this file")

    def optimiser(
        mode: str, **options: float
    ) -> tuple[Callable[[int], np.ndarray], Callable[[int], np.ndarray]]:
        here = {k: v for k, v in options.items() if k != "beta2" or mode != "adagrad"}
        return (
            lambda seed: ours(f"fed{mode}", seed, server_lr=0.05, **here),
            lambda seed: theirs(Client, FedOptServer, seed, mode=mode, lr=0.05, **options),
        )

    return {
        "fedavg": (lambda s: ours("fedavg", s), lambda s: theirs(Client, Server, s, weighted=True)),
        "fedprox": (
            lambda s: ours("fedprox", s, mu=0.5),
            lambda s: theirs(FedProxClient, Server, s, of_client={"mu": 0.5}, weighted=True),
        ),
        "scaffold": (
            lambda s: ours("scaffold", s),
            lambda s: theirs(SCAFFOLDClient, SCAFFOLDServer, s, weighted=False),
        ),
        "fedadam": optimiser("adam", **ADAPTIVE),
        "fedyogi": optimiser("yogi", **ADAPTIVE),
        "fedadagrad": optimiser("adagrad", **ADAPTIVE),
        "fedavgm": (
            lambda s: ours("fedavgm", s, momentum=0.5),
            lambda s: theirs(Client, FedAVGMServer, s, rounds=ROUNDS + 1, momentum=0.5),
        ),
        "cyclic": (lambda s: ours("cyclic", s, order="fixed"), looped),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    print("| method | largest difference | largest way from the first weights |\n| --- | ---: | ---: |")
    for name, (mine, other) in pairs().items():
        found = [(mine(seed), other(seed)) for seed in range(seeds)]
        apart = max(float(np.abs(a - b).max()) for a, b in found)
        way = max(float(np.abs(a - vector(first(s))).max()) for s, (a, _) in enumerate(found))
        print(f"| `{name}` | {apart:.1e} | {way:.2f} |")


if __name__ == "__main__":
    main()
