"""Tables of 7.1, 8.3 and calibration, the page around them, and figures of makni-2022."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.core.errors import BadRun
from coterie.metrics.summary import interval
from coterie.papers import pages
from coterie.papers.base import Asked, Paper, Preset, Scale
from coterie.papers.makni_2022 import cancer_report as cancers
from coterie.papers.makni_2022 import published
from coterie.papers.makni_2022.aggregates import FL_SWAG, MEAN
from coterie.papers.makni_2022.claims import CLAIMS, QUESTIONS, REASONS
from coterie.papers.makni_2022.figures import draw
from coterie.papers.makni_2022.paper import EXCHANGES, SAMPLERS
from coterie.papers.makni_2022.results import AVERAGES, COMMON, FACTORS, NAMES, ONE, SERVER, Results, read
from coterie.papers.makni_2022.why import PARTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"logistic": "logistic regression", "lenet": "LeNet", "resnet": "ResNet-18"}

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
            if row in (*ONE, *PARTS, SERVER, "BayAvg", "FedAvg") or (
                row.endswith(MEAN) and row != FL_SWAG + MEAN
            ):
                continue
            shown = [
                pages.plus_minus(interval(results.values(cell, row, m)), 2, f) for m, f in FACTORS.items()
            ]
            lines.append([NAMES[name], row, *shown])
    return pages.table(["data", "prediction", "accuracy", "ECE x 100", "Brier x 10", "NLL x 10"], lines)


def why_table(results: Results) -> str:
    """Accuracies and NLLs of the means that other weights give."""
    cells = [f"{kind}/{name}" for kind in EXCHANGES for name in results.data(kind)]
    lines = []
    for row in (FL_SWAG + MEAN, *PARTS, "FedAvg", "wFedAvg"):
        line: list[object] = [row]
        for cell in cells:
            line.append(pages.plus_minus(interval(results.values(cell, row)), 2))
            line.append(pages.plus_minus(interval(results.values(cell, row, "nll")), 2, FACTORS["nll"]))
        lines.append(line)
    header = ["mean model"]
    for cell in cells:
        kind, _, name = cell.partition("/")
        header += [f"{kind} {NAMES[name]}, accuracy", "NLL x 10"]
    return pages.table(header, lines)


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
        "Accuracies in % on the published test set; ± is half of the 95 % interval over seeds that share "
        "test rows, and in section 6 over splits of the same rows, corrected for those they share. The "
        "paper's figures are of one run. Its accuracies are of FL-SWAG's mean model, its calibration scores "
        "of draws averaged: both are here, each said to be what it is.",
    ]
    for preset, found in results.items():
        parts += preset_part(paper, asked.scale, preset, found)
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
        "The clients' means with other weights than the product's: `coterie.papers.makni_2022.why`.",
        pages.claims_table(REASONS, results),
    ]
    return "\n\n".join(parts) + "\n"


def preset_part(paper: Paper, scale: Scale, preset: Preset, found: Results) -> list[str]:
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


def rows(results: Mapping[Preset, Results], scale: Scale) -> list[dict[str, object]]:
    """One line for each model that was scored, and for each number of section 6 (`value`)."""
    lines: list[dict[str, object]] = []
    for preset, found in results.items():

        def told(
            cell: str, seed: int, origin: Mapping[str, Any], preset: Preset = preset
        ) -> dict[str, object]:
            again = pages.again("makni-2022", cell, preset, scale, seed)
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
