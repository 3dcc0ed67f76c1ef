"""What is written before anything is timed: clients for the plain scripts, and pictures for many clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.runs.compare import Comparison
from coterie.runs.experiment import Builder
from coterie.runs.settings import Settings

SIDE, CLASSES, SHADES = 28, 10, 256


def write_clients(path: Path, comparison: Comparison) -> None:
    """The rows of each seed's clients, prepared: SEED/names, and SEED/CLIENT/train_x, train_y and so on."""
    arrays, builder = {}, Builder()
    settings = comparison.with_method(comparison.methods[0])  # clients are the same for all methods
    for seed in range(settings.seed, settings.seed + comparison.seeds):
        clients = builder.footing(replace(settings, seed=seed), lambda roster, start: ()).clients
        arrays[f"{seed}/names"] = np.array([c.name for c in clients])
        for i, client in enumerate(clients):
            for part, samples in (("train", client.train), ("test", client.test)):
                arrays[f"{seed}/{i}/{part}_x"] = samples.x.numpy()
                arrays[f"{seed}/{i}/{part}_y"] = samples.y.numpy()
    np.savez(path, **arrays)  # type: ignore[arg-type]


def write_pictures(path: Path, train: int, test: int, seed: int = 0) -> None:
    """Random grey pictures whose label is the largest of as many random sums over their pixels."""
    rng = Key(seed, ("bench", "pictures")).numpy()
    x = rng.integers(SHADES, size=(train + test, 1, SIDE, SIDE), dtype=np.uint8)
    truth = rng.normal(size=(SIDE * SIDE, CLASSES)).astype(np.float32)
    y = ((x.reshape(len(x), -1).astype(np.float32) - SHADES / 2) @ truth).argmax(axis=1)
    np.savez(path, train_x=x[:train], train_y=y[:train], test_x=x[train:], test_y=y[train:])


def check_at_hand(workload: str, settings: Settings) -> None:
    """A workload does not download: refused unless its data are there."""
    if not settings.made("data").at_hand():
        raise BadInput(
            f"{workload} needs data that is not at hand: coterie data fetch {settings.data}, or name other "
            "--workloads"
        )
