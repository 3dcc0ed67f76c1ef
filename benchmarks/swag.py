"""What collecting SWAG's moments costs beside plain SGD: python benchmarks/swag.py

Ten clients of MNIST, logistic regression, some epochs at each client from one belief: by plain SGD, and by
SWAG on the same batches, whose replies bring home mean, variance and the last K deviations.

    per epoch, K=2      collected at the end of each epoch, as the authors of FL-SWAG did
    every 10, K=20      at every tenth step, with the usual number of columns
    every step, K=20    at every step

The figure is the seconds of SWAG over those of SGD on the same engine, which is to be at most 1.2. After a
warm-up of each, all are timed in turn `--repeats` times, and the best counts. With `--split interests`, that
of the thesis, clients differ in size, so that their epochs end at different steps. Where MNIST is not at hand
(see COTERIE_DATA), random numbers of its shape take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import tyro

from coterie.core import belief as tree
from coterie.core.belief import Beliefs
from coterie.core.client import Client
from coterie.core.held import hold
from coterie.core.kernel import Trainer
from coterie.core.learner import Learner
from coterie.core.net import SERVER, from_server
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import SPLITS
from coterie.data.sources import SOURCES
from coterie.engines import ENGINES
from coterie.kernels import SGD, SWAG, Gather
from coterie.models import MODELS
from coterie.nets import InProcess
from coterie.studies.bench.command import say_busy
from coterie.studies.bench.contenders import Run
from coterie.studies.bench.measure import interleave

BOUND = 1.2


@dataclass(frozen=True)
class Asked:
    engines: tuple[str, ...] = ("auto", "stacked", "loop")
    """Engines to time on."""
    split: Literal["iid", "interests"] = "iid"
    """How MNIST is dealt: alike, or by interests in classes and with sizes of their own."""
    epochs: int = 2
    """Passes of each client over its data."""
    batch: int = 64
    """Samples in a batch."""
    repeats: int = 5
    """How often to time each."""


def works(asked: Asked) -> dict[str, Trainer]:
    """What is timed: the same steps, with more or less collected."""

    def swag(rank: int, every: int = 1, per: Literal["step", "epoch"] = "step") -> Trainer:
        return Gather(SWAG(lr=0.05, epochs=asked.epochs, batch=asked.batch, rank=rank, every=every, per=per))

    return {
        "plain SGD": SGD(lr=0.05, epochs=asked.epochs, batch=asked.batch),
        "per epoch, K=2": swag(2, per="epoch"),
        "every 10, K=20": swag(20, every=10),
        "every step, K=20": swag(20),
    }


def mnist() -> tuple[Dataset, str]:
    """The data, and what it is."""
    source = SOURCES.make("mnist")
    if source.at_hand():
        return source.load(), "MNIST"
    draws = Key(0, ("benchmark", "swag")).numpy()
    x = draws.standard_normal((61_000, 1, 28, 28), dtype=np.float32)
    y = draws.integers(10, size=len(x))
    train, test = (
        Arrays(x[1000:], y[1000:]),
        Arrays(x[:1000], y[:1000]),
    )  # a test set, so that nobody holds rows out
    data = Dataset("random", "classification", train, test, classes=tuple("0123456789"))
    return data, "random numbers"


def visits(engine: str, clients: tuple[Client, ...]) -> Callable[[Trainer], Run]:
    """A kernel's visit to all clients, on a net made once."""
    module = MODELS.make("logistic").build((1, 28, 28), 10, seed=0)
    net = InProcess(ENGINES.make(engine), Learner(module, "classification"), clients)
    start = hold(tree.stack([tree.belief_of(module)]), SERVER)
    edges = from_server(torch.arange(len(clients)))

    def of(kernel: Trainer) -> Run:
        def run(key: Key) -> Beliefs:
            return net.open(net.visit(kernel, start, edges, key.at_round(1, 1)).beliefs)

        return run

    return of


def main() -> None:
    asked = tyro.cli(Asked, description=__doc__)
    say_busy()
    data, what = mnist()
    clients = deal_clients(data, SPLITS.make(asked.split), 10, Key(0), one_class=True).clients
    sizes = sorted(len(c.train) for c in clients)
    print(
        f"{what}, {asked.split}: 10 clients of {sizes[0]:,} to {sizes[-1]:,} rows, {asked.epochs} epoch(s), "
        f"batches of {asked.batch}, {torch.get_num_threads()} thread(s)"
    )
    for engine in asked.engines:
        visit = visits(engine, clients)
        runs = {name: visit(kernel) for name, kernel in works(asked).items()}
        best = {name: t.best for name, t in interleave(runs, asked.repeats, Key(0)).items()}
        plain = best.pop("plain SGD")
        print(f"{engine:8} plain SGD         {plain:7.3f} s")
        for name, seconds in best.items():
            print(f"{'':8} {name:17} {seconds:7.3f} s   {seconds / plain:.2f} of it, at most {BOUND}")


if __name__ == "__main__":
    main()
