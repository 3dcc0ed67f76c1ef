"""The page's figures for a paper, as SVG or PNG with matplotlib: the same bytes each time they are drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from coterie.core.errors import BadInput
from coterie.report import calibration, canvas, closeups, kinds, views, words
from coterie.report import inks as colours
from coterie.report.inks import Ink, inks
from coterie.runs.record import Record
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "x": "X",
    "circle-open": "o",
}
BARS = 30  # clients that are drawn as bars; more are dots


def write_figures(
    folder: str | Path, records: Sequence[Record], format: Literal["svg", "png"] = "svg"
) -> list[Path]:
    """Writes rounds, clients, gains, calibration, measures, sizes, labels, matrices by method, and close-ups.

    Returns their paths.
    """
    if format not in ("svg", "png"):
        raise BadInput(f"format={format!r} is not known: choose svg or png")
    try:
        import matplotlib
    except ImportError:
        raise BadInput("figures need matplotlib: pip install 'coterie[figures]'") from None
    with matplotlib.rc_context(canvas.LOOK):
        made = draw(records)
        stamp = {"Date": None} if format == "svg" else {"Software": None}
        written = []
        for name, figure in made.items():
            content = io.BytesIO()
            figure.savefig(content, format=format, metadata=stamp)
            written.append(write_whole(Path(folder) / f"{name}.{format}", content.getvalue()))
    return written


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Figures by file name, without its ending."""
    by_label = views.groups(records)
    alone = views.baseline(by_label)
    ink = inks(list(by_label), alone)
    metric, first = views.headline_metric(records), next(iter(by_label.values()))[0]
    made: dict[str, Figure] = {}
    if views.metrics(records):
        made["rounds"] = rounds(by_label, ink, metric)
        drawn = [views.bars(label, runs, metric) for label, runs in by_label.items()]
        made["clients"] = clients(first.clients, drawn, ink, metric, f"test {words.unit(metric)}")
        others = {label: runs for label, runs in by_label.items() if label != alone}
        if alone is not None and others:
            drawn = [views.gain_bars(x, runs, by_label[alone], metric) for x, runs in others.items()]
            unit = "points" if words.in_percent(metric) else words.label(metric)
            made["gains"] = clients(first.clients, drawn, ink, metric, f"gain over {alone}, {unit}")
    for measure in views.metrics(records, views.MEASURED):
        made[measure.replace("_", "-")] = rounds(by_label, ink, measure, views.MEASURED)
    made |= calibration.draw(by_label, ink)
    order = views.client_order(first)
    for label, runs in by_label.items():
        found = views.matrices(label, runs, order)
        if found is not None:
            title = f"{canvas.plain(label)}, round {found.rounds[-1]}, seed {found.seed}"
            said = ("listens", "is listened to", "weight")
            made[canvas.unused(f"matrix-{canvas.slug(label)}", made)] = matrix(found, title, *said)
        found = views.collected(label, runs, order)
        if found is not None:
            title = f"{canvas.plain(label)}, {found.of_rounds} rounds, seed {found.seed}"
            said = ("collects", "is collected from", "rounds")
            made[canvas.unused(f"collected-{canvas.slug(label)}", made)] = matrix(found, title, *said)
    for name, figure in closeups.draw(by_label, ink).items():
        made[canvas.unused(name, made)] = figure
    counted = views.labels(first)
    made["sizes"] = sizes(first)
    if counted is not None:
        made["labels"] = labels(first.clients, *counted)
    return made


def rounds(by_label: views.Groups, ink: Mapping[str, Ink], metric: str, scores: str = views.OWN) -> Figure:
    """Metric by round: lines and bands as on the page."""
    figure, axes = canvas.sheet(4.5, 3)
    kind, factor = views.band_kind(by_label), words.factor(metric)
    band = kind if scores == views.OWN else "seeds"
    for label, runs in by_label.items():
        curve, look = views.curve(label, runs, band, metric, scores), ink[label]
        if np.isfinite(curve.low).any():
            axes.fill_between(
                curve.rounds,
                factor * curve.low,
                factor * curve.high,
                color=look.colour,
                alpha=0.16,
                linewidth=0,
            )
        style = {"color": look.colour, "linestyle": canvas.DASHES[look.dash], "label": canvas.plain(label)}
        axes.plot(
            curve.rounds,
            factor * curve.mean,
            linewidth=1.5,
            marker="o" if len(curve.rounds) == 1 else "",
            **style,
        )
    axes.set(xlabel="round", ylabel=f"{'test ' * (scores == views.OWN)}{words.unit(metric)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    over = kinds.over([r for runs in by_label.values() for r in runs])
    shade = f"95 % interval {over}" if band == "seeds" else "the middle half of the clients (one seed)"
    if band == kind:
        axes.set_title(f"shade: {shade}", fontsize=7, loc="left", color="#52606d")
    axes.legend(fontsize=7, ncols=2 if len(by_label) > 4 else 1)
    return figure


def clients(
    names: Sequence[str], drawn: Sequence[views.Bars], ink: Mapping[str, Ink], metric: str, title: str
) -> Figure:
    """Bars, or dots for many clients; thin lines are intervals over seeds."""
    figure, axes = canvas.sheet(min(7.5, max(4.5, 0.12 * len(names) * len(drawn))), 3)
    factor, places = words.factor(metric), np.arange(len(names))
    width = 0.8 / len(drawn)
    for i, bars in enumerate(drawn):
        look, half = ink[bars.label], factor * bars.half
        error = half if np.isfinite(half).any() else None
        if len(names) <= BARS:
            at = places + (i - (len(drawn) - 1) / 2) * width
            lines = {"elinewidth": 0.7}
            axes.bar(
                at,
                factor * bars.mean,
                width,
                yerr=error,
                color=look.colour,
                hatch=look.hatch * 3,
                edgecolor="white",
                linewidth=0,
                label=canvas.plain(bars.label),
                error_kw=lines,
            )
        else:
            axes.errorbar(
                places, factor * bars.mean, error, fmt=MARKS[look.mark], markersize=3, elinewidth=0.4,
                markerfacecolor="none" if look.mark.endswith("open") else look.colour,
                color=look.colour, label=canvas.plain(bars.label),
            )  # fmt: skip
    canvas.ticks(axes, names, "x")
    axes.set(ylabel=title, xlim=(-0.6, len(names) - 0.4))
    if len(names) <= BARS or any((bars.mean < 0).any() for bars in drawn):
        axes.axhline(0, color="#333333", linewidth=0.6)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, fontsize=7)
    return figure


def matrix(found: views.Matrices, title: str, to: str, sender: str, unit: str) -> Figure:
    """The last frame, with lines between the groups of clients."""
    figure, axes = canvas.sheet(4, 3.6)
    values = found.values[-1]
    known = values[np.isfinite(values)]
    signed = bool((known < 0).any())
    bound = float(np.abs(known).max(initial=0)) or 1.0
    steps = colours.SCALE_SIGNED if signed else colours.SCALE
    image = axes.imshow(values, cmap=canvas.ramp(steps), vmin=-bound if signed else 0, vmax=bound)
    canvas.ticks(axes, found.names, "x")
    canvas.ticks(axes, found.names, "y")
    for edge in found.edges:
        axes.axvline(edge, color="#1f2933", linewidth=0.8)
        axes.axhline(edge, color="#1f2933", linewidth=0.8)
    axes.set(xlabel=sender, ylabel=to)
    axes.set_title(title, fontsize=8)
    figure.colorbar(image, ax=axes, label=unit, shrink=0.85)
    return figure


def labels(names: Sequence[str], classes: Sequence[str], by_split: Mapping[str, np.ndarray]) -> Figure:
    """Samples of each class at each client, a panel a split."""
    figure, _ = canvas.sheet(4.5, (0.8 + 0.2 * len(classes)) * len(by_split) + 0.6, axes=False)
    panels = np.atleast_1d(figure.subplots(len(by_split), 1, sharex=True))
    for axes, (split, counts) in zip(panels, by_split.items(), strict=True):
        image = axes.imshow(
            counts, cmap=canvas.ramp(colours.SCALE), vmin=0, vmax=max(1, counts.max()), aspect="auto"
        )
        canvas.ticks(axes, classes, "y")
        axes.set(ylabel="class", title=f"{split} samples")
        figure.colorbar(image, ax=axes)
    canvas.ticks(panels[-1], names, "x")
    return figure


def sizes(record: Record) -> Figure:
    """Samples of each client by split."""
    figure, axes = canvas.sheet(4.5, 2.4)
    by_split = dict(zip(("train", "validation", "test"), colours.SPLITS, strict=True))
    below = np.zeros(len(record.clients))
    for split, counts in views.sizes(record).items():
        axes.bar(np.arange(len(counts)), counts, 0.8, bottom=below, color=by_split[split], label=split)
        below += counts
    canvas.ticks(axes, record.clients, "x")
    axes.set_ylabel("samples")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=7)
    return figure
