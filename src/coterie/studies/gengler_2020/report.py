"""Table II beside ours, claims and figure 2 of gengler-2020, from the runs that are finished."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.api.folders import is_finished, read_record
from coterie.metrics.summary import Interval, interval
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, Paper, Preset, Scale, by_preset, read_runs
from coterie.studies.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.studies.gengler_2020 import LITERAL, METHODS, TABLE_II, methods_of, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "weight-erosion": "Weight Erosion",
    "fedavg": "federated averaging",
    "local": "local training",
    LITERAL: "Weight Erosion, a round taken for a batch",
}
EROSION = "weight-erosion"
WITHIN = 0.6  # points that we allow ourselves to be off
GAP = 1.0  # points from which on the paper's order of two methods is a claim


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run of agent 0: figures, accuracy by round, and, for Weight Erosion, α [round, agent]."""

    best: float
    last: float
    curve: np.ndarray
    alpha: np.ndarray | None
    origin: Mapping[str, Any]


Cells = Mapping[str, Mapping[str, Mapping[int, Run]]]  # by cell, method and seed


def _read(asked: Asked, paper: Paper) -> dict[Preset, Cells]:
    """Everything below OUT at this scale that is finished."""

    def run_of(path: Path, name: str) -> Run | None:
        if not is_finished(path):
            return None
        record, alpha = read_record(path), None
        curve = record.curve("accuracy")[1][:, 0]
        if record.settings.method.startswith(EROSION):
            rows = np.array([record.weights[r][0] for r in sorted(record.weights)])
            alpha = rows / rows[:, :1]  # agent 0's own weight is 1
        return Run(float(curve.max()), float(curve[-1]), curve, alpha, record.about)

    def cells_of(preset: Preset) -> Cells:
        found: dict[str, dict[str, Mapping[int, Run]]] = {}
        for cell in paper.cells(asked.scale):
            methods = {name_of(cell, method): method for method in methods_of(preset, cell)}
            if runs := read_runs(asked, preset, methods, run_of):
                found[cell] = {methods[name]: by for name, by in runs.items()}
        return found

    return by_preset(cells_of)


def _best(cells: Cells, cell: str, method: str) -> dict[int, float]:
    return {seed: run.best for seed, run in cells.get(cell, {}).get(method, {}).items()}


def _gain(cells: Cells, cell: str, method: str, over: str) -> list[float]:
    """Points by which a method's best accuracy is above another's, seed by seed."""
    a, b = _best(cells, cell, method), _best(cells, cell, over)
    return [100 * (a[s] - b[s]) for s in a if s in b]


def gone(alpha: np.ndarray) -> float:
    """The round in which the last of the other agents loses its weight; one more than all if none does."""
    others = alpha[:, 1:].max(axis=1) > 0
    return float(np.flatnonzero(others)[-1] + 2) if others.any() else 1.0


def erosion_first(cells: Cells) -> Verdict:
    present = [cell for cell in ("B/100", "C/100", "D/100", "E/100") if cell in cells]
    pairs = itertools.product(present, ("fedavg", "local"))
    return every({f"{c} over {m}": above_zero(_gain(cells, c, EROSION, m), 2) for c, m in pairs})


def averaging_first(cells: Cells) -> Verdict:
    present = [cell for cell in ("A/100", "F/100") if cell in cells]
    return every({c: above_zero(_gain(cells, c, "fedavg", EROSION), 2) for c in present})


def alone_suffers(cells: Cells) -> Verdict:
    """Local training's loss from 10 to 100 agents less Weight Erosion's, seed by seed."""
    parts = {}
    for letter in "ABCDEFG":
        few, many = f"{letter}/10", f"{letter}/100"
        best = [_best(cells, cell, method) for method in ("local", EROSION) for cell in (few, many)]
        seeds = [seed for seed in best[0] if all(seed in by for by in best)]
        if seeds:
            alone, alone_many, eroded, eroded_many = ([by[s] for s in seeds] for by in best)
            losses = zip(alone, alone_many, eroded, eroded_many, strict=True)
            gaps = [100 * ((a - b) - (c - d)) for a, b, c, d in losses]
            parts[letter] = above_zero(gaps, 2)
    return every(parts)


def weights_gone(cells: Cells) -> Verdict:
    parts = {}
    for cell, runs in cells.items():
        rounds = [gone(run.alpha) for run in runs.get(EROSION, {}).values() if run.alpha is not None]
        if rounds:
            found = near_zero([r - 20 for r in rounds], 6)
            parts[cell] = Verdict(found.word, f"round {np.mean(rounds):.0f}")
    return every(parts)


CLAIMS: list[Claim[Cells]] = [
    Claim("100 agents, B to E: Weight Erosion is better than both others", "V.A, Table II", erosion_first),
    Claim(
        "100 agents, A and F: federated averaging is better than Weight Erosion",
        "V.A, Table II",
        averaging_first,
    ),
    Claim(
        "from 10 to 100 agents, local training loses more than Weight Erosion", "V.A, Table II", alone_suffers
    ),
    Claim("all weights but agent 0's are gone near round 20 (14 to 26)", "IV.C", weights_gone),
]


def _page(paper: Paper, asked: Asked, results: Mapping[Preset, Cells]) -> str:
    by_method = [by for cells in results.values() for methods in cells.values() for by in methods.values()]
    runs = [run for by in by_method for run in by.items()]
    parts = [
        f"# {paper.name}, scale {asked.scale}",
        f"{paper.citation}. What the presets are and where they differ: `coterie.studies.gengler_2020`.",
        pages.run_facts(runs),
    ]
    if asked.scale == "small":
        parts.append("Small pictures of other digits, fewer agents and rounds: not the paper's figures.")
    parts.append(
        "Agent 0's test accuracy in %; ± is half of the 95 % interval over seeds that share test rows. "
        "*Best* is the best of all "
        "rounds, as in the paper: it is chosen by the test set and so too high; *last* is the last round's. "
        "Commands give all lines of their cells; `--cells` picks one."
    )
    for preset, cells in results.items():
        seeds_of = {cell: 1 + max(s for m in by.values() for s in m) for cell, by in cells.items()}
        again = pages.commands(paper, preset, asked.scale, seeds_of)
        parts += [f"## {preset}", again, accuracy_table(cells, asked.scale)]
        if asked.scale == "full" and (pairs := order_rows(cells)):
            parts += [
                f"Order, where the paper's gap exceeds {GAP:g} point:",
                pages.table(["cell", "first – second", "paper", "ours", "same order"], pairs),
            ]
    if asked.scale == "full":
        parts += ["## Claims", pages.CLAIMS_NOTE, pages.claims_table(CLAIMS, results)]
    return pages.joined(*parts)


def accuracy_table(cells: Cells, scale: Scale) -> str:
    against = ["Table II", "difference", f"within {WITHIN:g}", "seeds and Table II"]
    lines = []
    for cell, by in cells.items():
        for method, runs in by.items():
            ours = interval([r.best for r in runs.values()])
            last = interval([r.last for r in runs.values()])
            line = [cell, LABELS[method], len(runs), pages.plus_minus(ours, 2), pages.plus_minus(last, 2)]
            if scale == "full":
                theirs = _published(cell, method)
                off = 100 * (ours.mean - theirs)
                close = "yes" if abs(off) <= WITHIN + 1e-9 else "no"
                line += [f"{100 * theirs:.2f}", f"{off:+.2f}", close, stands(ours, theirs)]
            lines.append(line)
    header = ["cell", "method", "seeds", "best", "last", *(against if scale == "full" else [])]
    return pages.table(header, lines)


def _published(cell: str, method: str) -> float:
    """Table II's figure; another reading of Weight Erosion stands beside Weight Erosion's."""
    return TABLE_II[cell][METHODS.index(EROSION if method == LITERAL else method)]


def stands(ours: Interval, theirs: float) -> str:
    """Where our interval stands to their figure."""
    if ours.seeds < 2:
        return "one seed"
    if abs(ours.mean - theirs) <= ours.half:
        return "inside"
    return "above" if ours.mean > theirs else "below"


def order_rows(cells: Cells) -> list[list[object]]:
    lines: list[list[object]] = []
    for cell, by in cells.items():
        theirs = dict(zip(METHODS, TABLE_II[cell], strict=True))
        for a, b in itertools.permutations([m for m in by if m in theirs], 2):
            gap = 100 * (theirs[a] - theirs[b])
            if gap > GAP:
                ours = np.mean([r.best for r in by[a].values()]) - np.mean([r.best for r in by[b].values()])
                pair = f"{LABELS[a]} – {LABELS[b]}"
                lines.append([cell, pair, f"{gap:+.2f}", f"{100 * ours:+.2f}", "yes" if ours > 0 else "no"])
    return lines


def _rows(asked: Asked, results: Mapping[Preset, Cells]) -> list[dict[str, object]]:
    """One line for each run."""
    return [
        {
            "preset": preset,
            "scale": asked.scale,
            "cell": cell,
            "method": method,
            "seed": seed,
            "best": run.best,
            "last": run.last,
            "table_ii": _published(cell, method) if asked.scale == "full" else None,
            "weights_gone_in_round": None if run.alpha is None else gone(run.alpha),
            "commit": run.origin["commit"],
            "command": pages.again("gengler-2020", cell, preset, asked.scale, seed),
        }
        for preset, cells in results.items()
        for cell, by in cells.items()
        for method, runs in by.items()
        for seed, run in runs.items()
    ]


def _draw(asked: Asked, results: Mapping[Preset, Cells]) -> dict[str, Figure]:
    """Figure 2, one file for each cell."""
    return {
        f"figure-2-{cell.replace('/', '-')}-{preset}": _rounds(cell, by)
        for preset, cells in results.items()
        for cell, by in cells.items()
    }


def _rounds(cell: str, by: Mapping[str, Mapping[int, Run]]) -> Figure:
    """Accuracy by round above, the agents' mean weights below."""
    figure, axes = drawing.canvas(4, 4.5, 2, 1, sharex=True)
    above, below = axes[:, 0]
    found = {m: np.array([r.curve for r in by[m].values()]) for m in METHODS if m in by}
    drawing.curves(above, found, LABELS)
    best_half = [v[:, len(v[0]) // 3 :].min() for v in found.values()]
    above.set(ylabel="test accuracy, %", ylim=(100 * min(best_half) - 2, 100.5))
    above.set_title(f"distribution {cell.split('/')[0]}, {cell.split('/')[1]} agents", fontsize=8)
    above.legend(fontsize=7)
    eroded = [r.alpha for r in by.get(EROSION, {}).values() if r.alpha is not None]
    if eroded:
        mean = np.mean(eroded, axis=0)
        drawing.weights(below, mean, [f"agent {i}" for i in range(mean.shape[1])], 0)
        below.legend(fontsize=6, ncols=2)
    below.set_ylabel("weight α")
    return figure


REPORT = pages.Report(_read, _page, _rows, _draw)
