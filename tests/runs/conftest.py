"""A regression of one weight on two clients, small enough to work out every figure by hand.

    client a   trains on (1, 2), (2, 4)             w ← w - lr (5 w - 10)     loss 2.5 (w - 2)²
    client b   trains on (1, 1), (-1, -1) twice     w ← w - lr (2 w - 2)      loss (w - 1)²

Whole data sets are one batch, so nothing is random unless a test asks for small batches.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from coterie.core import belief as tree
from coterie.core.client import Client, Samples
from coterie.core.options import table_of
from coterie.core.roster import roster_of
from coterie.engines import ENGINES
from coterie.kernels import SGD
from coterie.methods import METHODS
from coterie.nets import NETS
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.folder import Folder
from coterie.runs.loop import Outcome, run
from coterie.runs.settings import recorded
from coterie.sites.setup import Setup
from coterie.storage.tensors import read_tensors


class Cut(BaseException):
    """Stands for a kill: nothing is saved on its way out."""


def part(*pairs: tuple[float, float]) -> Samples:
    x, y = torch.tensor(pairs, dtype=torch.float32).reshape(-1, 2).T
    return Samples(x[:, None].contiguous(), y.contiguous())


@pytest.fixture
def two_clients():
    """`two_clients(validation=...)`: the clients a and b of the head of this file."""

    def make(validation: tuple[tuple[float, float], ...] = ()) -> list[Client]:
        a = Client("a", part((1, 2), (2, 4)), part((1, 2), (2, 4), (3, 7)), part(*validation))
        b = Client("b", part((1, 1), (-1, -1), (1, 1), (-1, -1)), part((1, 3), (1, 3)), part(*validation))
        return [a, b]

    return make


def _setup_on(clients) -> Setup:
    """Sites with a linear model of one weight, 0 at first."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    beliefs = tree.stack([tree.belief_of(model)])
    return Setup(tuple(clients), roster_of(clients, digests=True), model, beliefs, ("a note",))


@pytest.fixture
def setup_on():
    return _setup_on


@pytest.fixture
def tiny(two_clients):
    """`tiny("fedavg", rounds=2)`: an experiment on them, from weight 0 with lr 0.1."""

    def make(method: str = "fedavg", *, clients=None, local: SGD | None = None, options=None, **settings):
        local = local or SGD(lr=0.1)
        way = METHODS.make(method, local=local, **(options or {}))
        config = {"method": method, "rounds": 2, "seed": 0, "wrap": [], "evaluate": 1, "checkpoint": 1}
        config |= {**settings, method: table_of(way), "sgd": table_of(local)}
        setup, net, engine = (
            _setup_on(clients or two_clients()),
            NETS.make("in-process"),
            ENGINES.make("loop"),
        )
        return experiment_of(setup, recorded(config), way, connector=net, engine=engine, command=None)

    return make


@pytest.fixture
def restless(tiny):
    """An experiment whose state is more than weights: kept momentum, small batches, absent clients."""

    def make(**settings) -> Experiment:
        local = SGD(lr=0.02, batch=1, momentum=0.9, keep=True)
        chosen = {"rounds": 7, "wrap": ["absent=0.3"], "seed": 3, **settings}
        return tiny("finetune", local=local, options={"tune": 3}, **chosen)

    return make


@pytest.fixture
def run_in():
    """`run_in(path, experiment)`: runs in a folder, new or not, until it is over or cut after a round."""

    def go(path: Path, experiment: Experiment, cut: int | None = None, error=Cut) -> Outcome | None:
        def watch(record) -> None:
            if cut is not None and record.done >= cut:
                raise error

        new = not (path / "config.toml").exists()
        folder = Folder.create(path, experiment.config, experiment.about) if new else Folder(path)
        try:
            return run(experiment, folder, "x", watch)
        except error:
            return None
        finally:
            folder.close()

    return go


def assert_same_run(path: Path, reference: Path) -> None:
    """The same files, byte for byte; of a checkpoint all but the ids that a process gives to rows."""
    assert sorted(p.name for p in path.iterdir()) == sorted(p.name for p in reference.iterdir())
    for name in ("metrics.jsonl", "models.safetensors", "config.toml", "collaboration.jsonl"):
        assert (path / name).read_bytes() == (reference / name).read_bytes(), name
    (one, said), (two, told) = (read_tensors(p / "checkpoint.safetensors") for p in (path, reference))
    assert said == told
    assert one.keys() == two.keys()
    for name in one:
        assert name.endswith("/ids") or torch.equal(one[name], two[name]), name


@pytest.fixture
def same_run():
    return assert_same_run
