"""Tables of 7.1, 8.3 and calibration, the page around them, and figures of makni-2022."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.api.folders import read_record
from coterie.data.partition.counts import client_names
from coterie.kernels import calibrate
from coterie.metrics.calibration import Calibration, Tally, taus
from coterie.metrics.summary import interval
from coterie.report import splits
from coterie.show.inks import COLOURS
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, Paper, Preset, Scale, by_preset, read_runs
from coterie.studies.makni_2022 import CANCER, EXCHANGES, SAMPLERS, SCORES, is_done, published
from coterie.studies.makni_2022 import cancer_report as cancers
from coterie.studies.makni_2022.aggregates import FL_SWAG, MEAN
from coterie.studies.makni_2022.claims import (
    AVERAGES,
    CLAIMS,
    COMMON,
    FACTORS,
    NAMES,
    ONE,
    QUESTIONS,
    REASONS,
    SERVER,
    Found,
    Results,
)
from coterie.studies.makni_2022.why import PARTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"logistic": "logistic regression", "lenet": "LeNet", "resnet": "ResNet-18"}
LINES = {FL_SWAG: "FL-SWAG", "sgld": "SGLD", "psgld": "pSGLD"}
FEW = 10  # samples below which a bin's accuracy says little

Seen = Mapping[str, tuple[Mapping[str, Sequence[float]], np.ndarray]]

# results


def _read(asked: Asked, paper: Paper) -> dict[Preset, Results]:
    """Everything below OUT at this scale that is finished."""

    def run_of(path: Path, cell: str) -> Any:
        if not is_done(path, cell):
            return None
        return (
            json.loads((path / CANCER).read_text()) if cell.startswith("cancer/") else read_cell(path, cell)
        )

    found = by_preset(lambda preset: read_runs(asked, preset, paper.cells(asked.scale), run_of))
    return {preset: Results(runs, runs.pop("cancer/wisconsin", {})) for preset, runs in found.items()}


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
            line += [published.accuracy(f"{kind}/{name}", row), _shown(results, cell, row)]
        lines.append(line)
    header = [word for name in data for word in (f"{NAMES[name]}, paper", "ours")]
    return pages.table(["model", *header], lines)


def _shown(results: Results, cell: str, row: str, metric: str = "accuracy") -> str:
    return pages.plus_minus(interval(results.values(cell, row, metric)), 2, FACTORS[metric])


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
            method = {"sgld": "SGLD", "psgld": "pSGLD"}.get(row, "FL-SWAG, 30 draws")
            line: list[object] = [NAMES[name], method]
            for theirs, metric in zip(published.calibration(name, row), FACTORS, strict=True):
                line += [theirs, _shown(results, cell, row, metric)]
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
            other = row.endswith(MEAN) and row != FL_SWAG + MEAN
            if not other and row not in (*ONE, *PARTS, SERVER, "BayAvg", "FedAvg"):
                lines.append([NAMES[name], row, *(_shown(results, cell, row, m) for m in FACTORS)])
    return pages.table(["data", "prediction", "accuracy", "ECE x 100", "Brier x 10", "NLL x 10"], lines)


def why_table(results: Results) -> str:
    """Accuracies and NLLs of the means that other weights give."""
    cells = [f"{kind}/{name}" for kind in EXCHANGES for name in results.data(kind)]
    lines = []
    for row in (FL_SWAG + MEAN, *PARTS, "FedAvg", "wFedAvg"):
        line: list[object] = [row]
        for cell in cells:
            line += [_shown(results, cell, row), _shown(results, cell, row, "nll")]
        lines.append(line)
    header = ["mean model"]
    for cell in cells:
        kind, _, name = cell.partition("/")
        header += [f"{kind} {NAMES[name]}, accuracy", "NLL x 10"]
    return pages.table(header, lines)


# the page


def _page(paper: Paper, asked: Asked, results: Mapping[Preset, Results]) -> str:
    every_run = [f for r in results.values() for by in r.cells.values() for f in by.values()]
    origins = [f.origin for f in every_run]
    origins += [c["origin"] for r in results.values() for c in r.cancer.values()]
    parts = [
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the presets and scales are: `coterie.studies.makni_2022`.",
        "\n".join(pages.origin_lines(origins)),
        "Accuracies in % on the published test set; ± is half of the 95 % interval over seeds that share "
        "test rows, and in section 6 over splits of the same rows, corrected for those they share. The "
        "paper's figures are of one run. Its accuracies are of FL-SWAG's mean model, its calibration scores "
        "of draws averaged: both are here, each said to be what it is.",
    ]
    for preset, found in results.items():
        parts += _preset_part(paper, asked.scale, preset, found)
    tumours = {preset: r.cancer for preset, r in results.items() if r.cancer}
    if tumours:
        parts += ["## Section 6: SWAG beside HMC", cancers.table(tumours)]
    parts += ["## Claims", pages.CLAIMS_NOTE, pages.claims_table(CLAIMS, results)]
    if tumours:
        parts += [f"Of section 6. {pages.SPLITS}", pages.claims_table(cancers.CLAIMS, tumours)]
    parts += [
        "## Does low rank or temperature help?",
        "The paper leaves it open. A gain is positive where the NLL (x 10) falls below FL-SWAG's own.",
        pages.claims_table(QUESTIONS, {"text": results["text"]}) if "text" in results else "Not run.",
        "## Why it falls behind",
        "The clients' means with other weights than the product's: `coterie.studies.makni_2022.why`.",
        pages.claims_table(REASONS, results),
    ]
    return pages.joined(*parts)


def _preset_part(paper: Paper, scale: Scale, preset: Preset, found: Results) -> list[str]:
    seeds = {cell: 1 + max(by) for cell, by in found.cells.items()}
    if found.cancer:
        seeds = {"cancer/wisconsin": 1 + max(found.cancer)} | seeds
    parts = [f"## {preset}", pages.commands(paper, preset, scale, seeds)]
    if found.data("logistic"):
        parts += ["### Section 7.1: logistic regression", accuracy_table(found, "logistic")]
    for kind in ("lenet", "resnet"):
        if found.data(kind):
            title = f"### Section 8.3: {TITLES[kind]} after a server's training"
            parts += [title, accuracy_table(found, kind)]
    if found.data("lenet") or found.data("resnet"):
        parts += ["### Calibration", calibration_table(found)]
    for kind, title in TITLES.items():
        if preset == "text" and found.data(kind):
            parts += [f"### Low rank and temperature: {title}", question_table(found, kind)]
    if any(found.data(kind) for kind in EXCHANGES):
        parts += ["### Other weights of the same means", why_table(found)]
    return parts


def _rows(asked: Asked, results: Mapping[Preset, Results]) -> list[dict[str, object]]:
    """One line for each model that was scored, and for each number of section 6 (`value`)."""

    def where(preset: Preset, cell: str, seed: int, origin: Mapping[str, Any]) -> dict[str, object]:
        again = pages.again("makni-2022", cell, preset, asked.scale, seed)
        told = {"preset": preset, "scale": asked.scale, "cell": cell, "seed": seed}
        return {**told, "commit": origin["commit"], "command": again}

    lines: list[dict[str, object]] = []
    for preset, found in results.items():
        for cell, by in found.cells.items():
            for seed, one in by.items():
                same = where(preset, cell, seed, one.origin)
                lines += [{**same, "model": row, **figures} for row, figures in one.figures.items()]
        for seed, result in found.cancer.items():
            same = where(preset, "cancer/wisconsin", seed, result["origin"])
            values = {name: cancers.value(result, path) for name, path in cancers.ROWS.items()}
            lines += [{**same, "model": name, "value": value} for name, value in values.items()]
    return lines


# figures


def _draw(asked: Asked, results: Mapping[Preset, Results]) -> dict[str, Figure]:
    """Of the first seed of each cell."""
    drawn: dict[str, Figure] = {}
    for preset, found in results.items():
        first = {cell: next(iter(by.values())) for cell, by in found.cells.items()}
        drawn |= draw_cells(preset, {cell: (f.tallies, f.counts) for cell, f in first.items()}, NAMES)
        if found.cancer:
            drawn |= cancers.figure(next(iter(found.cancer.values())))
    return drawn


def draw_cells(preset: Preset, seen: Seen, names: Mapping[str, str]) -> dict[str, Figure]:
    """`seen` has tallies by row, and rows [client, class], of each cell."""
    drawn: dict[str, Figure] = {}
    for cell, (_, counts) in seen.items():
        kind, _, data = cell.partition("/")
        if kind == "logistic":
            clients, classes = client_names(len(counts)), [str(c) for c in range(counts.shape[1])]
            drawn[f"split-labels-{data}-{preset}"] = splits.shares(clients, classes, counts)
            drawn[f"split-sizes-{data}-{preset}"] = splits.sizes(clients, counts)
    for data, name in names.items():
        tallies: dict[str, Sequence[float]] = {}
        for kind in ("lenet", "resnet", "sgld", "psgld"):
            tallies |= seen.get(f"{kind}/{data}", ({}, None))[0]
        if tallies:
            drawn[f"calibration-{data}-{preset}"] = calibration(name, tallies)
    return drawn


def unpacked(flat: Sequence[float]) -> Calibration:
    found = calibrate.unpacked({str(i): torch.tensor([v]) for i, v in enumerate(flat)})
    return Calibration(*(Tally(*(part[0] for part in tally)) for tally in found))


def calibration(name: str, tallies: Mapping[str, Sequence[float]]) -> Figure:
    """Accuracy less confidence by confidence, and above a threshold τ."""
    figure, axes = drawing.canvas(7.2, 2.8, 1, 2, sharey=True)
    left, right = axes[0]
    for row, flat in tallies.items():
        found, colour = unpacked(flat), COLOURS[list(LINES).index(row)]
        for ax, tally, x in ((left, found.confidence, found.confidence.mean), (right, found.above, taus())):
            enough = tally.samples >= FEW
            gap = tally.accuracy - tally.mean
            look = {"color": colour, "marker": "o", "markersize": 3, "linewidth": 1.2, "label": LINES[row]}
            ax.plot(x[enough], gap[enough], **look)
    for ax, label in ((left, "confidence"), (right, "threshold τ")):
        ax.axhline(0, color="#5b6673", linewidth=0.8)
        ax.set(xlabel=label, xlim=(0, 1.02))
    left.set(ylabel="accuracy - confidence", title=f"{name}: by confidence")
    right.set(title="of all at least as sure as τ")
    right.legend(frameon=False)
    return figure


REPORT = pages.Report(_read, _page, _rows, _draw)
