"""Figure 3 as a table, its claims and figure 2 of yang-2023, from the runs that are finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.api.folders import is_finished, read_record
from coterie.core.errors import BadRun
from coterie.metrics.summary import interval
from coterie.papers import drawing, pages
from coterie.papers.base import Asked, Paper, Preset, Scale
from coterie.papers.claims import Claim, Verdict, Word, above_zero, every, near_zero
from coterie.papers.places import begun
from coterie.papers.yang_2023.paper import METHODS, best_and_last
from coterie.report.canvas import ramp
from coterie.report.inks import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"fedavg": "FedAvg", "fedkg": "FedKG", "fedunique": "FedUnique"}
GUIDED = tuple(m for m in METHODS if m != "fedavg")
SMALL = 1.0  # points: what the paper calls not significant


@dataclass(frozen=True, eq=False)
class Run:
    """Mean accuracy over clients in the best round and the last; counts [client, class] to learn from."""

    best: float
    last: float
    counts: np.ndarray
    origin: Mapping[str, Any]


Seeds = Mapping[int, Run]
Cells = Mapping[str, Seeds]


def read(asked: Asked, paper: Paper) -> dict[Preset, Cells]:
    """Everything below OUT at this scale that is finished."""
    cells = {}
    for cell in paper.cells(asked.scale):
        paths = begun(asked.out, "text", asked.scale, cell)
        if runs := {seed: read_run(path) for seed, path in paths.items() if is_finished(path)}:
            cells[cell] = runs
    return {"text": cells} if cells else {}


def read_run(path: Path) -> Run:
    record = read_record(path)
    best, last = best_and_last(record)
    counts = np.array([c["labels"][0] for c in record.about["clients"]])
    return Run(best, last, counts, record.about)


def gains(cells: Cells, group: str, method: str) -> list[float]:
    """Points by which a method's best accuracy is above FedAvg's, seed by seed."""
    base = cells.get(f"{group}/fedavg", {})
    return [100 * (r.best - base[s].best) for s, r in cells.get(f"{group}/{method}", {}).items() if s in base]


def groups(cells: Cells) -> list[str]:
    return list(dict.fromkeys(cell.partition("/")[0] for cell in cells))


def every_pair(cells: Cells) -> dict[str, list[float]]:
    """Gains over FedAvg by method and group."""
    pairs = {f"{LABELS[m]}, {g}": gains(cells, g, m) for g in groups(cells) for m in GUIDED}
    return {name: values for name, values in pairs.items() if values}


def differences_are_small(cells: Cells) -> Verdict:
    return every({name: near_zero(v, SMALL, 2) for name, v in every_pair(cells).items()})


def nobody_wins(cells: Cells) -> Verdict:
    """Fails if a guided method is surely better than FedAvg, or surely worse, wherever it was tried."""
    parts = {}
    for method in GUIDED:
        tried = [v for g in groups(cells) if (v := gains(cells, g, method))]
        words = {above_zero(v).word for v in tried}  # holds: better, fails: worse
        if tried:
            clear = words in ({"holds"}, {"fails"})
            word: Word = "fails" if clear else "undecided" if words == {"undecided"} else "holds"
            parts[LABELS[method]] = Verdict(word, ", ".join(f"{np.mean(v):+.2f}" for v in tried))
    return every(parts)


CLAIMS: list[Claim[Cells]] = [
    Claim(f"no difference to FedAvg exceeds {SMALL:g} point", "6, figure 3", differences_are_small),
    Claim("no guided method is better, or worse, than FedAvg everywhere", "6, figure 3", nobody_wins),
]


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    results = read(asked, paper)
    if not results:
        raise BadRun(f"{asked.out} has no finished runs of {paper.name}: run some cells first")
    cells = results["text"]
    text, lines = page(paper, asked, results), rows(cells, asked.scale)
    return pages.write(asked, text, lines, lambda: draw(cells))


def page(paper: Paper, asked: Asked, results: Mapping[Preset, Cells]) -> str:
    cells = results["text"]
    runs = [(seed, run) for by in cells.values() for seed, run in by.items()]
    seeds = sorted({seed for seed, _ in runs})
    lines = [
        f"- seeds: {', '.join(map(str, seeds))}; {len(runs)} runs",
        *pages.origin_lines(run.origin for _, run in runs),
    ]
    parts = [
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the text leaves open, and what the scales are: `coterie.papers.yang_2023`.",
        "\n".join(lines),
        "Mean test accuracy of the four clients in %; ± is half of the 95 % interval over seeds that share "
        "test rows. *Best* is "
        "the best of all rounds, as in the paper: it is chosen by the test set and so too high; *last* is "
        "the last round's. *Gain* is over FedAvg on the same clients and first model, in points, by the "
        "best. The paper's own figures are in a picture alone.",
        pages.commands(paper, "text", asked.scale, {cell: 1 + max(by) for cell, by in cells.items()}),
        accuracy_table(cells),
        "## Claims",
        pages.CLAIMS_NOTE,
        pages.claims_table(CLAIMS, results),
    ]
    return "\n\n".join(parts) + "\n"


def accuracy_table(cells: Cells) -> str:
    lines: list[list[object]] = []
    for cell, by in cells.items():
        group, _, method = cell.partition("/")
        best, last = (interval([getattr(r, f) for r in by.values()]) for f in ("best", "last"))
        found = interval([g / 100 for g in gains(cells, group, method)])
        gain = "–" if method == "fedavg" else pages.plus_minus(found, 2)
        shown = [pages.plus_minus(best), pages.plus_minus(last)]
        lines.append([group, LABELS[method], len(by), *shown, gain])
    return pages.table(["data and alpha", "method", "seeds", "best", "last", "gain"], lines)


def rows(cells: Cells, scale: Scale) -> list[dict[str, object]]:
    """One line for each run."""
    return [
        {
            "scale": scale,
            "cell": cell,
            "seed": seed,
            "best": run.best,
            "last": run.last,
            "commit": run.origin["commit"],
            "command": pages.again("yang-2023", cell, "text", scale, seed),
        }
        for cell, by in cells.items()
        for seed, run in by.items()
    ]


def draw(cells: Cells) -> dict[str, Figure]:
    """Figure 2: how many rows of each class each client learns from, seed 0 of each alpha."""
    first = {g: next(iter(cells[c].values())) for g in groups(cells) for c in cells if c.startswith(f"{g}/")}
    figure, axes = drawing.canvas(3.2 * len(first), 2.4, 1, len(first))
    for ax, (group, run) in zip(axes[0], first.items(), strict=True):
        ax.imshow(run.counts, aspect="auto", cmap=ramp(("#ffffff", COLOURS[0])), interpolation="nearest")
        ax.set(title=group, xlabel="class", yticks=range(len(run.counts)))
    axes[0][0].set_ylabel("client")
    return {"figure-2": figure}
