"""The page's figures for a paper, as SVG or PNG with matplotlib: the same bytes each time they are drawn.

Some clients have figures of their own: round by round beside their matrices, and what their models weigh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coterie.core.errors import BadInput
from coterie.report import close_ups, matrices
from coterie.runs.record import Record
from coterie.show import figures, intervals, numbers, parts, views
from coterie.show import inks as colours
from coterie.show.blocks import Plot
from coterie.show.glossary import behind
from coterie.show.inks import ALONE, COLOURS, Ink, inks
from coterie.show.parts import Runs
from coterie.show.words import said, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
CLOSE = 4  # clients that get figures of their own
PANELS = 12  # classes side by side
GREY = "#9aa5b1"


def write_figures(
    folder: str | Path, records: Sequence[Record], format: Literal["svg", "png"] = "svg"
) -> list[Path]:
    """Writes rounds, clients, gains, calibration, measures, sizes, labels, matrices by method, and close-ups.

    Returns their paths.
    """
    if format not in ("svg", "png"):
        raise BadInput(f"format={format!r} is not known: choose svg or png")
    return figures.write(Path(folder), lambda: draw(records), format)


def draw(records: Sequence[Record]) -> dict[str, Figure]:
    """Figures by file name, without its ending."""
    by_label = views.groups(records)
    alone = views.baseline(by_label)
    ink = inks(list(by_label), alone)
    metric, first = views.headline_metric(records), next(iter(by_label.values()))[0]
    made: dict[str, Figure] = {}
    if views.metrics(records):
        made["rounds"] = _rounds(by_label, ink, metric)
        drawn = [views.bars(label, runs, metric) for label, runs in by_label.items()]
        title = say.again(said("scores.test", metric=numbers.unit(metric)))
        made["clients"] = _clients(first.clients, drawn, ink, metric, title)
        others = {label: runs for label, runs in by_label.items() if label != alone}
        if alone is not None and others:
            drawn = [views.gain_bars(x, runs, by_label[alone], metric) for x, runs in others.items()]
            unit = say("paper.points") if numbers.in_percent(metric) else say.metric(metric)
            title = say("paper.gain", alone=alone, unit=unit)
            made["gains"] = _clients(first.clients, drawn, ink, metric, title)
    for measure in views.metrics(records, views.MEASURED):
        made[measure.replace("_", "-")] = _rounds(by_label, ink, measure, views.MEASURED)
    for plot in parts.blocks("paper", Runs("", records)):
        if isinstance(plot, Plot) and plot.paper is not None:
            made[plot.key] = plot.paper()
    order = views.client_order(first)
    for label, runs in by_label.items():
        found = matrices.matrices(label, runs, order)
        if found is not None:
            title = say("paper.matrix", method=figures.plain(label), round=found.rounds[-1], seed=found.seed)
            texts = [say(f"matrix.{key}") for key in ("listens", "listened", "weight")]
            made[_unused(f"matrix-{_slug(label)}", made)] = _matrix(found, title, *texts)
        found = matrices.collected(label, runs, order)
        if found is not None:
            title = say(
                "paper.collected", method=figures.plain(label), rounds=found.of_rounds, seed=found.seed
            )
            texts = [say(f"collected.{key}") for key in ("collects", "from", "rounds")]
            made[_unused(f"collected-{_slug(label)}", made)] = _matrix(found, title, *texts)
    for name, figure in _close_ups(by_label, ink).items():
        made[_unused(name, made)] = figure
    counted = views.labels(first)
    made["sizes"] = _sizes(first)
    if counted is not None:
        made["labels"] = _labels(first.clients, *counted)
    return made


def _rounds(by_label: views.Groups, ink: Mapping[str, Ink], metric: str, scores: str = views.OWN) -> Figure:
    """Metric by round: lines and bands as on the page."""
    figure, axes = figures.sheet(4.5, 3)
    kind, factor = views.band_kind(by_label), numbers.factor(metric)
    band = kind if scores == views.OWN else "seeds"
    for label, runs in by_label.items():
        curve, look = views.curve(label, runs, band, metric, scores), ink[label]
        if np.isfinite(curve.low).any():
            low, high = factor * curve.low, factor * curve.high
            axes.fill_between(curve.rounds, low, high, color=look.colour, alpha=0.16, linewidth=0)
        style = {"color": look.colour, "linestyle": figures.DASHES[look.dash], "label": figures.plain(label)}
        style["marker"] = "o" if len(curve.rounds) == 1 else ""
        axes.plot(curve.rounds, factor * curve.mean, linewidth=1.5, **style)
    unit = numbers.unit(metric)
    unit = said("scores.test", metric=unit) if scores == views.OWN else unit
    axes.set(xlabel=say("plot.round"), ylabel=say.again(unit))
    axes.xaxis.get_major_locator().set_params(integer=True)
    over = intervals.over([r for runs in by_label.values() for r in runs])
    shade = said("rounds.on_paper.clients")
    if band == "seeds":
        shade = said("rounds.on_paper.seeds", over=over)
    if band == kind:
        axes.set_title(say.again(shade), fontsize=7, loc="left", color="#52606d")
    axes.legend(fontsize=7, ncols=2 if len(by_label) > 4 else 1)
    return figure


def _clients(
    names: Sequence[str], drawn: Sequence[views.Bars], ink: Mapping[str, Ink], metric: str, title: str
) -> Figure:
    """Bars, or dots for many clients; thin lines are intervals over seeds."""
    figure, axes = figures.sheet(min(7.5, max(4.5, 0.12 * len(names) * len(drawn))), 3)
    factor, places = numbers.factor(metric), np.arange(len(names))
    width = 0.8 / len(drawn)
    for i, bars in enumerate(drawn):
        look, half = ink[bars.label], factor * bars.half
        error = half if np.isfinite(half).any() else None
        if len(names) <= BARS:
            at = places + (i - (len(drawn) - 1) / 2) * width
            axes.bar(
                at, factor * bars.mean, width, yerr=error, color=look.colour, hatch=look.hatch * 3,
                edgecolor="white", linewidth=0, label=figures.plain(bars.label),
                error_kw={"elinewidth": 0.7},
            )  # fmt: skip
        else:
            axes.errorbar(
                places, factor * bars.mean, error, fmt=MARKS[look.mark], markersize=3, elinewidth=0.4,
                markerfacecolor="none" if look.mark.endswith("open") else look.colour,
                color=look.colour, label=figures.plain(bars.label)
            )  # fmt: skip
    figures.ticks(axes, names, "x")
    axes.set(ylabel=title, xlim=(-0.6, len(names) - 0.4))
    if len(names) <= BARS or any((bars.mean < 0).any() for bars in drawn):
        axes.axhline(0, color="#333333", linewidth=0.6)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=4, fontsize=7)
    return figure


def _matrix(found: matrices.Matrices, title: str, to: str, sender: str, unit: str) -> Figure:
    """The last frame, with lines between the groups of clients."""
    figure, axes = figures.sheet(4, 3.6)
    values = found.values[-1]
    known = values[np.isfinite(values)]
    signed = bool((known < 0).any())
    bound = float(np.abs(known).max(initial=0)) or 1.0
    steps = colours.SCALE_SIGNED if signed else colours.SCALE
    image = axes.imshow(values, cmap=figures.ramp(steps), vmin=-bound if signed else 0, vmax=bound)
    figures.ticks(axes, found.names, "x")
    figures.ticks(axes, found.names, "y")
    for edge in found.edges:
        axes.axvline(edge, color="#1f2933", linewidth=0.8)
        axes.axhline(edge, color="#1f2933", linewidth=0.8)
    axes.set(xlabel=sender, ylabel=to)
    axes.set_title(title, fontsize=8)
    figure.colorbar(image, ax=axes, label=unit, shrink=0.85)
    return figure


def _labels(names: Sequence[str], classes: Sequence[str], by_split: Mapping[str, np.ndarray]) -> Figure:
    """Samples of each class at each client, a panel a split."""
    figure, _ = figures.sheet(4.5, (0.8 + 0.2 * len(classes)) * len(by_split) + 0.6, axes=False)
    panels = np.atleast_1d(figure.subplots(len(by_split), 1, sharex=True))
    for axes, (split, counts) in zip(panels, by_split.items(), strict=True):
        image = axes.imshow(
            counts, cmap=figures.ramp(colours.SCALE), vmin=0, vmax=max(1, counts.max()), aspect="auto"
        )
        figures.ticks(axes, classes, "y")
        axes.set(ylabel=say("plot.class"), title=say(f"plot.of_split.{split}"))
        figure.colorbar(image, ax=axes)
    figures.ticks(panels[-1], names, "x")
    return figure


def _sizes(record: Record) -> Figure:
    """Samples of each client by split."""
    figure, axes = figures.sheet(4.5, 2.4)
    below = np.zeros(len(record.clients))
    for split, counts in views.sizes(record).items():
        style = {"color": colours.SPLITS[split], "label": say(f"split.{split}")}
        axes.bar(np.arange(len(counts)), counts, 0.8, bottom=below, **style)
        below += counts
    figures.ticks(axes, record.clients, "x")
    axes.set_ylabel(say("plot.samples"))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=7)
    return figure


def _close_ups(by_label: views.Groups, ink: Mapping[str, Ink]) -> dict[str, Figure]:
    """Figures by file name; a title says so where only some of the clients have one."""
    found = close_ups.traces(by_label, receivers=CLOSE)
    made: dict[str, Figure] = {}
    for label in dict.fromkeys(t.label for t in found):
        mine = [t for t in found if t.label == label]
        for client in dict.fromkeys(c for t in mine for c in t.receivers):
            name = f"traces-{_slug(label)}-{_slug(mine[0].record.clients[client])}"
            shown = [t for t in mine if client in t.receivers]
            made[_unused(name, made)] = _traced(shown, client, by_label, ink)
    weighed = close_ups.weighed(by_label)
    if weighed is not None:
        for i in views.thin(range(len(weighed.clients)), CLOSE):
            name = f"features-{_slug(weighed.clients[i])}"
            made[_unused(name, made)] = _parameter_bars(weighed, i, ink)
    return made


def _traced(
    shown: Sequence[close_ups.Trace], client: int, by_label: views.Groups, ink: Mapping[str, Ink]
) -> Figure:
    """A panel of scores, and one for each matrix below it."""
    first, record = shown[0], shown[0].record
    figure, _ = figures.sheet(5.5, 1.2 + 1.7 * (1 + len(shown)), axes=False)
    panels = figure.subplots(1 + len(shown), 1, sharex=True)
    metric = views.headline_metric([record])
    factor = numbers.factor(metric)
    for label, rounds, values in close_ups.scores(by_label, views.seed(record), metric):
        style = {"color": ink[label].colour, "linestyle": figures.DASHES[ink[label].dash]}
        style["label"] = figures.plain(label)
        panels[0].plot(rounds, factor * values[:, client], linewidth=1.4, **style)
    always = close_ups.commonest(record) if metric == "accuracy" else None
    if always is not None:
        panels[0].axhline(
            factor * always[client], color=GREY, linestyle=":", linewidth=1, label=say("traces.commonest")
        )
    panels[0].set_ylabel(say.again(said("scores.test", metric=numbers.unit(metric))))
    _legend(panels[0])
    for axes, trace in zip(panels[1:], shown, strict=True):
        for values, name, style in _lines(trace, client):
            axes.plot(trace.rounds, values, label=name, **style)
        axes.set_ylabel(figures.plain(say.again(behind(trace.name))))
        axes.axhline(0, color=GREY, linewidth=0.6)
    _legend(panels[1])
    panels[-1].set_xlabel(say("plot.round"))
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    names = {"client": figures.plain(record.clients[client]), "method": figures.plain(first.label)}
    title = said("paper.trace", **names, seed=views.seed(record))
    some = len(first.receivers)
    if some < first.of_receivers:
        limits = said("traces.some.clients", n=some, of=first.of_receivers)
        title = said("paper.drawn", title=title, limits=limits)
    panels[0].set_title(say.again(title), fontsize=8, loc="left")
    return figure


def _lines(trace: close_ups.Trace, client: int) -> Iterator[tuple[np.ndarray, str, dict[str, Any]]]:
    """A client's row as lines: values by round, the name in the legend ("" for none), and how to draw it."""
    names, groups = trace.record.clients, close_ups.groups(trace.record)
    i, many = trace.receivers.index(client), len(trace.senders) > close_ups.FEW
    own_ink = inks([str(s) for s in trace.senders])
    levels, told = sorted(set(groups or ())), set[str]()
    for s, sender in enumerate(trace.senders):
        values = trace.values[:, i, s]
        if sender == client:
            if close_ups.has_own_line(trace, i):
                style = {
                    "color": ALONE,
                    "linestyle": "--",
                    "linewidth": 1.2,
                    "marker": "o",
                    "markersize": 1.5,
                }
                yield values, say("paper.itself", name=figures.plain(names[sender])), style
        elif not np.isfinite(values).any():
            continue
        elif many:
            colour = COLOURS[levels.index(groups[sender])] if groups else COLOURS[0]
            name = say("paper.group", n=groups[sender]) if groups else say("paper.others")
            yield values, "" if name in told else name, {"color": colour, "linewidth": 0.5, "alpha": 0.6}
            told.add(name)
        else:
            look = own_ink[str(sender)]
            style = {"color": look.colour, "linestyle": figures.DASHES[look.dash], "linewidth": 1.1}
            style |= {"marker": "o", "markersize": 1.5}
            yield values, figures.plain(names[sender]), style


def _parameter_bars(found: close_ups.Weighed, client: int, ink: Mapping[str, Ink]) -> Figure:
    """Parameters by feature, a group of bars for each, a panel for each class if there are more than two."""
    outputs = views.thin(range(len(found.outputs)), PANELS)
    spreads = {label: close_ups.spread(v)[:, client] for label, v in found.values.items()}
    rows = close_ups.largest(np.stack([s[0][outputs] for s in spreads.values()]))
    width, places = 0.8 / len(spreads), np.arange(len(rows))
    columns = min(4, len(outputs))
    deep = -(-len(outputs) // columns)
    tall = 0.9 + len(rows) * (0.08 + 0.07 * len(spreads))
    figure, _ = figures.sheet(max(4.5, 1.2 + 2.2 * columns), 0.4 + tall * deep, axes=False)
    panels = figure.subplots(deep, columns, sharey=True, squeeze=False).flatten()
    for axes, output in zip(panels, outputs, strict=False):
        for k, (label, stats) in enumerate(spreads.items()):
            mean, look = stats[0][output][rows], ink[label]
            ends = [mean - stats[1][output][rows], stats[2][output][rows] - mean] if len(stats) == 3 else None
            axes.barh(
                places + (k - (len(spreads) - 1) / 2) * width, mean, width, xerr=ends,
                color=look.colour, hatch=look.hatch * 3, edgecolor="white", linewidth=0,
                label=figures.plain(label), error_kw={"elinewidth": 0.7}
            )  # fmt: skip
        axes.axvline(0, color="#333333", linewidth=0.6)
        of = found.outputs[output]
        axes.set_xlabel(say("paper.class", name=of) if len(found.outputs) > 1 else say.again(of))
        axes.margins(y=0.01)
        axes.set_yticks(places, [figures.plain(found.features[f]) for f in rows], fontsize=7)
    panels[0].invert_yaxis()
    for axes in panels[len(outputs) :]:
        axes.set_visible(False)
    seeds = max(len(v) for v in found.values.values())
    title = _title(found, client, len(rows), len(outputs))
    title = said("paper.range", title=title, n=seeds) if seeds > 1 else title
    figure.suptitle(say.again(title), fontsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=7)
    return figure


def _title(found: close_ups.Weighed, client: int, rows: int, outputs: int) -> str:
    counts = {
        "traces.some.clients": (min(CLOSE, len(found.clients)), len(found.clients)),
        "paper.some.parameters": (rows, len(found.features)),
        "paper.some.classes": (outputs, len(found.outputs)),
    }
    limits = [said(key, n=some, of=of) for key, (some, of) in counts.items() if some < of]
    name = figures.plain(found.clients[client])
    return said("paper.drawn", title=name, limits=limits) if limits else name


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-").lower() or "method"


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    tries = (name if i == 1 else f"{name}-{i}" for i in range(1, len(taken) + 2))
    return next(t for t in tries if t not in taken)
