"""The table of the study, from the runs that are kept; the page is made of the lines of its CSV alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.core.errors import BadRun
from coterie.metrics.summary import interval
from coterie.papers import drawing, pages
from coterie.papers.base import Asked, Paper, Scale
from coterie.papers.robustness.study import KINDS, NONE, STUDIES, WAYS, Trace, kept
from coterie.papers.robustness.words import INTRO, words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEAR = 3.0  # points that count as held


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    lines = rows(asked.out, asked.scale)
    if not lines:
        raise BadRun(f"{asked.out} has no results of {paper.name}: run some cells first")
    frame, origins = pd.DataFrame(lines), dict[str, Any]()
    for cell in {(line["study"], line["method"]) for line in lines}:
        origins |= {t.origin["commit"]: t.origin for t in kept(asked.out, asked.scale, *cell)}
    head = [f"# {paper.name}", f"{paper.citation}: `coterie.papers.robustness`."]
    facts = "\n".join(
        [
            f"- {len(frame)} runs, seeds {frame['seed'].min()} to {frame['seed'].max()}",
            *pages.origin_lines(origins.values()),
        ]
    )
    command = pages.commands(paper, "text", asked.scale, seeds(frame))
    text = "\n\n".join([*head, facts, command, body(frame)]) + "\n"
    return pages.write(asked, text, lines, partial(draw, frame))


def rows(out: Path, scale: Scale) -> list[dict[str, Any]]:
    """One line for each run, beside what the same clients have in the run of that seed where nobody lies."""
    lines = []
    for study in STUDIES:
        for way in WAYS:
            traces = kept(out, scale, study, way)
            clean = {t.seed: t.accuracy for t in traces if t.kind == NONE}
            lines += [line(study, way, t, clean[t.seed]) for t in traces if t.seed in clean]
    return lines


def line(study: str, way: str, found: Trace, clean: Mapping[str, float]) -> dict[str, Any]:
    honest = list(found.accuracy.values())
    before = [clean[client] for client in found.accuracy]
    return {
        "study": study,
        "method": way,
        "kind": found.kind,
        "share": found.share,
        "seed": found.seed,
        "honest": len(honest),
        "accuracy": round(float(np.mean(honest)), 5),
        "worst": round(min(honest), 5),
        "clean": round(float(np.mean(before)), 5),
        "clean_worst": round(min(before), 5),
        "fooled": None if found.fooled is None else round(found.fooled, 5),
        "left_out": len(found.left_out),
        "commit": found.origin["commit"],
    }


def seeds(frame: pd.DataFrame) -> dict[str, int]:
    """How many seeds, from 0, each cell has."""
    return {f"{s}/{w}": int(f["seed"].max()) + 1 for (s, w), f in ordered(frame)}


def ordered(frame: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Cells in the order of the study."""
    found = {(str(s), str(w)): part for (s, w), part in frame.groupby(["study", "method"])}
    return [((s, w), found[s, w]) for s in STUDIES for w in WAYS if (s, w) in found]


def body(frame: pd.DataFrame) -> str:
    parts = [INTRO]
    for study in dict.fromkeys(s for (s, _), _ in ordered(frame)):
        mine = frame[frame["study"] == study]
        for share in sorted(set(mine["share"]) - {0.0}):
            some = mine[mine["share"].isin((0.0, share))]
            parts += [f"## {study}, {100 * share:.0f} % lie", table(some, "accuracy", "clean")]
            parts += ["The worst of the honest:", table(some, "worst", "clean_worst")]
    parts += ["## How often the trigger works", trigger(frame)]
    parts += ["## What holds, and what breaks", held(frame), words_of(broken(frame))]
    return "\n\n".join(parts)


def changes(cell: pd.DataFrame, value: str, before: str) -> dict[str, float]:
    """By kind, the mean over seeds of what lying changes, in points."""
    lied = cell[cell["kind"] != NONE]
    found = (100 * (lied[value] - lied[before])).groupby(lied["kind"]).mean()
    return {str(kind): float(change) for kind, change in found.items()}


def table(frame: pd.DataFrame, value: str, before: str) -> str:
    """What each method has when nobody lies, in %, and the points that each way of lying changes."""
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    lines = []
    for (study, way), cell in ordered(frame):
        plain = interval(list(cell[cell["kind"] == NONE][value]), overlap=STUDIES[study].overlap)
        found = changes(cell, value, before)
        lines.append([way, pages.plus_minus(plain), *(points(found.get(kind)) for kind in kinds)])
    return pages.table(["method", "nobody lies", *kinds], lines)


def points(change: float | None) -> str:
    if change is None:
        return "–"
    said = f"{change:+.1f}".replace("-", "−").replace("−0.0", "0.0").replace("+0.0", "0.0")
    return f"**{said}**" if change < -NEAR else said


def trigger(frame: pd.DataFrame) -> str:
    """% of honest clients' test rows of other classes that a trigger turns into the class it calls up."""
    some = frame[frame["kind"] == "backdoor"]
    groups = [(s, share) for s in STUDIES for share in sorted(set(some[some["study"] == s]["share"]))]
    lines = []
    for way in [w for w in WAYS if w in set(some["method"])]:
        mine = some[some["method"] == way]
        cells = [mine[(mine["study"] == s) & (mine["share"] == share)]["fooled"] for s, share in groups]
        lines.append([way, *(f"{100 * c.mean():.0f}" if len(c) else "–" for c in cells)])
    return pages.table(["method", *(f"{s}, {100 * share:.0f} %" for s, share in groups)], lines)


def broken(frame: pd.DataFrame) -> dict[str, bool]:
    """Of each method, whether any way of lying takes the honest further down than counts as held."""
    found = dict.fromkeys((w for w in WAYS if w in set(frame["method"])), False)
    for (_, way), cell in ordered(frame):
        for share in set(cell["share"]) - {0.0}:
            some = changes(cell[cell["share"] == share], "accuracy", "clean")
            found[way] |= any(change < -NEAR for change in some.values())
    return found


def held(frame: pd.DataFrame) -> str:
    """Of each method: under how many ways of lying the honest stay near, and which break it."""
    lines = []
    for way in [w for w in WAYS if w in set(frame["method"])]:
        cells, near, all_of, worst = list[str](), 0, 0, dict[str, float]()
        for study, spec in STUDIES.items():
            for share in spec.shares:
                mine = frame[(frame["study"] == study) & (frame["method"] == way)]
                found = changes(mine[mine["share"].isin((0.0, share))], "accuracy", "clean")
                bad = {k: v for k, v in found.items() if v < -NEAR}
                near, all_of = near + len(found) - len(bad), all_of + len(found)
                cells.append(f"{len(found) - len(bad)} of {len(found)}" if found else "–")
                for kind, change in bad.items():
                    worst[kind] = min(change, worst.get(kind, 0.0))
        said = ", ".join(f"{k} {points(worst[k]).strip('*')}" for k in KINDS if k in worst) or "nothing"
        lines.append([way, *cells, f"{near} of {all_of}", said])
    names = [f"{s}, {100 * share:.0f} %" for s, spec in STUDIES.items() for share in spec.shares]
    return pages.prose_table(["method", *names, "in all", "broken by, at the worst"], lines)


def draw(frame: pd.DataFrame) -> dict[str, Figure]:
    """For each study, a picture of the changes of the mean: methods downwards, ways of lying to the right."""
    made = {}
    for study, spec in STUDIES.items():
        share = spec.shares[-1]
        mine = frame[(frame["study"] == study) & frame["share"].isin((0.0, share))]
        if not mine.empty:
            made[f"{study}-{100 * share:.0f}"] = picture(mine)
    return made


def picture(frame: pd.DataFrame) -> Figure:
    kinds = [kind for kind in KINDS if kind in set(frame["kind"])]
    ways = [way for (_, way), _ in ordered(frame)]
    found = {way: changes(cell, "accuracy", "clean") for (_, way), cell in ordered(frame)}
    values = np.array([[found[way].get(kind, np.nan) for kind in kinds] for way in ways])
    figure, axes = drawing.canvas(7.5, 0.3 * len(ways) + 1.2, 1, 1)
    plot = axes[0, 0]
    shown = plot.imshow(values, cmap="RdBu", vmin=-30, vmax=30, aspect="auto")
    plot.set_xticks(range(len(kinds)), kinds, rotation=45, ha="right", fontsize=7)
    plot.set_yticks(range(len(ways)), ways, fontsize=7)
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            ink = "white" if abs(value) > 18 else "black"
            plot.text(column, row, f"{round(value):d}", ha="center", va="center", fontsize=6, color=ink)
    figure.colorbar(shown, ax=plot, label="change for the honest, points")
    return figure
