"""The two federations as FLamby made them: clients, a pooled client, and the test rows of everybody."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from coterie.core.client import Client, Samples
from coterie.core.errors import CoterieWarning
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.clients import Client as Participant
from coterie.data.intake import Array
from coterie.data.partition import Silos
from coterie.data.sources import SOURCES
from coterie.data.sources.heart_disease import CATEGORIES, COLUMNS, HOSPITALS, SPARSE, read_hospitals
from coterie.data.sources.tcga_brca import REGIONS
from coterie.metrics.survival import concordance

POOLED = "pooled"
SHARE, SPLIT_SEED = 0.66, 43


@dataclass(frozen=True)
class Federation:
    """How long and with which batches is trained."""

    source: str
    clients: tuple[str, ...]
    inputs: int
    batch: int
    epochs: int
    rounds: int
    rate: float
    """Of Adam, pooled and alone."""
    measure: str


FEDERATIONS = {
    "heart": Federation("heart-disease", HOSPITALS, 13, 4, 50, 15, 0.001, "accuracy"),
    "brca": Federation("tcga-brca", REGIONS, 39, 8, 30, 5, 0.1, "concordance"),
}


@dataclass(frozen=True, eq=False)
class _Rows:
    """Clients as they train; all rows as one client; and the test rows of each, and of all."""

    clients: tuple[Client, ...]
    pooled: Client
    tests: dict[str, Samples]


class OneLogit(nn.Module):
    """A linear model with one output z: the classes have 1 - σ(z) and σ(z), so that the cross-entropy of two
    classes is the logistic loss of z.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.linear(x)
        return torch.cat([torch.zeros_like(z), z], dim=1)


def model_of(name: str, seed: int) -> nn.Module:
    """With FLamby's first weights for that seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        inputs = FEDERATIONS[name].inputs
        return OneLogit(inputs) if name == "heart" else nn.Linear(inputs, 1)


def score(name: str, model: nn.Module, rows: Samples) -> float:
    """Accuracy, or concordance."""
    with torch.no_grad():
        outputs = model.eval()(rows.x)
    if name == "heart":
        return float((outputs.argmax(dim=1) == rows.y).double().mean())
    return float(concordance(outputs.squeeze(1), rows.y))


@cache
def rows_of(name: str) -> _Rows:
    return _heart() if name == "heart" else _brca()


def _heart() -> _Rows:
    table, ill = read_hospitals(SOURCES.make("heart-disease").fetch())
    plain = [c for c in COLUMNS if c not in SPARSE and c not in CATEGORIES]
    hot = [(c, value) for c in ("cp", "restecg") for value in CATEGORIES[c][1:]]
    kept = ~np.any([np.isnan(table[c]) for c in COLUMNS if c not in SPARSE], axis=0)
    x = np.column_stack([*(table[c] for c in plain), *((table[c] == value) for c, value in hot)])[kept]
    y, whose = ill[kept], table["hospital"][kept]
    train = np.zeros(len(y), dtype=bool)
    for hospital in HOSPITALS:
        mine = np.flatnonzero(whose == hospital)
        train[mine[trained_on(y[mine])]] = True
    parts = {h: (whose == h) for h in HOSPITALS} | {POOLED: np.ones(len(y), dtype=bool)}
    return _gathered({name: _client(name, x[mine], y[mine], train[mine]) for name, mine in parts.items()})


def trained_on(y: Array) -> Array:
    """The rows of a hospital that are trained on, by FLamby's call of scikit-learn."""
    from sklearn.model_selection import train_test_split

    counts = np.bincount(y, minlength=2)
    stratify = y if (counts > 2).all() else None
    kept, _ = train_test_split(
        np.arange(len(y)),
        test_size=1.0 - SHARE,
        train_size=SHARE,
        random_state=SPLIT_SEED,
        shuffle=True,
        stratify=stratify,
    )
    return np.sort(kept)


def _client(name: str, x: Array, y: Array, train: Array) -> Client:
    """All inputs by the mean and deviation of its own training rows; who has but one value has 0."""
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0, ddof=1)
    scaled = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoterieWarning)
        return Participant.from_arrays(
            scaled[train], y[train], name=name, test=(scaled[~train], y[~train]), classes=(0, 1)
        )


def _brca() -> _Rows:
    data = SOURCES.make("tcga-brca", fold="flamby", scale="none").load()
    dealt = deal_clients(data, Silos(), None, Key(0))
    by_name = {c.name: c for c in dealt.clients}
    parts = [by_name[name] for name in REGIONS]
    train, validation, test = (
        Samples(torch.cat([s.x for s in pools]), torch.cat([s.y for s in pools]))
        for pools in zip(*((c.train, c.validation, c.test) for c in parts), strict=True)
    )
    pooled = Client(POOLED, train, test, validation, features=parts[0].features, censored=True)
    return _gathered({c.name: c for c in (*parts, pooled)})


def _gathered(made: dict[str, Client]) -> _Rows:
    clients = tuple(c for name, c in made.items() if name != POOLED)
    return _Rows(clients, made[POOLED], {name: c.test for name, c in made.items()})
