"""Metrics and measures round by round, a line a method with its band; and the metric
against each number of an option that was swept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.core.errors import CoterieError
from coterie.metrics.table import COLLABORATION
from coterie.report import summary
from coterie.runs.compare import options_in
from coterie.runs.sweeps import spec_of
from coterie.show import intervals, numbers, plotly, views
from coterie.show.blocks import Block, Plot
from coterie.show.inks import Ink
from coterie.show.parts import Runs
from coterie.show.plotly import plain, within
from coterie.show.words import said, sentences

WIDE = 20  # from the lowest to the highest value, times: then the axis is logarithmic


def rounds_part(runs: Runs) -> list[Block]:
    text = sentences(_lines(runs.by_label), said("rounds.zero"))
    return [Plot(f"{runs.key}-rounds", curves_plot(runs.by_label, runs.inks), text)]


def measures_part(runs: Runs) -> list[Block]:
    """Nothing where nothing was measured, or all had one model and no group."""
    records = runs.records
    if not any(np.nansum(views.figures(r, m, views.MEASURED)[1]) for r in records for m in COLLABORATION):
        return []
    text = sentences(
        _lines(runs.by_label, over_clients=False), summary.measures_legend(records), said("measures.last")
    )
    plot = Plot(f"{runs.key}-measures", measures_plot(runs.by_label, runs.inks), text)
    return [plot, runs.table(*summary.measured_cells(records))]


def _lines(by_label: views.Groups, over_clients: bool = True) -> str:
    """How to read lines and shades; with one seed, there may be a shade over clients."""
    parts: list[str] = [said("rounds.lines")]
    if views.band_kind(by_label) == "seeds":
        single = [label for label, runs in by_label.items() if len(runs) == 1]
        over = intervals.over([r for runs in by_label.values() for r in runs])
        parts = [said("rounds.lines_seeds", over=over)]
        parts += [said("rounds.single", methods=single)] if single else []
    elif over_clients:
        parts.append(said("rounds.shade"))
    most = max(len(r.metrics) for runs in by_label.values() for r in runs)
    if most > plotly.POINTS:
        parts.append(said("rounds.thinned", n=plotly.POINTS))
    return sentences(*parts)


def curves_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly.Plot:
    """Metric by round, a line a method with its band; every model, split and metric there is."""
    records = [r for runs in by_label.values() for r in runs]
    wanted: list[tuple[str, str, str]] = []
    for scores, owner in (
        (views.OWN, "scores.test"),
        ("shared/test", "scores.shared"),
        ("point/test", "scores.point"),
        ("own/validation", "scores.validation"),
    ):
        for metric in views.metrics_to_show(records, scores):
            wanted.append((scores, metric, said(owner, metric=numbers.called(metric))))
    if any(views.has_figures(r, "loss", views.TRAIN) for r in records):
        wanted.append((views.TRAIN, "loss", said("scores.training")))
    return {"choices": _curves(by_label, inks, wanted, views.band_kind(by_label))}


def measures_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly.Plot:
    """The same of what was measured of collaboration; with one seed without a band.

    Of clients that pick one other, half may have a precision of 0 and half of 1: a middle half says nothing.
    """
    records = [r for runs in by_label.values() for r in runs]
    measured = views.metrics(records, views.MEASURED)
    wanted = [(views.MEASURED, m, numbers.label(m)) for m in measured]
    return {"choices": _curves(by_label, inks, wanted, "seeds")}


def _curves(
    by_label: views.Groups, inks: Mapping[str, Ink], wanted: Sequence[tuple[str, str, str]], band: views.Band
) -> list[dict[str, Any]]:
    """A choice for each (scores, metric, name)."""
    few, choices = len(by_label) <= 6, []
    for scores, metric, name in wanted:
        data: list[dict[str, Any]] = []
        for label, runs in by_label.items():
            curve = views.curve(label, runs, band, metric, scores)
            if curve.rounds:
                data += plotly.curve_traces(curve, inks[label], metric)
                data[-1]["hovertemplate"] = "%{customdata}" if few else said("plot.at_round_far")
        title = said("plot.percent", name=name) if numbers.in_percent(metric) else name
        layout: dict[str, Any] = {
            "xaxis": {
                "title": {"text": said("plot.round")},
                "unifiedhovertitle": {"text": said("plot.at_round")},
            },
            "yaxis": {"title": {"text": title}, **plotly.within(metric)},
        }
        layout["hovermode"] = "x unified" if few else "closest"
        if max((trace["x"][-1] for trace in data), default=0) <= 10:
            layout["xaxis"]["dtick"] = 1  # there is no half a round
        choices.append({"name": name, "data": data, "layout": layout})
    return choices


def label_options(label: str) -> dict[str, Any]:
    """Those that a label names; none where it is no spec but a name that somebody gave."""
    try:
        return options_in(label)
    except CoterieError:
        return {}


class _Line(NamedTuple):
    """A method whose runs differ in one option alone: its values, in order, and the label of each."""

    name: str
    values: list[float]
    labels: list[str]


def swept(labels: Sequence[str]) -> dict[str, list[_Line]]:
    """By option, the lines that can be drawn against it: two values or more, all of them numbers."""
    found: dict[str, dict[str, dict[float, str]]] = {}
    for label in labels:
        options = label_options(label)
        for option, value in options.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            line = spec_of(label.partition(":")[0], {o: str(v) for o, v in options.items() if o != option})
            found.setdefault(option, {}).setdefault(line, {})[value] = label
    lines = {
        option: [
            _Line(name, sorted(points), [points[v] for v in sorted(points)])
            for name, points in by_line.items()
            if len(points) > 1
        ]
        for option, by_line in found.items()
    }
    return {option: drawn for option, drawn in lines.items() if drawn}


def sweep_part(runs: Runs) -> list[Block]:
    """Nothing where no option has several numbers."""
    lines, metric = swept(list(runs.by_label)), views.headline_metric(runs.records)
    if not lines or not any(views.has_figures(r, metric) for r in runs.records):
        return []
    text = [said("sweep.said")]
    if runs.several_seeds:
        text.append(said("clients.seeds", over=intervals.over(runs.records)))
    choices = [_choice(o, found, runs.by_label, runs.inks, metric) for o, found in lines.items()]
    return [Plot(f"{runs.key}-sweep", {"choices": choices}, sentences(*text))]


def _choice(
    option: str, lines: Sequence[_Line], by_label: views.Groups, colours: Mapping[str, Ink], metric: str
) -> dict[str, Any]:
    data = []
    for line in lines:
        found = [views.over_seeds(by_label[label], metric) for label in line.labels]
        times, ink = numbers.factor(metric), colours[line.labels[0]]
        drawn = [(v, f) for v, f in zip(line.values, found, strict=True) if math.isfinite(f.mean)]
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(line.name),
            "x": [v for v, _ in drawn],
            "y": [times * f.mean for _, f in drawn],
            "line": {"color": ink.colour, "dash": ink.dash},
            "marker": {"symbol": ink.mark, "color": ink.colour},
            "customdata": [f"{plain(line.name)}: {numbers.spread(f, metric)}" for _, f in drawn],
            "hovertemplate": f"{plain(option)} %{{x}}: %{{customdata}}<extra></extra>",
        }
        if all(math.isfinite(f.half) for _, f in drawn):
            trace["error_y"] = {"type": "data", "array": [times * f.half for _, f in drawn], "thickness": 1}
        data.append(trace)
    values = [v for line in lines for v in line.values]
    axis: dict[str, Any] = {"title": {"text": plain(option)}}
    if min(values) > 0 and max(values) / min(values) >= WIDE:
        axis["type"] = "log"
    layout = {"xaxis": axis, "yaxis": {"title": {"text": numbers.unit(metric)}, **within(metric)}}
    return {"name": option, "data": data, "layout": layout | {"hovermode": "closest", "showlegend": True}}
