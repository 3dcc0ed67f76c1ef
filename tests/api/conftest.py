from __future__ import annotations

import numpy as np
import pytest
import torch

from coterie.data.clients import Client


@pytest.fixture(scope="session")
def hospitals() -> list[Client]:
    """Three clients of different sizes with two classes that a linear model almost tells apart."""
    rng = np.random.default_rng(0)
    made = []
    for i, rows in enumerate((30, 40, 50)):
        X = rng.normal(size=(rows, 4)).astype(np.float32)
        y = (X @ np.array([1, -1, 0.5, i / 2]) + 0.3 * rng.normal(size=rows) > 0).astype(int)
        made.append(Client.from_arrays(X, y, name=f"hospital-{'abc'[i]}", test=0.4, validation=0.2))
    return made


@pytest.fixture(scope="session")
def right():
    """The share of a client's test rows that a module gets right."""

    def share(module: torch.nn.Module, client: Client) -> float:
        with torch.no_grad():
            return float((module(client.test.x).argmax(dim=1) == client.test.y).double().mean())

    return share


@pytest.fixture(scope="module")
def rows():
    """X on odd scales, labels as texts, sites of which one goes its own way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 4)) * [1, 10, 100, 1] + [0, 5, 300, 0]
    site = np.array(["lakeview", "north", "south"])[np.arange(180) % 3]
    own = np.where(site == "north", -1, 1) * X[:, 3]
    return X, np.where(X[:, 0] + X[:, 1] / 10 + own > 0.5, "ill", "well"), site
