"""What the runs of makni-2022 gave, by cell and seed; its claims, and the question that it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.studies.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.studies.makni_2022 import CLIENTS, EXCHANGES
from coterie.studies.makni_2022.aggregates import COLUMNS, FL_SWAG, MEAN, TEMPERATURES

NAMES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR-10", "digits": "digits"}
AVERAGES = ("FedAvg", "wFedAvg", "BayAvg", "wBayAvg")
COMMON = "common"
SERVER = "the server alone"
ONE = [f"client {i + 1}" for i in range(CLIENTS)]

FACTORS = {"accuracy": 100.0, "ece": 100.0, "brier": 10.0, "nll": 10.0}
NEAR = 2.0  # points: the paper's FL-SWAG is 0.6 and 1.7 below FedAvg where it "performs very well"


@dataclass(frozen=True, eq=False)
class Found:
    """One cell of one seed: figures by row and metric, what pictures are drawn from, and its origin."""

    figures: Mapping[str, Mapping[str, float]]
    tallies: Mapping[str, Sequence[float]]
    counts: np.ndarray
    origin: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Results:
    """All of one preset: cells by seed, and the comparisons of section 6 by seed."""

    cells: Mapping[str, Mapping[int, Found]]
    cancer: Mapping[int, Mapping[str, Any]]

    def values(self, cell: str, row: str, metric: str = "accuracy") -> list[float]:
        return [f.figures[row][metric] for f in self.cells.get(cell, {}).values() if row in f.figures]

    def differences(self, cell: str, row: str, other: str, metric: str = "accuracy") -> list[float]:
        """Seed by seed, in the units of the tables."""
        found = [f.figures for f in self.cells.get(cell, {}).values() if {row, other} <= f.figures.keys()]
        return [FACTORS[metric] * (figures[row][metric] - figures[other][metric]) for figures in found]

    def data(self, kind: str) -> list[str]:
        return [cell.partition("/")[2] for cell in self.cells if cell.startswith(f"{kind}/")]


# claims


Check = Callable[[Results, str], Verdict]
"""Of one cell."""


def _by_data(kinds: Sequence[str], check: Check, row: str | None = None) -> Callable[[Results], Verdict]:
    """The same check for each data set of these kinds; with a row, for those that have it."""

    def checked(results: Results) -> Verdict:
        parts = {}
        for kind in kinds:
            for data in results.data(kind):
                cell, called = f"{kind}/{data}", f"{kind} {NAMES[data]}" if len(kinds) > 1 else NAMES[data]
                if row is None or results.values(cell, row):
                    parts[called] = check(results, cell)
        return every(parts)

    return checked


def _over_clients(statistic: Callable[[list[float]], float]) -> Check:
    """Points by which FL-SWAG's mean model is above the median, or the best, client."""

    def check(results: Results, cell: str) -> Verdict:
        gains = []
        for found in results.cells[cell].values():
            clients = [found.figures[c]["accuracy"] for c in ONE if c in found.figures]
            gains.append(100 * (found.figures[FL_SWAG + MEAN]["accuracy"] - statistic(clients)))
        return above_zero(gains, 2)

    return check


def _is_calmer(results: Results, cell: str) -> Verdict:
    """By how much the samplers' ECE x 100 exceeds FL-SWAG's, seed by seed."""
    name, ours, parts = cell.partition("/")[2], results.cells[cell], {}
    for label, other in {"SGLD": "sgld", "pSGLD": "psgld"}.items():
        theirs = results.cells.get(f"{other}/{name}", {})
        pairs = [(theirs[s].figures[other], f.figures[FL_SWAG]) for s, f in ours.items() if s in theirs]
        parts[label] = above_zero([100 * (a["ece"] - b["ece"]) for a, b in pairs], 2)
    return every(parts)


def _gap(row: str, other: str, metric: str = "accuracy") -> Check:
    digits = 2 if metric == "accuracy" else 4
    return lambda results, cell: above_zero(results.differences(cell, row, other, metric), digits)


def _nearly(row: str, other: str) -> Check:
    return lambda results, cell: near_zero(results.differences(cell, row, other), NEAR, 2)


TRAINED = ("lenet", "resnet")
CLAIMS: list[Claim[Results]] = [
    Claim(
        "logistic regression: FL-SWAG is above most clients (their median)",
        "7.1",
        _by_data(["logistic"], _over_clients(lambda clients: float(np.median(clients)))),
    ),
    Claim(
        f"logistic regression: FL-SWAG is near FedAvg, within {NEAR:g} points",
        "7.1",
        _by_data(["logistic"], _nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "logistic regression: FedAvg is above FL-SWAG",
        "7.1, table",
        _by_data(["logistic"], _gap("FedAvg", FL_SWAG + MEAN)),
    ),
    Claim(
        "logistic regression: averages by size are above plain ones",
        "7.1, table",
        _by_data(["logistic"], _gap("wFedAvg", "FedAvg")),
    ),
    Claim(
        f"after the server's training FL-SWAG is near FedAvg, within {NEAR:g} points",
        "8.3, table",
        _by_data(TRAINED, _nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "after the server's training FL-SWAG is above every client",
        "10",
        _by_data(TRAINED, _over_clients(max)),
    ),
    Claim(
        "FL-SWAG is above what the server had without the clients (ours, not the paper's)",
        "8.3",
        _by_data(TRAINED, _gap(FL_SWAG + MEAN, SERVER)),
    ),
    Claim(
        "FL-SWAG's ECE is below SGLD's and pSGLD's",
        "8.3, calibration (MNIST)",
        _by_data(TRAINED, _is_calmer),
    ),
]

QUESTIONS: list[Claim[Results]] = [
    Claim(
        f"low rank ({k}) helps: NLL below FL-SWAG's", "ours",
        _by_data(EXCHANGES, _gap(FL_SWAG, f"low rank {k}", "nll"), f"low rank {k}")
    )
    for k in COLUMNS
] + [
    Claim(
        f"a temperature of {T:g} helps: NLL below FL-SWAG's", "ours",
        _by_data(EXCHANGES, _gap(FL_SWAG, f"{FL_SWAG}, T = {T:g}", "nll"))
    )
    for T in TEMPERATURES
]  # fmt: skip

LEVELS = "levels do little harm: with them alone, accuracy is above FL-SWAG's"
SHUFFLED = "which parameters a client counts in does: the same numbers shuffled are above"
REASONS: list[Claim[Results]] = [
    Claim(text, "ours", _by_data(EXCHANGES, _gap(better, worse), better))
    for text, better, worse in (
        (LEVELS, "levels alone", FL_SWAG + MEAN),
        (SHUFFLED, "coordinates shuffled", "coordinates alone"),
        ("it has the wrong sign: by variance is above FL-SWAG", "by variance", FL_SWAG + MEAN),
        ("by variance is above FedAvg", "by variance", "FedAvg"),
    )
]
