"""Figures as data for plotly.js: plain dictionaries, numbers rounded, names made safe.

A plot is {"choices": [{"name", "data", "layout"}]}: the page offers the choices in a menu. One that is
large travels as packed numbers instead, see `pack`, with a "kind" by which figures.js draws it.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from coterie.show import numbers, views
from coterie.show.inks import Ink
from coterie.show.words import said

Plot = dict[str, Any]

POINTS = 300  # of a curve


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


def curve_traces(curve: views.Curve, ink: Ink, metric: str) -> list[dict[str, Any]]:
    keep = views.thin(range(len(curve.rounds)), POINTS)
    rounds, seeds = [curve.rounds[i] for i in keep], [curve.seeds[i] for i in keep]
    mean, low, high = (v[keep] for v in (curve.mean, curve.low, curve.high))
    inside = [i for i in range(len(keep)) if math.isfinite(low[i]) and math.isfinite(high[i])]
    factor = numbers.factor(metric)
    shared = {"legendgroup": curve.label, "type": "scatter", "mode": "lines"}
    traces: list[dict[str, Any]] = []
    if inside:
        edge = shared | {"x": [rounds[i] for i in inside], "showlegend": False, "hoverinfo": "skip"}
        edge["line"] = {"width": 0, "color": ink.colour}
        filled = {"fill": "tonexty", "fillcolor": ink.shade(0.16)}
        traces = [
            edge | {"y": tidy(factor * low[inside])},
            edge | {"y": tidy(factor * high[inside])} | filled,
        ]
    told: list[str] = [numbers.figure(m, metric) for m in mean]
    for i in inside:
        ends: dict[str, Any] = {
            "low": numbers.figure(low[i], metric),
            "high": numbers.figure(high[i], metric),
        }
        ends |= {"n": seeds[i]} if seeds[i] > 1 else {}
        told[i] = said("plot.band_seeds" if seeds[i] > 1 else "plot.band", mean=told[i], **ends)
    line = shared | {"x": rounds, "y": tidy(factor * mean), "name": plain(curve.label), "customdata": told}
    line["line"] = {"color": ink.colour, "width": 2.2, "dash": ink.dash}
    if len(rounds) == 1:
        line |= {"mode": "markers", "marker": {"color": ink.colour, "size": 9}}
    return [*traces, line]


def within(metric: str) -> dict[str, Any]:
    """An axis that shows no more than what a share can be, however wide the intervals over two seeds are."""
    return {"autorangeoptions": {"clipmin": 0, "clipmax": 100}} if numbers.in_percent(metric) else {}


def hover(text: str) -> str:
    """What is shown over a point, without the trace's name beside it."""
    return said("list.joined", one=text, other="<extra></extra>")


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
