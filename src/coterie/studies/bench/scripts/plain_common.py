"""What the plain studies share: clients from a file, training, averaging, scoring, a table.

Written as research code has it: a module, `DataLoader(TensorDataset)`, `torch.optim`, state dicts, scores of
every client's model after each round. Nothing of coterie is imported, and nothing is slow on purpose. Clients
come prepared, from a file with the rows of every seed, so a plain study does not pay for preparing them.
"""

from __future__ import annotations

import argparse
import copy
import csv
import itertools
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

METRICS = ("accuracy", "balanced_accuracy", "auc", "ece", "brier", "nll")
COLUMNS = ("seed", "method", "round", "client", *METRICS)
BINS = 20  # of the expected calibration error

State = dict[str, Tensor]


@dataclass
class Client:
    name: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass
class Args:
    """What a method is to know; `steps` counts gradient steps."""

    rounds: int
    lr: float
    batch: int = 32
    steps: int = 0


Method = Callable[[list[Client], nn.Module, Args], Iterator[list[list[nn.Module]]]]
"""After each round the models of each client, whose predictions are averaged: nearly always a single one."""


def load_clients(path: str, seed: int) -> list[Client]:
    data = np.load(path)
    names = data[f"{seed}/names"]
    parts = ("train_x", "train_y", "test_x", "test_y")
    return [
        Client(str(name), *(torch.from_numpy(data[f"{seed}/{i}/{part}"]) for part in parts))
        for i, name in enumerate(names)
    ]


class Logistic(nn.Module):
    """Multinomial logistic regression."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(torch.flatten(x, start_dim=1))  # type: ignore[no-any-return]


def loader_of(x: Tensor, y: Tensor, args: Args) -> DataLoader[Any]:
    return DataLoader(TensorDataset(x, y), batch_size=args.batch, shuffle=True)


def train(model: nn.Module, loader: DataLoader[Any], args: Args) -> None:
    """One epoch of SGD."""
    model.train()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        args.steps += 1


def average(states: Sequence[State], shares: Sequence[float]) -> State:
    """Σ share · state, name by name."""
    mean = {name: shares[0] * tensor for name, tensor in states[0].items()}
    for state, share in zip(states[1:], shares[1:], strict=True):
        for name, tensor in state.items():
            mean[name] += share * tensor
    return mean


def local(
    clients: list[Client], start: nn.Module, args: Args, rounds: int | None = None
) -> Iterator[list[list[nn.Module]]]:
    """Each client alone."""
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    models = [copy.deepcopy(start) for _ in clients]
    for _ in range(args.rounds if rounds is None else rounds):
        for model, loader in zip(models, loaders, strict=True):
            train(model, loader, args)
        yield [[model] for model in models]


def fedavg(
    clients: list[Client], start: nn.Module, args: Args, rounds: int | None = None
) -> Iterator[list[list[nn.Module]]]:
    """One model, the average of what each client makes of it, weighted by the number of rows."""
    loaders = [loader_of(c.train_x, c.train_y, args) for c in clients]
    total = sum(len(c.train_y) for c in clients)
    shares = [len(c.train_y) / total for c in clients]
    server = copy.deepcopy(start)
    for _ in range(args.rounds if rounds is None else rounds):
        states = []
        for loader in loaders:
            model = copy.deepcopy(server)
            train(model, loader, args)
            states.append(model.state_dict())
        server.load_state_dict(average(states, shares))
        yield [[server] for _ in clients]


def finetune(
    clients: list[Client], start: nn.Module, args: Args, tune: int = 5
) -> Iterator[list[list[nn.Module]]]:
    """FedAvg; in the last rounds each client goes on alone."""
    tune, models = min(tune, args.rounds - 1), [[start]]
    for models in fedavg(clients, start, args, args.rounds - tune):
        yield models
    yield from local(clients, models[0][0], args, tune)


def central(clients: list[Client], start: nn.Module, args: Args) -> Iterator[list[list[nn.Module]]]:
    """All rows in one place."""
    x, y = torch.cat([c.train_x for c in clients]), torch.cat([c.train_y for c in clients])
    loader, model = loader_of(x, y, args), copy.deepcopy(start)
    for _ in range(args.rounds):
        train(model, loader, args)
        yield [[model] for _ in clients]


def evaluate(models: list[nn.Module], x: Tensor, y: Tensor) -> dict[str, float]:
    """Of the models' average prediction on a client's test rows."""
    with torch.no_grad():
        outputs = []
        for model in models:
            model.eval()
            outputs.append(F.softmax(model(x), dim=1))
        p = torch.stack(outputs).mean(dim=0)
    guess, truth, present = p.argmax(dim=1).numpy(), y.numpy(), np.unique(y.numpy())
    right = guess == truth
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean([right[truth == c].mean() for c in present])),
        "auc": _area_under_curve(truth, p[:, 1].numpy()) if p.shape[1] == 2 else math.nan,
        "ece": _expected_calibration_error(p.max(dim=1).values.numpy(), right),
        "brier": float(((p - F.one_hot(y, p.shape[1])) ** 2).sum(dim=1).mean()),
        "nll": float(F.nll_loss(p.clamp(min=1e-12).log(), y)),
    }


def _area_under_curve(truth: np.ndarray, score: np.ndarray) -> float:
    """How often a positive scores above a negative; a library's function takes ten times as long."""
    positive, negative = score[truth == 1][:, None], score[truth == 0]
    if not len(positive) or not len(negative):
        return math.nan
    return float((positive > negative).mean() + (positive == negative).mean() / 2)


def _expected_calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    error, edges = 0.0, np.linspace(0, 1, BINS + 1)
    for low, high in itertools.pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(error)


def run_study(methods: dict[str, Method], data: str, lr: float, seeds: int, rounds: int = 30) -> None:
    """Every method with every seed: `python plain_x.py OUT.csv` writes scores and prints a table."""
    given = _parse(data, lr, seeds, rounds)
    args, rows, steps = Args(given.rounds, given.lr), [], dict.fromkeys(methods, 0)
    for seed in range(given.seeds):
        clients = load_clients(given.data, seed)
        classes = 1 + max(int(part.max()) for c in clients for part in (c.train_y, c.test_y))
        for name, method in methods.items():
            torch.manual_seed(seed)
            random.seed(seed)
            before, start = args.steps, Logistic(clients[0].train_x[0].numel(), classes)
            for r, models in enumerate(method(clients, start, args), 1):
                for client, mine in zip(clients, models, strict=True):
                    scores = evaluate(mine, client.test_x, client.test_y)
                    rows.append({"seed": seed, "method": name, "round": r, "client": client.name, **scores})
            steps[name] += args.steps - before
    with open(given.out, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    _print_table(rows, steps, given.rounds)


def _parse(data: str, lr: float, seeds: int, rounds: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", help="the CSV file to write")
    parser.add_argument("--data", help=f"clients of every seed; by default {data} beside OUT")
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--rounds", type=int, default=rounds)
    given = parser.parse_args()
    given.data = given.data or os.path.join(os.path.dirname(given.out), data)
    return given


def _print_table(rows: list[dict[str, Any]], steps: dict[str, int], rounds: int) -> None:
    """After the last round: the mean over clients, then mean and deviation over seeds; and steps in all."""
    for method, taken in steps.items():
        mine = [row for row in rows if row["method"] == method and row["round"] == rounds]
        words = []
        for metric in METRICS:
            by_seed: dict[int, list[float]] = {}
            for row in mine:
                by_seed.setdefault(row["seed"], []).append(row[metric])
            means = [np.mean(values) for values in by_seed.values()]
            words.append(f"{metric} {np.mean(means):.3f} ± {np.std(means):.3f}")
        print(f"{method:<16}", "  ".join(words), f" steps {taken}")
