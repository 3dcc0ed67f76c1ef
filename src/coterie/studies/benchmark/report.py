"""The tables of the study, from the seeds that are kept; the page is made of the lines of its CSV alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from coterie.metrics.ranks import cliques
from coterie.metrics.summary import Interval, interval, worst
from coterie.studies import drawing, pages
from coterie.studies.base import Asked, LineStudy, Paper, Scale
from coterie.studies.benchmark import COSTS, FAMILIES, SEARCHES, SETTINGS, WAYS, Trace
from coterie.studies.benchmark import standings as words
from coterie.studies.benchmark.standings import Standing, by_seed, cells, gains, settings_in, standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST = ("local", "fedavg")


Runs = Mapping[tuple[str, str], Sequence[Trace]]  # by setting and method


def _read(asked: Asked, paper: LineStudy[Trace]) -> Runs:
    runs = paper.kept(asked.out, asked.scale)
    return {cell: sorted(found, key=lambda t: t.seed) for cell, found in runs.items()}


def _rows(asked: Asked, results: Runs) -> list[dict[str, Any]]:
    """One line for each seed of a cell."""
    return [_line(*cell, found) for cell, traces in results.items() for found in traces]


def _page(paper: Paper, asked: Asked, results: Runs) -> str:
    frame = pd.DataFrame(_rows(asked, results))
    origins = {t.origin["commit"]: t.origin for traces in results.values() for t in traces}
    seeds = {"/".join(cell): max(t.seed for t in traces) + 1 for cell, traces in results.items()}
    search, failed = SEARCHES[asked.scale], int(frame["failed"].sum())
    shown = words.PICTURES.items() if asked.figures != "none" and drawing.at_hand() else ()
    return pages.joined(
        f"# {paper.name}",
        f"{paper.citation}: `coterie.studies.benchmark`.",
        f"- {len(results)} cells, seeds {frame['seed'].min()} to {frame['seed'].max()}\n"
        + pages.facts(
            f"for each: {search.trials} trials on {search.folds} folds of the training rows; {failed} of "
            "all trials diverged or were refused",
            origins.values(),
        ),
        pages.commands(paper, "text", asked.scale, seeds),
        *(f"![{said}](figures/{name}.{asked.figures})" for name, said in shown),
        body(frame, asked.scale),
    )


def _line(setting: str, way: str, found: Trace) -> dict[str, Any]:
    clients = list(found.headline.values())

    def mean(by_client: Mapping[str, float]) -> float | None:
        return round(float(np.mean(list(by_client.values()))), 6) if by_client else None

    return {
        "setting": setting,
        "method": way,
        "seed": found.seed,
        "clients": len(clients),
        "mean": round(float(np.mean(clients)), 6),
        "worst": round(worst(clients, higher=True), 6),
        "loss": mean(found.loss),
        "ece": mean(found.ece),
        "expected": round(found.expected, 6),
        "steps": int(found.steps),
        "bytes": int(found.bytes),
        "seconds": round(found.seconds, 3),
        "failed": found.failed,
        "options": json.dumps(found.found, sort_keys=True),
        "commit": found.origin["commit"],
    }


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
            _ranks(means, low),
            "## Against training alone, and against one model for all",
            words.AGAINST,
            _against(over),
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
    lines = []
    for way in [w for w in WAYS if any(w in found for found in shown.values())]:
        line = [way]
        for found in shown.values():
            text = pages.plus_minus(found[way].found) if way in found else "–"
            best, tied = way in found and found[way].best, way in found and found[way].tied
            line.append(f"**{text}**" if best else f"{text} †" if tied else text)
        lines.append(line)
    return pages.table(["method", *shown], lines)


def _ranks(means: Standing | None, low: Standing | None) -> str:
    if means is None or low is None:
        return "Ranks need two settings in which two methods are there."
    family_of = {way: family for family, ways in FAMILIES.items() for way in ways}
    lines = [
        [place, way, family_of[way], f"{rank:.1f}", f"{low.ranks[way]:.1f}"]
        for place, (way, rank) in enumerate(means.ranks.items(), start=1)
    ]
    head = ["place", "method", "family", "mean rank", "mean rank of its worst client"]
    return "\n\n".join([words.ranks_of(means, low), pages.table(head, lines)])


def _against(over: dict[str, dict[str, dict[str, Interval]]]) -> str:
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
        line = [way]
        for kind in COSTS:
            known = [table for table in tables[kind] if {way, "fedavg"} <= set(table.columns)]
            ratios = [float(table[way].mean() / table["fedavg"].mean()) for table in known]
            if ratios and min(ratios) > 0:
                line.append(f"{math.exp(float(np.mean(np.log(ratios)))):.2g}")
            elif ratios:
                line.append("0" if max(ratios) <= 0 else f"0 to {max(ratios):.2g}")
            else:
                line.append("–")
        lines.append(line)
    return pages.table(["method", *COSTS], lines)


def _draw(asked: Asked, results: Runs) -> dict[str, Figure]:
    return draw_of(pd.DataFrame(_rows(asked, results)))


def draw_of(frame: pd.DataFrame) -> dict[str, Figure]:
    standings = {"ranks": standing(frame, "mean"), "ranks-of-the-worst": standing(frame, "worst")}
    made = {name: _critical_difference(found) for name, found in standings.items() if found is not None}
    return made | {"gains": _gain_picture(frame)}


def _critical_difference(found: Standing) -> Figure:
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
        x, side = (x - 0.1, "right") if left else (x + 0.1, "left")
        plot.text(x, y, f"{name} {rank:.1f}", ha=side, va="center", fontsize=6)
    return figure


def _gain_picture(frame: pd.DataFrame) -> Figure:
    """What each method has above training alone, in points: methods downwards, settings to the right."""
    over = gains(frame, "local", "mean")
    names, ways = settings_in(frame), [w for w in WAYS if w in over and w != "local"]
    nothing = interval([])
    found = [[over[way].get(name, nothing) for name in names] for way in ways]
    values = np.array([[100 * cell.mean for cell in row] for row in found]).reshape(len(ways), len(names))
    figure, axes = drawing.canvas(7.0, 0.22 * len(ways) + 1.6, 1, 1)
    plot = axes[0, 0]
    shown, numbers = drawing.heat_map(plot, values, (ways, names), 15, 30, "{:+.1f}".format)
    for (row, column), number in numbers.items():
        number.set_weight("normal" if found[row][column].side == 0 else "bold")
    figure.colorbar(shown, ax=plot, label="points above training alone; bold: clearly")
    return figure


REPORT = pages.Report(_read, _page, _rows, _draw)
