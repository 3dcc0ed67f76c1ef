"""Tables of 7.1, 8.3 and calibration, the open question, claims and figures of makni-2022."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.errors import BadRun
from coterie.metrics.summary import interval
from coterie.papers import makni_2022_cancer_report as cancers
from coterie.papers import makni_2022_published as published
from coterie.papers import pages
from coterie.papers.base import Asked, Paper, Preset, Scale
from coterie.papers.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.papers.makni_2022 import CANCER, CLIENTS, EXCHANGES, SAMPLERS, SCORES, is_done
from coterie.papers.makni_2022_aggregates import FL_SWAG, MEAN
from coterie.papers.makni_2022_figures import draw
from coterie.papers.places import place
from coterie.runs.folder import read_record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR-10", "digits": "digits"}
AVERAGES = ("FedAvg", "wFedAvg", "BayAvg", "wBayAvg")
COMMON = "common"
SERVER = "the server alone"
ONE = [f"client {i + 1}" for i in range(CLIENTS)]
NEAR = 2.0  # points: the paper's FL-SWAG is 0.6 and 1.7 below FedAvg where it "performs very well"

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
            if alone := re.search(r"the server's model alone has ([\d.]+) %", note):
                figures[SERVER] = {"accuracy": float(alone[1]) / 100}
    else:
        # everybody has the same test set and, here, the same model
        figures[kind] = {m: record.final(m)[0] for m in FACTORS}
        if kind in SAMPLERS and (found := record.calibration()) is not None:
            tallies[kind] = [float(v) for tally in found for part in tally for v in part[0]]
    return Found(figures, tallies, counts, record.about)


# tables


def accuracy_table(results: Results, kind: str) -> str:
    """Rows as in the paper; ours beside its figures."""
    data = results.data(kind)
    last = [COMMON] if kind == "logistic" else [SERVER]
    lines = []
    for row in (*ONE, FL_SWAG + MEAN, FL_SWAG, *AVERAGES, *last):
        line: list[object] = [named(row)]
        for name in data:
            cell = f"{COMMON}/{name}" if row == COMMON else f"{kind}/{name}"
            line += [published.accuracy(f"{kind}/{name}", row)]
            line += [pages.plus_minus(interval(results.values(cell, row)), 2)]
        lines.append(line)
    header = [word for name in data for word in (f"{NAMES[name]}, paper", "ours")]
    return pages.table(["model", *header], lines)


def named(row: str) -> str:
    return {
        FL_SWAG + MEAN: "FL-SWAG, its mean model",
        FL_SWAG: "FL-SWAG, 30 draws averaged",
        COMMON: "all data in one place",
    }.get(row, row)


def calibration_table(results: Results) -> str:
    lines = []
    for name in dict.fromkeys([*results.data("lenet"), *results.data("resnet")]):
        kind = "resnet" if name == "cifar10" else "lenet"
        for row in (FL_SWAG, *SAMPLERS):
            cell = f"{kind}/{name}" if row == FL_SWAG else f"{row}/{name}"
            told = published.calibration(name, row)
            line: list[object] = [
                NAMES[name],
                {"sgld": "SGLD", "psgld": "pSGLD"}.get(row, "FL-SWAG, 30 draws"),
            ]
            for i, (metric, factor) in enumerate(FACTORS.items()):
                ours = pages.plus_minus(interval(results.values(cell, row, metric)), 2, factor)
                line += [told[i], ours]
            lines.append(line)
    header = ["data", "method"]
    for metric in ("accuracy", "ECE x 100", "Brier x 10", "NLL x 10"):
        header += [f"{metric}, paper", "ours"]
    return pages.table(header, lines)


def question_table(results: Results, kind: str) -> str:
    """What low rank and temperature change, beside FL-SWAG and the average that it is held against."""
    lines: list[list[object]] = []
    for name in results.data(kind):
        cell = f"{kind}/{name}"
        rows = dict.fromkeys(r for f in results.cells[cell].values() for r in f.figures)
        for row in rows:
            if row in (*ONE, SERVER, "BayAvg", "FedAvg") or (row.endswith(MEAN) and row != FL_SWAG + MEAN):
                continue
            shown = [
                pages.plus_minus(interval(results.values(cell, row, m)), 2, f) for m, f in FACTORS.items()
            ]
            lines.append([NAMES[name], row, *shown])
    return pages.table(["data", "prediction", "accuracy", "ECE x 100", "Brier x 10", "NLL x 10"], lines)


# claims


def by_data(
    kinds: Sequence[str], check: Callable[[Results, str], Verdict], row: str | None = None
) -> Callable[[Results], Verdict]:
    """The same check for each data set of these kinds; with a row, for those that have it."""

    def called(cell: str) -> str:
        kind, _, data = cell.partition("/")
        return f"{kind} {NAMES[data]}" if len(kinds) > 1 else NAMES[data]

    def checked(results: Results) -> Verdict:
        cells = [
            f"{k}/{d}"
            for k in kinds
            for d in results.data(k)
            if row is None or results.values(f"{k}/{d}", row)
        ]
        return every({called(c): check(results, c) for c in cells})

    return checked


def over_clients(results: Results, cell: str, statistic: Callable[[list[float]], float]) -> list[float]:
    """Points by which FL-SWAG's mean model is above the median, or the best, client."""
    gains = []
    for found in results.cells[cell].values():
        clients = [found.figures[c]["accuracy"] for c in ONE if c in found.figures]
        gains.append(100 * (found.figures[FL_SWAG + MEAN]["accuracy"] - statistic(clients)))
    return gains


def calmer(results: Results, cell: str, other: str) -> list[float]:
    """By how much another method's ECE x 100 exceeds FL-SWAG's, seed by seed."""
    name = cell.partition("/")[2]
    theirs, ours = results.cells.get(f"{other}/{name}", {}), results.cells[cell]
    pairs = [
        (theirs[s].figures[other]["ece"], f.figures[FL_SWAG]["ece"]) for s, f in ours.items() if s in theirs
    ]
    return [100 * (a - b) for a, b in pairs]


def is_calmer(results: Results, cell: str) -> Verdict:
    return every(
        {
            label: above_zero(calmer(results, cell, k), 2)
            for k, label in (("sgld", "SGLD"), ("psgld", "pSGLD"))
        }
    )


def gap(row: str, other: str, metric: str = "accuracy") -> Callable[[Results, str], Verdict]:
    return lambda results, cell: above_zero(results.differences(cell, row, other, metric), 2)


def nearly(row: str, other: str) -> Callable[[Results, str], Verdict]:
    return lambda results, cell: near_zero(results.differences(cell, row, other), NEAR, 2)


CLAIMS: list[Claim[Results]] = [
    Claim(
        "logistic regression: FL-SWAG is above most clients (their median)",
        "7.1",
        by_data(["logistic"], lambda r, c: above_zero(over_clients(r, c, lambda v: float(np.median(v))), 2)),
    ),
    Claim(
        f"logistic regression: FL-SWAG is near FedAvg, within {NEAR:g} points",
        "7.1",
        by_data(["logistic"], nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "logistic regression: FedAvg is above FL-SWAG",
        "7.1, table",
        by_data(["logistic"], gap("FedAvg", FL_SWAG + MEAN)),
    ),
    Claim(
        "logistic regression: averages by size are above plain ones",
        "7.1, table",
        by_data(["logistic"], gap("wFedAvg", "FedAvg")),
    ),
    Claim(
        f"after the server's training FL-SWAG is near FedAvg, within {NEAR:g} points",
        "8.3, table",
        by_data(["lenet", "resnet"], nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "after the server's training FL-SWAG is above every client",
        "10",
        by_data(["lenet", "resnet"], lambda r, c: above_zero(over_clients(r, c, max), 2)),
    ),
    Claim(
        "FL-SWAG is above what the server had without the clients (ours, not the paper's)",
        "8.3",
        by_data(["lenet", "resnet"], gap(FL_SWAG + MEAN, SERVER)),
    ),
    Claim(
        "FL-SWAG's ECE is below SGLD's and pSGLD's",
        "8.3, calibration (MNIST)",
        by_data(["lenet", "resnet"], is_calmer),
    ),
]

QUESTIONS: list[Claim[Results]] = [
    Claim(
        f"low rank ({k}) helps: NLL below FL-SWAG's", "ours",
        by_data(["logistic", "lenet", "resnet"], gap(FL_SWAG, f"low rank {k}", "nll"), f"low rank {k}"),
    )
    for k in (2, 20)
] + [
    Claim(
        f"a temperature of {T:g} helps: NLL below FL-SWAG's", "ours",
        by_data(["logistic", "lenet", "resnet"], gap(FL_SWAG, f"{FL_SWAG}, T = {T:g}", "nll")),
    )
    for T in (0.1, 10.0, 1e3, 1e5)
]  # fmt: skip


# the page


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    results = read(asked, paper)
    if not results:
        raise BadRun(f"{asked.out} has no finished runs of {paper.name}: run some cells first")
    return pages.write(
        asked, page(paper, asked, results), rows(results, asked.scale), lambda: figures(results)
    )


def page(paper: Paper, asked: Asked, results: Mapping[Preset, Results]) -> str:
    every_run = [f for r in results.values() for by in r.cells.values() for f in by.values()]
    origins = [f.origin for f in every_run] + [
        c["origin"] for r in results.values() for c in r.cancer.values()
    ]
    parts = [
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the presets and scales are: `coterie.papers.makni_2022`.",
        "\n".join(pages.origin_lines(origins)),
        "Accuracies in % on the published test set; ± is half of the 95 % interval over seeds. The paper's "
        "figures are of one run. Its accuracies are of FL-SWAG's mean model, its calibration scores of draws "
        "averaged: both are here, each said to be what it is.",
    ]
    for preset, found in results.items():
        parts += preset_part(paper, asked.scale, preset, found)
    tumours = {preset: r.cancer for preset, r in results.items() if r.cancer}
    if tumours:
        parts += ["## Section 6: SWAG beside HMC", cancers.table(tumours)]
    parts += ["## Claims", pages.CLAIMS_NOTE, pages.claims_table(CLAIMS, results)]
    if tumours:
        parts += ["Of section 6:", pages.claims_table(cancers.CLAIMS, tumours)]
    parts += [
        "## Does low rank or temperature help?",
        "The paper leaves it open. A gain is positive where the NLL (x 10) falls below FL-SWAG's own.",
        pages.claims_table(QUESTIONS, {"text": results["text"]}) if "text" in results else "Not run.",
    ]
    return "\n\n".join(parts) + "\n"


def preset_part(paper: Paper, scale: Scale, preset: Preset, found: Results) -> list[str]:
    seeds = {cell: 1 + max(by) for cell, by in found.cells.items()}
    if found.cancer:
        seeds = {"cancer/wisconsin": 1 + max(found.cancer)} | seeds
    parts = [f"## {preset}", pages.commands(paper, preset, scale, seeds)]
    if found.data("logistic"):
        parts += ["### Section 7.1: logistic regression", accuracy_table(found, "logistic")]
    for kind, title in (("lenet", "LeNet"), ("resnet", "ResNet-18")):
        if found.data(kind):
            parts += [
                f"### Section 8.3: {title} after a server's training",
                accuracy_table(found, kind),
            ]
    if found.data("lenet") or found.data("resnet"):
        parts += ["### Calibration", calibration_table(found)]
    for kind, title in (("logistic", "logistic regression"), ("lenet", "LeNet"), ("resnet", "ResNet-18")):
        if preset == "text" and found.data(kind):
            parts += [f"### Low rank and temperature: {title}", question_table(found, kind)]
    return parts


def rows(results: Mapping[Preset, Results], scale: Scale) -> list[dict[str, object]]:
    """One line for each model that was scored, and for each number of section 6 (`value`)."""
    lines: list[dict[str, object]] = []
    for preset, found in results.items():

        def told(
            cell: str, seed: int, origin: Mapping[str, Any], preset: Preset = preset
        ) -> dict[str, object]:
            again = f"coterie reproduce makni-2022 --cells {cell} --preset {preset}"
            again += f" --scale {scale} --seeds {seed + 1}"
            where = {"preset": preset, "scale": scale, "cell": cell, "seed": seed}
            return {**where, "commit": origin["commit"], "command": again}

        for cell, by in found.cells.items():
            for seed, one in by.items():
                same = told(cell, seed, one.origin)
                lines += [{**same, "model": row, **figures} for row, figures in one.figures.items()]
        for seed, result in found.cancer.items():
            same = told("cancer/wisconsin", seed, result["origin"])
            values = {name: cancers.value(result, path) for name, path in cancers.ROWS.items()}
            lines += [{**same, "model": name, "value": value} for name, value in values.items()]
    return lines


def figures(results: Mapping[Preset, Results]) -> dict[str, Figure]:
    drawn: dict[str, Figure] = {}
    for preset, found in results.items():
        first = {c: next(iter(by.values())) for c, by in found.cells.items()}
        drawn |= draw(preset, {c: (f.tallies, f.counts) for c, f in first.items()}, NAMES)
        if found.cancer:
            first_seed = next(iter(found.cancer.values()))
            drawn |= cancers.figure(first_seed)
    return drawn
