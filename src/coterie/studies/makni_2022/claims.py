"""What the runs of makni-2022 gave, by cell and seed; its claims, and the question that it leaves open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.api.folders import read_record
from coterie.studies.base import Asked, Paper, Preset, by_preset, read_runs
from coterie.studies.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.studies.makni_2022 import CANCER, CLIENTS, EXCHANGES, SAMPLERS, SCORES, is_done
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


def read(asked: Asked, paper: Paper) -> dict[Preset, Results]:
    """Everything below OUT at this scale that is finished."""
    results: dict[Preset, Results] = {}
    names = paper.cells(asked.scale)
    for preset, runs in by_preset(lambda preset: read_runs(asked, preset, names, _read)).items():
        cancer = runs.pop("cancer/wisconsin", {})
        results[preset] = Results(runs, cancer)
    return results


def _read(path: Path, cell: str) -> Any:
    if not is_done(path, cell):
        return None
    return json.loads((path / CANCER).read_text()) if cell.startswith("cancer/") else read_cell(path, cell)


def read_cell(path: Path, cell: str) -> Found:
    record, kind = read_record(path), cell.partition("/")[0]
    counts = np.array([c["labels"][0] for c in record.about["clients"]])
    figures: dict[str, dict[str, float]] = {}
    tallies: dict[str, Sequence[float]] = {}
    if kind in EXCHANGES:
        scored = json.loads((path / SCORES).read_text())
        figures, tallies = scored["figures"], scored["tallies"]
        for note in record.about["notes"]:  # the server's own accuracy is said, not measured round by round
            if alone := re.search(r"the server's model alone: ([\d.]+) %", note):
                figures[SERVER] = {"accuracy": float(alone[1]) / 100}
    else:
        # everybody has the same test set and, here, the same model
        figures[kind] = {m: record.final(m)[0] for m in FACTORS}
        if kind in SAMPLERS and (found := record.calibration()) is not None:
            tallies[kind] = [float(v) for tally in found for part in tally for v in part[0]]
    return Found(figures, tallies, counts, record.about)


# claims


def _by_data(
    kinds: Sequence[str], check: Callable[[Results, str], Verdict], row: str | None = None
) -> Callable[[Results], Verdict]:
    """The same check for each data set of these kinds; with a row, for those that have it."""

    def called(cell: str) -> str:
        kind, _, data = cell.partition("/")
        return f"{kind} {NAMES[data]}" if len(kinds) > 1 else NAMES[data]

    def checked(results: Results) -> Verdict:
        cells = [f"{kind}/{data}" for kind in kinds for data in results.data(kind)]
        having = [cell for cell in cells if row is None or results.values(cell, row)]
        return every({called(cell): check(results, cell) for cell in having})

    return checked


def _over_clients(results: Results, cell: str, statistic: Callable[[list[float]], float]) -> list[float]:
    """Points by which FL-SWAG's mean model is above the median, or the best, client."""
    gains = []
    for found in results.cells[cell].values():
        clients = [found.figures[c]["accuracy"] for c in ONE if c in found.figures]
        gains.append(100 * (found.figures[FL_SWAG + MEAN]["accuracy"] - statistic(clients)))
    return gains


def _calmer(results: Results, cell: str, other: str) -> list[float]:
    """By how much another method's ECE x 100 exceeds FL-SWAG's, seed by seed."""
    name = cell.partition("/")[2]
    theirs, ours = results.cells.get(f"{other}/{name}", {}), results.cells[cell]
    return [
        100 * (theirs[s].figures[other]["ece"] - f.figures[FL_SWAG]["ece"])
        for s, f in ours.items()
        if s in theirs
    ]


def _is_calmer(results: Results, cell: str) -> Verdict:
    others = {"SGLD": "sgld", "pSGLD": "psgld"}
    return every({label: above_zero(_calmer(results, cell, k), 2) for label, k in others.items()})


def _gap(row: str, other: str, metric: str = "accuracy") -> Callable[[Results, str], Verdict]:
    digits = 2 if metric == "accuracy" else 4
    return lambda results, cell: above_zero(results.differences(cell, row, other, metric), digits)


def _nearly(row: str, other: str) -> Callable[[Results, str], Verdict]:
    return lambda results, cell: near_zero(results.differences(cell, row, other), NEAR, 2)


CLAIMS: list[Claim[Results]] = [
    Claim(
        "logistic regression: FL-SWAG is above most clients (their median)",
        "7.1",
        _by_data(
            ["logistic"], lambda r, c: above_zero(_over_clients(r, c, lambda v: float(np.median(v))), 2)
        ),
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
        _by_data(["lenet", "resnet"], _nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "after the server's training FL-SWAG is above every client",
        "10",
        _by_data(["lenet", "resnet"], lambda r, c: above_zero(_over_clients(r, c, max), 2)),
    ),
    Claim(
        "FL-SWAG is above what the server had without the clients (ours, not the paper's)",
        "8.3",
        _by_data(["lenet", "resnet"], _gap(FL_SWAG + MEAN, SERVER)),
    ),
    Claim(
        "FL-SWAG's ECE is below SGLD's and pSGLD's",
        "8.3, calibration (MNIST)",
        _by_data(["lenet", "resnet"], _is_calmer),
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

REASONS: list[Claim[Results]] = [
    Claim(text, "ours", _by_data(EXCHANGES, _gap(better, worse), better))
    for text, better, worse in (
        (
            "levels do little harm: with them alone, accuracy is above FL-SWAG's",
            "levels alone",
            FL_SWAG + MEAN,
        ),
        (
            "which parameters a client counts in does: the same numbers shuffled are above",
            "coordinates shuffled",
            "coordinates alone",
        ),
        ("it has the wrong sign: by variance is above FL-SWAG", "by variance", FL_SWAG + MEAN),
        ("by variance is above FedAvg", "by variance", "FedAvg"),
    )
]
