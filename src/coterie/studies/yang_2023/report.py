"""Figure 3 as a table, its claims and figure 2 of yang-2023, from the runs that are finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.api.folders import is_finished, read_record
from coterie.metrics.summary import interval
from coterie.show.figures import ramp
from coterie.show.inks import COLOURS
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, Paper, Preset, by_preset, read_runs
from coterie.studies.claims import Claim, Verdict, Word, above_zero, every, near_zero
from coterie.studies.yang_2023 import METHODS

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


Cells = Mapping[str, Mapping[int, Run]]  # by cell and seed


def _gains(cells: Cells, group: str, method: str) -> list[float]:
    """Points by which a method's best accuracy is above FedAvg's, seed by seed."""
    base = cells.get(f"{group}/fedavg", {})
    return [100 * (r.best - base[s].best) for s, r in cells.get(f"{group}/{method}", {}).items() if s in base]


def differences_are_small(cells: Cells) -> Verdict:
    groups = dict.fromkeys(cell.partition("/")[0] for cell in cells)
    pairs = {f"{LABELS[m]}, {g}": _gains(cells, g, m) for g in groups for m in GUIDED}
    return every({name: near_zero(v, SMALL, 2) for name, v in pairs.items() if v})


def nobody_wins(cells: Cells) -> Verdict:
    """Fails if a guided method is surely better than FedAvg, or surely worse, wherever it was tried."""
    groups, parts = dict.fromkeys(cell.partition("/")[0] for cell in cells), {}
    for method in GUIDED:
        tried = [v for g in groups if (v := _gains(cells, g, method))]
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


def _read(asked: Asked, paper: Paper) -> dict[Preset, Cells]:
    def run_of(path: Path, cell: str) -> Run | None:
        if not is_finished(path):
            return None
        record = read_record(path)
        means = record.curve("accuracy")[1].mean(axis=1)
        counts = np.array([c["labels"][0] for c in record.about["clients"]])
        return Run(float(means.max()), float(means[-1]), counts, record.about)

    return by_preset(lambda preset: read_runs(asked, preset, paper.cells(asked.scale), run_of))


def _page(paper: Paper, asked: Asked, results: Mapping[Preset, Cells]) -> str:
    cells, lines = results["text"], list[list[object]]()
    for cell, by in cells.items():
        group, _, method = cell.partition("/")
        shown = [pages.plus_minus(interval([getattr(r, f) for r in by.values()])) for f in ("best", "last")]
        found = interval([g / 100 for g in _gains(cells, group, method)])
        gain = "–" if method == "fedavg" else pages.plus_minus(found, 2)
        lines.append([group, LABELS[method], len(by), *shown, gain])
    return pages.joined(
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the text leaves open, and what the scales are: `coterie.studies.yang_2023`.",
        pages.run_facts([run for by in cells.values() for run in by.items()]),
        "Mean test accuracy of the four clients in %; ± is half of the 95 % interval over seeds that share "
        "test rows. *Best* is "
        "the best of all rounds, as in the paper: it is chosen by the test set and so too high; *last* is "
        "the last round's. *Gain* is over FedAvg on the same clients and first model, in points, by the "
        "best. The paper's own figures are in a picture alone.",
        pages.commands(paper, "text", asked.scale, {cell: 1 + max(by) for cell, by in cells.items()}),
        pages.table(["data and alpha", "method", "seeds", "best", "last", "gain"], lines),
        "## Claims",
        pages.CLAIMS_NOTE,
        pages.claims_table(CLAIMS, results),
    )


def _rows(asked: Asked, results: Mapping[Preset, Cells]) -> list[dict[str, object]]:
    def figures_of(run: Run) -> dict[str, object]:
        return {"best": run.best, "last": run.last}

    return pages.run_rows("yang-2023", "text", asked.scale, results["text"], figures_of)


def _draw(asked: Asked, results: Mapping[Preset, Cells]) -> dict[str, Figure]:
    """Figure 2: how many rows of each class each client learns from, seed 0 of each alpha."""
    first: dict[str, Run] = {}
    for cell, by in results["text"].items():
        first[cell.partition("/")[0]] = next(iter(by.values()))
    figure, axes = drawing.canvas(3.2 * len(first), 2.4, 1, len(first))
    for ax, (group, run) in zip(axes[0], first.items(), strict=True):
        ax.imshow(run.counts, aspect="auto", cmap=ramp(("#ffffff", COLOURS[0])), interpolation="nearest")
        ax.set(title=group, xlabel="class", yticks=range(len(run.counts)))
    axes[0][0].set_ylabel("client")
    return {"figure-2": figure}


REPORT = pages.Report(_read, _page, _rows, _draw)
