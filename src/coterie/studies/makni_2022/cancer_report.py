"""Section 6 of makni-2022 on paper: a table, two claims and two figures, from what `cancer` returned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.metrics.summary import interval
from coterie.show.figures import ramp
from coterie.show.inks import COLOURS
from coterie.studies import drawing, pages
from coterie.studies.base import Preset
from coterie.studies.claims import Claim, Verdict, above_zero, every
from coterie.studies.makni_2022.cancer import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Result = Mapping[str, Any]
Seeds = Mapping[int, Result]

OVERLAP = Setting.held / (1 - Setting.held)  # every seed sets test rows aside anew
ORDER = 10**-2.5  # half a decade above 1e-3
FACTOR = 2.0  # between the spreads of clouds that are called alike
INKS = {"swag": COLOURS[1], "hmc": COLOURS[0]}
NAMES = {"swag": "SWAG", "hmc": "HMC"}
FITTED = {"both": "axes of both clouds", "swag": "axes of SWAG's cloud"}
PALING = ("#3D93C6", "#D3E6F3", "#FFFFFF")
LEVELS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)  # nats below the highest point

ROWS = {
    "deviation of means, SWAG and HMC": ("deviation", "swag-hmc"),
    "the same, two halves of the chains": ("deviation", "hmc-hmc"),
    "the same, SWAG from two first models": ("deviation", "swag-swag"),
    "the same, zero and HMC": ("deviation", "zero-hmc"),
    "mean size of a weight, SWAG": ("size", "swag"),
    "mean size of a weight, HMC": ("size", "hmc"),
    "mean spread of a weight, SWAG": ("spread", "swag"),
    "mean spread of a weight, HMC": ("spread", "hmc"),
    "log posterior of a draw, SWAG": ("log_posterior", "swag"),
    "log posterior of a draw, HMC": ("log_posterior", "hmc"),
    "ratio of spreads, first axis of both": ("planes", "both", "ratio", 0),
    "ratio of spreads, second axis of both": ("planes", "both", "ratio", 1),
    "ratio of spreads, first axis of SWAG": ("planes", "swag", "ratio", 0),
    "ratio of spreads, second axis of SWAG": ("planes", "swag", "ratio", 1),
    "overlap of clouds, axes of both": ("planes", "both", "overlap"),
    "overlap of clouds, axes of SWAG": ("planes", "swag", "overlap"),
    "accuracy, SWAG": ("scores", "swag", "accuracy"),
    "accuracy, HMC": ("scores", "hmc", "accuracy"),
    "ECE, SWAG": ("scores", "swag", "ece"),
    "ECE, HMC": ("scores", "hmc", "ece"),
    "NLL, SWAG": ("scores", "swag", "nll"),
    "NLL, HMC": ("scores", "hmc", "nll"),
    "gap of predictions, SWAG and HMC": ("gap", "swag-hmc"),
    "the same gap, two halves of the chains": ("gap", "hmc-hmc"),
    "the same gap, SWAG from two first models": ("gap", "swag-swag"),
    "R̂ of weights, median": ("mixing", "weights", "r_hat_median"),
    "R̂ of weights, worst": ("mixing", "weights", "r_hat_worst"),
    "ESS of weights, median": ("mixing", "weights", "ess_median"),
    "R̂ of predictions, median": ("mixing", "predictions", "r_hat_median"),
    "R̂ of predictions, worst": ("mixing", "predictions", "r_hat_worst"),
    "ESS of predictions, median": ("mixing", "predictions", "ess_median"),
    "accepted draws": ("acceptance",),
}


def value(result: Result, path: tuple[str | int, ...]) -> float:
    """The number at the end of a path."""
    found: Any = result
    for step in path:
        found = found[step]
    return float(found)


def table(results: Mapping[Preset, Seeds]) -> str:
    """Means over seeds with half their 95 % intervals, a column a preset."""
    lines: list[list[object]] = []
    for name, path in ROWS.items():
        lines.append([name, *(written([value(r, path) for r in by.values()]) for by in results.values())])
    seeds = ["seeds", *(len(by) for by in results.values())]
    return pages.table(["", *results], [seeds, *lines])


def written(values: list[float]) -> str:
    """Three digits of a mean, and its interval to the same place."""
    mean, half, seeds, *_ = interval(values, overlap=OVERLAP)
    if mean == 0 or not math.isfinite(mean):
        return f"{mean:g}"
    if not 1e-3 <= abs(mean) < 1e5:
        power = math.floor(math.log10(abs(mean)))
        return f"({mean / 10**power:.2f} ± {half / 10**power:.2f})e{power}" if seeds > 1 else f"{mean:.2e}"
    places = max(0, 2 - math.floor(math.log10(abs(mean))))
    return f"{mean:.{places}f} ± {half:.{places}f}" if seeds > 1 else f"{mean:.{places}f}"


def means_are_close(by: Seeds) -> Verdict:
    """log₁₀ of what is between the deviation and half a decade above 1e-3."""
    return above_zero(
        [math.log10(ORDER / value(r, ("deviation", "swag-hmc"))) for r in by.values()], 2, OVERLAP
    )


def _clouds_are_alike(by: Seeds) -> Verdict:
    """Factors of 2 between the worst axis' ratio of spreads and 2 or 1/2, in each plane."""
    parts = {}
    for name in FITTED if by else ():
        ratios = [[value(r, ("planes", name, "ratio", k)) for k in (0, 1)] for r in by.values()]
        room = [math.log2(FACTOR) - max(abs(math.log2(x)) for x in pair) for pair in ratios]
        parts[FITTED[name]] = above_zero(room, 2, OVERLAP)
    return every(parts)


CLAIMS: list[Claim[Seeds]] = [
    Claim(
        "SWAG's and HMC's means deviate by no more than order 1e-3, on average over coordinates (put as "
        "log₁₀ of 10^-2.5 / deviation)",
        "6.1",
        means_are_close,
    ),
    Claim(
        "projected on a plane, SWAG's cloud is close to HMC's: spreads differ by less than a factor of 2 "
        "along both axes (put as 1 - |log₂ ratio|)",
        "6.1, figures",
        _clouds_are_alike,
    ),
]


def figure(result: Result) -> dict[str, Figure]:
    """The paper's pictures from one seed: clouds beside each other, and the posterior in the plane."""
    name = f"cancer-{result['preset']}"
    return {f"{name}-samples": _samples(result), f"{name}-surface": _surface(result)}


def _samples(result: Result) -> Figure:
    """SWAG to the left, HMC to the right, in the same plane; a row for each way to fit the plane."""
    planes = result["planes"]
    figure, axes = drawing.canvas(6.2, 2.9 * len(planes) + 0.3, len(planes), 2)
    for line, (fitted, plane) in zip(axes, planes.items(), strict=True):
        for ax, of in zip(line, ("swag", "hmc"), strict=True):
            ax.scatter(*np.array(plane[of]).T, s=5, color=INKS[of], alpha=0.45, linewidths=0)
            _outlines(ax, plane)
            ax.set_title(f"{NAMES[of]}, {FITTED[fitted]}", fontsize=8)
        line[1].set(ylabel="", yticklabels=[])
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    return figure


def _surface(result: Result) -> Figure:
    """How far the log posterior falls below its highest point on the plane, with both clouds' ellipses."""
    planes = result["planes"]
    figure, axes = drawing.canvas(3.6 * len(planes), 3.3, 1, len(planes))
    for ax, (fitted, plane) in zip(axes[0], planes.items(), strict=True):
        heights = np.array(plane["log_posterior"])
        drop = heights.max() - heights
        levels = [x for x in LEVELS if x < drop.max()]
        levels.append(next((x for x in LEVELS if x >= drop.max()), drop.max()))
        places = range(len(levels))  # equal steps of colour between unequal levels
        bands = np.interp(drop, levels, places)
        shown = ax.contourf(*plane["sides"], bands, levels=places, cmap=ramp(PALING))
        _outlines(ax, plane)
        ax.set_title(FITTED[fitted], fontsize=8)
        bar = figure.colorbar(shown, ax=ax, ticks=places, label="log posterior below its top, nats")
        bar.ax.set_yticklabels([f"{x:,.0f}" for x in levels], fontsize=6.5)
        bar.ax.invert_yaxis()
    axes[0][-1].set_ylabel("")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    return figure


def _outlines(ax: Axes, plane: Mapping[str, Any]) -> None:
    """Ellipses of two standard deviations around both clouds, and crosses, for a cloud too small to see."""
    turn = np.linspace(0, 2 * np.pi, 200)
    for of, colour in INKS.items():
        cloud = np.array(plane[of])
        middle = cloud.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(cloud.T))
        ring = middle[:, None] + vectors * 2 * np.sqrt(values.clip(0)) @ [np.cos(turn), np.sin(turn)]
        ax.plot(*ring, color=colour, linewidth=1.2, label=f"{NAMES[of]}, 2 standard deviations")
        ax.plot(*middle, marker="+", color=colour, markersize=7, markeredgewidth=1.3)
    (x, y), (first, second) = plane["sides"], plane["shares"]
    ax.set(xlim=(x[0], x[-1]), xlabel=f"first axis, {100 * first:.2g} % of variance")
    ax.set(ylim=(y[0], y[-1]), ylabel=f"second axis, {100 * second:.2g} % of variance")
