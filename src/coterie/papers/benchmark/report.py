"""The tables of the study, from the seeds that are kept; the page is made of the lines of its CSV alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.core.errors import BadRun
from coterie.metrics.ranks import cliques
from coterie.metrics.summary import Interval, interval, worst
from coterie.papers import drawing, pages
from coterie.papers.base import Asked, Paper, Scale
from coterie.papers.benchmark import words
from coterie.papers.benchmark.settings import SETTINGS
from coterie.papers.benchmark.standings import Cell, Standing, by_seed, cells, gains, settings_in, standing
from coterie.papers.benchmark.study import COSTS, SEARCHES, Trace, found_in
from coterie.papers.benchmark.ways import FAMILIES, WAYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST = ("local", "fedavg")


def write_all(paper: Paper, asked: Asked) -> list[Path]:
    found = found_in(asked.out, asked.scale)
    lines = [line(*cell, t) for cell, traces in found.items() for t in traces]
    if not lines:
        raise BadRun(f"{asked.out} has no results of {paper.name}: run some cells first")
    frame = pd.DataFrame(lines)
    origins = {t.origin["commit"]: t.origin for traces in found.values() for t in traces}
    search, failed = SEARCHES[asked.scale], int(frame["failed"].sum())
    facts = "\n".join(
        [
            f"- {len(found)} cells, seeds {frame['seed'].min()} to {frame['seed'].max()}",
            f"- for each: {search.trials} trials on {search.folds} folds of the training rows; {failed} of "
            "all trials diverged or were refused",
            *pages.origin_lines(origins.values()),
        ]
    )
    seeds = {f"{name}/{way}": max(t.seed for t in traces) + 1 for (name, way), traces in found.items()}
    parts = [
        f"# {paper.name}",
        f"{paper.citation}: `coterie.papers.benchmark`.",
        facts,
        pages.commands(paper, "text", asked.scale, seeds),
        *pictures(asked),
        body(frame, asked.scale),
    ]
    return pages.write(asked, "\n\n".join(parts) + "\n", lines, partial(draw, frame))


def pictures(asked: Asked) -> list[str]:
    if asked.figures == "none" or not drawing.at_hand():
        return []
    return [f"![{said}](figures/{name}.{asked.figures})" for name, said in words.PICTURES.items()]


def line(setting: str, way: str, found: Trace) -> dict[str, Any]:
    """One line for each seed of a cell."""
    clients = list(found.headline.values())
    return {
        "setting": setting,
        "method": way,
        "seed": found.seed,
        "clients": len(clients),
        "mean": round(float(np.mean(clients)), 6),
        "worst": round(worst(clients, higher=True), 6),
        "loss": rounded(found.loss),
        "ece": rounded(found.ece),
        "expected": round(found.expected, 6),
        "steps": int(found.steps),
        "bytes": int(found.bytes),
        "seconds": round(found.seconds, 3),
        "failed": found.failed,
        "options": json.dumps(found.found, sort_keys=True),
        "commit": found.origin["commit"],
    }


def rounded(by_client: dict[str, float]) -> float | None:
    return round(float(np.mean(list(by_client.values()))), 6) if by_client else None


def body(frame: pd.DataFrame, scale: Scale) -> str:
    means, low = standing(frame, "mean"), standing(frame, "worst")
    over = {other: gains(frame, other, "mean") for other in AGAINST}
    return "\n\n".join(
        [
            words.HOW,
            pages.prose_table(
                ["setting", "what it is", "rounds"],
                [[n, SETTINGS[n].about, SETTINGS[n].scaled(scale).run.rounds] for n in settings_in(frame)],
            ),
            words.LIMITS,
            "## What to take from it",
            words.taken(frame, means, over),
            "## Mean over clients",
            words.MARKS,
            figures(frame, "mean"),
            "## The client that fares worst",
            figures(frame, "worst"),
            "## Ranks",
            ranks(means, low),
            "## Against training alone, and against one model for all",
            words.AGAINST,
            against(over),
            "## How sure, and how often right",
            words.ECE,
            figures(frame, "ece", higher=False),
            "## What it costs",
            words.COST,
            costs(frame),
        ]
    )


def figures(frame: pd.DataFrame, figure: str, higher: bool = True) -> str:
    """Methods downwards by family, settings to the right."""
    by_setting = {name: cells(frame, name, figure, higher) for name in settings_in(frame)}
    shown = {name: found for name, found in by_setting.items() if found}
    lines = [
        [way, *(said(found.get(way)) for found in shown.values())]
        for way in WAYS
        if any(way in found for found in shown.values())
    ]
    return pages.table(["method", *shown], lines)


def said(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    text = pages.plus_minus(cell.found)
    return f"**{text}**" if cell.best else f"{text} †" if cell.tied else text


def ranks(means: Standing | None, low: Standing | None) -> str:
    if means is None or low is None:
        return "Ranks need two settings in which two methods are there."
    lines = [
        [place, way, family_of(way), f"{rank:.1f}", f"{low.ranks[way]:.1f}"]
        for place, (way, rank) in enumerate(means.ranks.items(), start=1)
    ]
    head = ["place", "method", "family", "mean rank", "mean rank of its worst client"]
    return "\n\n".join([words.ranks_of(means, low), pages.table(head, lines)])


def family_of(way: str) -> str:
    return next(family for family, ways in FAMILIES.items() if way in ways)


def against(over: dict[str, dict[str, dict[str, Interval]]]) -> str:
    lines = []
    for way in WAYS:
        line: list[object] = [way]
        for other in AGAINST:
            found = list(over[other].get(way, {}).values())
            better, worse = (sum(f.side == side for f in found) for side in (1, -1))
            mean = float(np.mean([f.mean for f in found])) if found else math.nan
            line += ["–"] * 2 if way == other or not found else [f"{100 * mean:+.1f}", f"{better} / {worse}"]
        if any(way in over[other] for other in AGAINST):
            lines.append(line)
    head = ["method", *(h for other in AGAINST for h in (f"points above {other}", "clearly better / worse"))]
    return pages.table(head, lines)


def costs(frame: pd.DataFrame) -> str:
    """Of each method, over settings the geometric mean of what it takes for each that fedavg takes."""
    tables = {kind: [by_seed(frame, name, kind) for name in settings_in(frame)] for kind in COSTS}
    lines = []
    for way in [w for w in WAYS if w in set(frame["method"])]:
        shares: list[object] = []
        for kind in COSTS:
            known = [r for table in tables[kind] if (r := ratio(table, way)) is not None]
            shares.append(geometric(known))
        lines.append([way, *shares])
    return pages.table(["method", *COSTS], lines)


def ratio(table: pd.DataFrame, way: str) -> float | None:
    if way not in table.columns or "fedavg" not in table.columns:
        return None
    return float(table[way].mean() / table["fedavg"].mean())


def geometric(ratios: list[float]) -> str:
    if not ratios:
        return "–"
    if min(ratios) <= 0:
        return "0" if max(ratios) <= 0 else "0 to " + f"{max(ratios):.2g}"
    return f"{math.exp(float(np.mean(np.log(ratios)))):.2g}"


def draw(frame: pd.DataFrame) -> dict[str, Figure]:
    made: dict[str, Callable[[], Figure]] = {}
    for name, figure in (("ranks", "mean"), ("ranks-of-the-worst", "worst")):
        found = standing(frame, figure)
        if found is not None:
            made[name] = partial(critical_difference, found)
    return {name: make() for name, make in made.items()} | {"gains": gain_picture(frame)}


def critical_difference(found: Standing) -> Figure:
    """Mean ranks on a line, the best on the left; methods under one bar cannot be told from each other."""
    names, at = list(found.ranks), list(found.ranks.values())
    bars, half = cliques(at, found.test.critical), math.ceil(len(names) / 2)
    figure, axes = drawing.canvas(8.0, 0.18 * half + 0.12 * len(bars) + 1.0, 1, 1)
    plot = axes[0, 0]
    low, high = 1.0, float(len(names))
    top = 0.6 * len(bars) + 1
    plot.set(xlim=(low - 5.5, high + 5.5), ylim=(-half - 1.0, top + 1.8))
    plot.axis("off")
    plot.hlines(top, low, high, color="black", linewidth=0.8)
    for tick in range(1, len(names) + 1, 1 if len(names) < 16 else 4):
        plot.vlines(tick, top, top + 0.25, color="black", linewidth=0.8)
        plot.text(tick, top + 0.4, str(tick), ha="center", fontsize=6)
    plot.hlines(top + 1.3, low, low + found.test.critical, color="black", linewidth=1.4)
    label = f"CD = {found.test.critical:.1f} ranks ({found.test.settings} settings, Nemenyi, 5 %)"
    plot.text(low + found.test.critical + 0.3, top + 1.3, label, va="center", fontsize=6)
    for place, (first, last) in enumerate(bars):
        plot.hlines(top - 0.6 * (place + 1), at[first] - 0.1, at[last] + 0.1, color="#444444", linewidth=2)
    for i, (name, rank) in enumerate(zip(names, at, strict=True)):
        left = i < half
        y, x = (-i, low - 0.6) if left else (-(len(names) - 1 - i), high + 0.6)
        plot.plot([rank, rank, x], [top, y, y], color="#777777", linewidth=0.5)
        plot.text(
            x - 0.1 if left else x + 0.1,
            y,
            f"{name} {rank:.1f}",
            ha="right" if left else "left",
            va="center",
            fontsize=6,
        )
    return figure


def gain_picture(frame: pd.DataFrame) -> Figure:
    """What each method has above training alone, in points: methods downwards, settings to the right."""
    over = gains(frame, "local", "mean")
    names, ways = settings_in(frame), [w for w in WAYS if w in over and w != "local"]
    nothing = interval([])
    found = [[over[way].get(name, nothing) for name in names] for way in ways]
    values = np.array([[100 * cell.mean for cell in row] for row in found]).reshape(len(ways), len(names))
    figure, axes = drawing.canvas(7.0, 0.22 * len(ways) + 1.6, 1, 1)
    plot = axes[0, 0]
    shown = plot.imshow(values, cmap="RdBu", vmin=-15, vmax=15, aspect="auto")
    plot.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=7)
    plot.set_yticks(range(len(ways)), ways, fontsize=7)
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            clear = found[row][column].side != 0
            ink = "white" if abs(value) > 9 else "black"
            weight = "bold" if clear else "normal"
            plot.text(
                column, row, f"{value:+.1f}", ha="center", va="center", fontsize=6, color=ink, weight=weight
            )
    figure.colorbar(shown, ax=plot, label="points above training alone; bold: clearly")
    return figure
