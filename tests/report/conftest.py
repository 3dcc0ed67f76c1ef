"""Made-up runs: some whose every number is known, and some that look like real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from coterie.nets.counting import Traffic, nothing_passed
from coterie.runs.record import Record, line, triplets

BYTES = 2600


def passed(clients: int, models: int) -> Traffic:
    """Each client sends the coordinator so many models, with two numbers each, and gets as many back."""
    found = nothing_passed(clients)
    found.models[:-1, -1] = found.models[-1, :-1] = models
    found.bytes[:] = BYTES * found.models
    found.numbers[:-1, -1] = 2 * models
    return found


def describe(names: Sequence[str], task: str = "classification", classes: int = 2) -> dict[str, Any]:
    """A run's `about` for clients with 10, 20, ... training and 5 test samples, of which always saying the
    most frequent class is right in none.
    """
    clients = []
    for i, name in enumerate(names):
        train = 10 * (i + 1)
        labels = [[train - classes + 1, *[1] * (classes - 1)], [0] * classes, [*[0] * (classes - 1), 5]]
        sizes = {"name": name, "train": train, "validation": 0, "test": 5}
        kept = {"labels": labels if task == "classification" else None, "cluster": None, "notes": []}
        clients.append(sizes | kept)
    return {
        "coterie": "0.1.0",
        "versions": {"python": "3.11.2", "torch": "2.6.0", "numpy": "2.1.0"},
        "commit": "abc1234",
        "machine": {"system": "Linux", "processor": "x86_64", "cores": 2, "threads": 2},
        "command": "coterie compare --data digits --method local --method fedavg",
        "task": task,
        "classes": [str(c) for c in range(classes)] if task == "classification" else [],
        "features": ["a", "b"],
        "clients": clients,
        "notes": ["pixels divided by 16"],
        "parameters": 650,
        "belief_bytes": BYTES,
    }


def with_even_classes(record: Record) -> Record:
    """The same, of training rows that accuracy sees: as many of either class."""
    for client in record.about["clients"]:
        client["labels"][0] = [client["train"] // 2] * 2
    return record


def known(
    finals: Mapping[str, Sequence[float | None]],
    label: str = "fedavg",
    seed: int = 0,
    names: Sequence[str] = ("a", "b"),
    task: str = "classification",
    rounds: int = 2,
    done: int | None = None,
    every: int = 1,
    **about: Any,
) -> Record:
    """A run that starts at half of its final figures and is there from round 1 on."""
    n, done = len(names), rounds if done is None else done
    lines = []
    for round in range(done + 1):
        share = 0.5 if round == 0 else 1.0
        own = {m: [None if v is None else share * v for v in values] for m, values in finals.items()}
        scores = {"own/test": own} if round % every == 0 or round == rounds else None
        moved = passed(n, 0 if label == "local" or round == 0 else 1)
        lines.append(line(round, scores, [None if round == 0 else 0.5] * n, moved, nothing_passed(n), {}))
    matrix = np.eye(n) if label == "local" else np.full((n, n), 1 / n)
    return Record(
        label=label,
        config={"data": "made", "method": label, "model": "logistic", "rounds": rounds, "seed": seed},
        about=describe(names, task) | about,
        metrics=lines,
        timings=[{"round": r, "seconds": 0.25, "evaluate_seconds": 0.125} for r in range(1, done + 1)],
        weights=dict.fromkeys(range(1, done + 1), matrix),
        passed=dict.fromkeys(range(1, done + 1), triplets(passed(n, label != "local"))),
    )


LIKELY = {"local": 0.86, "fedavg": 0.91, "weight-erosion": 0.93, "greedy": 0.92, "central": 0.945}


def likely(
    label: str,
    seed: int = 0,
    clients: int = 10,
    rounds: int = 30,
    task: str = "classification",
    classes: int = 10,
) -> Record:
    """A run that looks like one: curves that rise and level off, clients that differ, shifting circles."""
    rng = np.random.default_rng([seed, len(label)])
    names = [f"agent {i}" for i in range(clients)]
    top = LIKELY.get(label, 0.9) + np.linspace(-0.05, 0.05, clients) * (1 if label == "local" else -0.6)
    top = np.clip(top + rng.normal(0, 0.012, clients), 0, 0.995)
    about = describe(names, task, classes)
    for i, client in enumerate(about["clients"]):
        client["cluster"] = i % 2
        if task == "classification":
            counts = np.random.default_rng(i).integers(0, 60, (2, classes)) * (
                np.arange(classes) % 2 == i % 2
            )
            client["labels"] = [counts[0].tolist(), [0] * classes, (counts[1] // 3).tolist()]
            client["train"], client["test"] = int(counts[0].sum()), int((counts[1] // 3).sum())
    lines, weights = [], {}
    for round in range(rounds + 1):
        level = 0.1 + (top - 0.1) * (1 - np.exp(-round / rounds * 6)) + rng.normal(0, 0.004, clients)
        level = np.clip(level, 0, 1)
        if task == "classification":
            figures = {"accuracy": level, "balanced_accuracy": level - 0.03, "loss": 2.3 * (1 - level) + 0.1}
        else:
            figures = {"rmse": 9 * (1 - level) + 2, "r2": level - 0.1, "loss": (9 * (1 - level) + 2) ** 2}
        own = {m: values.round(5).tolist() for m, values in figures.items()}
        scores = {"own/test": own} | ({"shared/test": own} if label == "fedavg" else {})
        moved = passed(clients, 0 if label in ("local", "central") or round == 0 else 1)
        loss = [None] * clients if round == 0 else (1.8 * (1 - level)).tolist()
        lines.append(line(round, scores, loss, moved, nothing_passed(clients), {}))
        if round:
            weights[round] = _circle(label, clients, round / rounds, rng)
    options = {"sgd": {"lr": 0.1, "batch": 32}, "shift": {"groups": 2}, label: {"sample": 1.0}}
    return Record(
        label=label,
        config={"data": "digits", "split": "shift", "clients": clients, "model": "logistic", "method": label}
        | {"kernel": "sgd", "rounds": rounds, "seed": seed, "engine": "loop"}
        | options,
        about=about,
        metrics=lines,
        timings=[{"round": r, "seconds": 0.11, "evaluate_seconds": 0.02} for r in range(1, rounds + 1)],
        weights=weights,
    )


def _circle(label: str, n: int, progress: float, rng: np.random.Generator) -> np.ndarray:
    if label == "local":
        return np.eye(n)
    if label in ("fedavg", "central"):
        return np.full((n, n), 1 / n)
    same = np.equal.outer(np.arange(n) % 2, np.arange(n) % 2)
    matrix = np.where(same, 1.0, 1 - progress) * rng.uniform(0.6, 1, (n, n)) + 3 * np.eye(n)
    return matrix / matrix.sum(axis=1, keepdims=True)


def tell(record: Record) -> Record:
    """Adds what a method that erodes weights would say, and linear models on the two features a and b."""
    n, rounds = len(record.clients), sorted(record.weights)
    distance = 1.0 - np.eye(n)
    record.matrices = {
        "alpha": {r: 1 - distance * r / (2 * len(rounds)) for r in rounds},
        "relative distance": dict.fromkeys(rounds, distance),
    }
    classes = len(record.about["classes"]) or 1
    weight = torch.arange(2.0 * classes).reshape(classes, 2)
    record.about |= {"parameters": weight.numel()}
    record.models = lambda: {c: {"w": (i + 1) * weight} for i, c in enumerate(record.clients)}
    return record


@pytest.fixture
def two_seeds() -> list[Record]:
    """Two clients, two seeds. local: 0.6, 0.8 and 0.7, 0.9; fedavg: 0.8, 0.8 and 0.7, 1.0."""
    return [
        known({"accuracy": [0.6, 0.8], "loss": [1.0, 0.5]}, "local", 0),
        known({"accuracy": [0.7, 0.9], "loss": [0.8, 0.4]}, "local", 1),
        known({"accuracy": [0.8, 0.8], "loss": [0.6, 0.4]}, "fedavg", 0),
        known({"accuracy": [0.7, 1.0], "loss": [0.7, 0.2]}, "fedavg", 1),
    ]


@pytest.fixture
def telling() -> Any:
    return tell


@pytest.fixture
def make_known() -> Any:
    return known


@pytest.fixture
def evenly() -> Any:
    return with_even_classes


@pytest.fixture
def make_likely() -> Any:
    return likely
