"""Games worked out by hand, and federations to value."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from coterie.features.contributions import Game
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.settings import Settings

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "contributions.py"


def game_of(players: int, values) -> Game:
    """`values` of a set: a number, or one for each judge."""
    return Game(players, lambda some: np.array([np.atleast_1d(values(s)) for s in some], dtype=float))


@pytest.fixture
def make_game():
    return game_of


@pytest.fixture(scope="session")
def benchmark():
    """The functions of benchmarks/contributions.py."""
    spec = importlib.util.spec_from_file_location("contributions_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def played():
    """`played("fedavg", wrap=[...])`: a record of digits on five clients."""

    def go(method="fedavg", wrap=(), rounds=2, folder=None, kernel="sgd", clients=5, options=None, **more):
        tables = {kernel: {"lr": 0.1}} if kernel in ("sgd", "swag") else {}
        settings = Settings(
            data="digits",
            clients=clients,
            method=method,
            kernel=kernel,
            rounds=rounds,
            wrap=tuple(wrap),
            options=tables | ({method: options} if options else {}),
            **{"validation": 0.2, "evaluate": rounds, **more},
        )
        return run(prepare(settings, None), folder, method).record

    return go
