"""What the runs of makni-2022 gave: figures by cell and seed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie.api.folders import read_record
from coterie.papers.base import Asked, Paper, Preset
from coterie.papers.makni_2022.paper import CANCER, CLIENTS, EXCHANGES, SAMPLERS, SCORES, is_done
from coterie.papers.places import place

NAMES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR-10", "digits": "digits"}
AVERAGES = ("FedAvg", "wFedAvg", "BayAvg", "wBayAvg")
COMMON = "common"
SERVER = "the server alone"
ONE = [f"client {i + 1}" for i in range(CLIENTS)]

FACTORS = {"accuracy": 100.0, "ece": 100.0, "brier": 10.0, "nll": 10.0}


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
        found = self.cells.get(cell, {}).values()
        pairs = [
            (f.figures[row][metric], f.figures[other][metric])
            for f in found
            if {row, other} <= f.figures.keys()
        ]
        return [FACTORS[metric] * (a - b) for a, b in pairs]

    def data(self, kind: str) -> list[str]:
        return [cell.partition("/")[2] for cell in self.cells if cell.startswith(f"{kind}/")]


def read(asked: Asked, paper: Paper) -> dict[Preset, Results]:
    """Everything below OUT at this scale that is finished."""
    found = {}
    for preset in ("text", "as-run"):
        cells: dict[str, dict[int, Found]] = {}
        cancer: dict[int, Mapping[str, Any]] = {}
        for cell in paper.cells(asked.scale):
            folder = place(asked.out, preset, asked.scale, cell, 0).parent
            paths = {int(p.name.removeprefix("seed-")): p for p in folder.glob("seed-[0-9]*")}
            for seed, path in sorted(paths.items()):
                if not is_done(path, cell):
                    continue
                if cell.startswith("cancer/"):
                    cancer[seed] = json.loads((path / CANCER).read_text())
                else:
                    cells.setdefault(cell, {})[seed] = read_cell(path, cell)
        if cells or cancer:
            found[preset] = Results(cells, cancer)
    return found  # type: ignore[return-value]


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
