"""The page's figures as data for plotly.js: plain dictionaries, numbers rounded, names made safe.

A plot is {"choices": [{"name", "data", "layout"}]}: the page offers the choices in a menu. One that is
large travels as packed numbers instead, see `pack`, with a "kind" that says which part of page.js draws it.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coterie.report import inks as colours
from coterie.report import views, words
from coterie.report.inks import Ink
from coterie.runs.record import Record

Plot = dict[str, Any]

POINTS = 300  # of a curve
BARS = 30  # clients that are drawn as bars; more are dots


def tidy(values: Iterable[float]) -> list[float | None]:
    """Four significant digits; null where there is no number."""
    return [float(f"{v:.4g}") if math.isfinite(v) else None for v in values]


def one_line(name: str) -> str:
    return " ".join(str(name).split())


def plain(name: str) -> str:
    """A name that plotly shows as it is, tags and all."""
    return html.escape(one_line(name), quote=False)


def ticks(names: Sequence[str], limit: int = 18) -> list[str]:
    """Names short enough for an axis, if they stay apart."""
    short = [n if len(n) <= limit else f"{n[: limit - 6]}…{n[-5:]}" for n in names]
    return [plain(n) for n in (short if len(set(short)) == len(names) else names)]


def curves_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> Plot:
    """Metric by round, a line a method with its band; every model, split and metric there is."""
    return {"choices": _curves(by_label, inks, _curve_choices(by_label), views.band_kind(by_label))}


def measures_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> Plot:
    """The same of what was measured of collaboration; with one seed without a band.

    Of clients that pick one other, half may have a precision of 0 and half of 1: a middle half says nothing.
    """
    records = [r for runs in by_label.values() for r in runs]
    measured = views.metrics(records, views.MEASURED)
    wanted = [(views.MEASURED, m, words.label(m)) for m in measured]
    return {"choices": _curves(by_label, inks, wanted, "seeds")}


def _curves(
    by_label: views.Groups,
    inks: Mapping[str, Ink],
    wanted: Sequence[tuple[str, str, str]],
    band: views.Band,
) -> list[dict[str, Any]]:
    """A choice for each (scores, metric, name)."""
    few, choices = len(by_label) <= 6, []
    for scores, metric, name in wanted:
        data: list[dict[str, Any]] = []
        for label, runs in by_label.items():
            curve = views.curve(label, runs, band, metric, scores)
            if curve.rounds:
                data += curve_traces(curve, inks[label], metric)
                data[-1]["hovertemplate"] = "%{customdata}" if few else "round %{x}: %{customdata}"
        title = f"{name}, %" if words.in_percent(metric) else name
        layout: dict[str, Any] = {
            "xaxis": {"title": {"text": "round"}, "unifiedhovertitle": {"text": "round %{x}"}},
            "yaxis": {"title": {"text": title}, **within(metric)},
        }
        layout["hovermode"] = "x unified" if few else "closest"
        if max((trace["x"][-1] for trace in data), default=0) <= 10:
            layout["xaxis"]["dtick"] = 1  # there is no half a round
        choices.append({"name": name, "data": data, "layout": layout})
    return choices


def _curve_choices(by_label: views.Groups) -> list[tuple[str, str, str]]:
    records = [r for runs in by_label.values() for r in runs]
    found = []
    for scores, owner in (
        (views.OWN, "test {}"),
        ("shared/test", "test {} of the shared model"),
        ("point/test", "test {} of the one model that stands for several"),
        ("own/validation", "validation {}"),
    ):
        found += [(scores, m, owner.format(words.called(m))) for m in views.shown(records, scores)]
    if any(views.has_figures(r, "loss", views.TRAIN) for r in records):
        found.append((views.TRAIN, "loss", "training loss"))
    return found


def curve_traces(curve: views.Curve, ink: Ink, metric: str) -> list[dict[str, Any]]:
    keep = views.thin(range(len(curve.rounds)), POINTS)
    rounds, seeds = [curve.rounds[i] for i in keep], [curve.seeds[i] for i in keep]
    mean, low, high = (v[keep] for v in (curve.mean, curve.low, curve.high))
    inside = [i for i in range(len(keep)) if math.isfinite(low[i]) and math.isfinite(high[i])]
    factor = words.factor(metric)
    shared = {"legendgroup": curve.label, "type": "scatter", "mode": "lines"}
    traces: list[dict[str, Any]] = []
    if inside:
        edge = shared | {"x": [rounds[i] for i in inside], "showlegend": False, "hoverinfo": "skip"}
        edge["line"] = {"width": 0, "color": ink.colour}
        traces.append(edge | {"y": tidy(factor * low[inside])})
        traces.append(
            edge | {"y": tidy(factor * high[inside]), "fill": "tonexty", "fillcolor": ink.shade(0.16)}
        )
    said = [words.figure(m, metric) for m in mean]
    for i in inside:
        many = f", {seeds[i]} seeds" if seeds[i] > 1 else ""
        said[i] += f" ({words.figure(low[i], metric)} to {words.figure(high[i], metric)}{many})"
    line = shared | {"x": rounds, "y": tidy(factor * mean), "name": plain(curve.label), "customdata": said}
    line["line"] = {"color": ink.colour, "width": 2.2, "dash": ink.dash}
    if len(rounds) == 1:
        line |= {"mode": "markers", "marker": {"color": ink.colour, "size": 9}}
    return [*traces, line]


def clients_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> Plot:
    """Each client's final figure by method, and its gain over local."""
    records = [r for runs in by_label.values() for r in runs]
    names, alone = ticks(records[0].clients), views.baseline(by_label)
    main = views.headline_metric(records)
    choices = []
    for metric in views.shown(records):
        drawn = [views.bars(label, runs, metric) for label, runs in by_label.items()]
        choices.append(_by_client(f"test {words.called(metric)}", metric, names, drawn, inks))
    others = [(label, runs) for label, runs in by_label.items() if label != alone]
    if alone is not None and others and choices:
        drawn = [views.gain_bars(label, runs, by_label[alone], main) for label, runs in others]
        name = f"gain over {alone} in test {words.label(main)}"
        choices.insert(1, _by_client(name, main, names, drawn, inks, signed=True))
    many = len(names) > BARS
    return {"choices": choices, "least": 0 if many else 90 + 5 * len(names) * len(by_label)}


def _by_client(
    name: str,
    metric: str,
    names: Sequence[str],
    drawn: Sequence[views.Bars],
    inks: Mapping[str, Ink],
    signed: bool = False,
) -> dict[str, Any]:
    factor, data = words.factor(metric), []
    for bars in drawn:
        ink = inks[bars.label]
        trace: dict[str, Any] = {"x": list(names), "y": tidy(factor * bars.mean), "name": plain(bars.label)}
        trace["hovertemplate"] = "%{x}<br>%{fullData.name} %{customdata}<extra></extra>"
        trace["customdata"] = [
            words.figure(m, metric, signed)
            + (f" ± {words.figure(h, metric, like=m)}" if math.isfinite(h) else "")
            for m, h in zip(bars.mean, bars.half, strict=True)
        ]
        if np.isfinite(bars.half).any():
            width = (
                {"thickness": 1, "width": 2, "color": "#333"}
                if len(names) <= BARS
                else {"thickness": 0.7, "width": 0}
            )
            trace["error_y"] = {"type": "data", "array": tidy(factor * bars.half)} | width
        if len(names) <= BARS:
            trace |= {"type": "bar", "marker": {"color": ink.colour, "pattern": {"shape": ink.hatch}}}
        else:
            trace |= {"type": "scatter", "mode": "markers"}
            trace["marker"] = {"color": ink.colour, "symbol": ink.mark, "size": 6, "opacity": 0.85}
            if "error_y" in trace:
                trace["error_y"]["color"] = ink.shade(0.45)
        data.append(trace)
    unit = ", points" if signed and factor == 100 else ", %" if factor == 100 else ""
    layout = {
        "barmode": "group",
        "bargap": 0.25,
        "xaxis": {"type": "category"},
        "yaxis": {
            "title": {"text": f"{name}{unit}"},
            "zeroline": signed,
            **({} if signed else within(metric)),
        },
    }
    return {"name": name, "data": data, "layout": layout}


def within(metric: str) -> dict[str, Any]:
    """An axis that shows no more than what a share can be, however wide the intervals over two seeds are."""
    return {"autorangeoptions": {"clipmin": 0, "clipmax": 100}} if words.in_percent(metric) else {}


def ramp(steps: Sequence[str]) -> list[tuple[float, str]]:
    """Colours as plotly's scale from 0 to 1."""
    return [(i / (len(steps) - 1), colour) for i, colour in enumerate(steps)]


def pack(values: np.ndarray) -> dict[str, Any]:
    """Numbers as 16 bits each, from the least to the greatest; 0 is always within."""
    known = np.isfinite(values)
    low = min(0.0, float(values[known].min(initial=0)))
    high = max(0.0, float(values[known].max(initial=0)))
    steps = np.full(values.shape, 65535, dtype="<u2")
    steps[known] = np.round((values[known] - low) / ((high - low) or 1) * 65534)
    return {"low": low, "high": high, "packed": base64.b64encode(steps.tobytes()).decode()}


def sizes_plot(record: Record) -> Plot:
    """Samples of each client by split."""
    names = ticks(record.clients)
    data = [
        {"type": "bar", "x": names, "y": counts, "name": split, "marker": {"color": colour}}
        for (split, counts), colour in zip(views.sizes(record).items(), _split_colours(record), strict=True)
    ]
    layout = {"barmode": "stack", "bargap": 0.2, "hovermode": "x unified", "xaxis": {"type": "category"}}
    return {
        "choices": [{"name": "", "data": data, "layout": layout | {"yaxis": {"title": {"text": "samples"}}}}]
    }


def _split_colours(record: Record) -> list[str]:
    by_split = dict(zip(("train", "validation", "test"), colours.SPLITS, strict=True))
    return [by_split[split] for split in views.sizes(record)]


def labels_plot(record: Record) -> Plot | None:
    """Counts of each class at each client, by split; None for a regression."""
    found = views.labels(record)
    if found is None:
        return None
    classes, by_split = found
    choices = []
    for split, counts in by_split.items():
        heat = {
            "type": "heatmap",
            "x": ticks(record.clients),
            "y": ticks(classes),
            "z": counts.tolist(),
            "zmin": 0,
            "zmax": max(1, int(counts.max(initial=0))),
            "colorscale": ramp(colours.SCALE),
            "xgap": 1 if len(record.clients) <= 60 else 0,
            "ygap": 1,
            "showscale": len(record.clients) > 15,
            "colorbar": {
                "orientation": "h",
                "y": 1.02,
                "yanchor": "bottom",
                "thickness": 10,
                "outlinewidth": 0,
            },
            "hovertemplate": "%{x}, class %{y}: %{z}<extra></extra>",
        }
        if not heat["showscale"]:
            heat["texttemplate"] = "%{z}"
        rows = {"type": "category", "title": {"text": "class"}, "autorange": "reversed"}
        choices.append(
            {
                "name": f"{split} samples",
                "data": [heat],
                "layout": {"xaxis": {"type": "category"}, "yaxis": rows},
            }
        )
    return {"choices": choices}
