"""A sweep over options: a frame with each of them as a column, and the metric drawn against each number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.core.errors import CoterieError
from coterie.report import kinds, page_figures, views, words
from coterie.report.inks import Ink
from coterie.report.plotly_data import plain, within
from coterie.report.tables import clients_frame
from coterie.runs.record import Record
from coterie.runs.sweeps import options_in, spec_of

if TYPE_CHECKING:
    import pandas as pd

WIDE = 20  # from the lowest to the highest value, times: then the axis is logarithmic


def sweep_frame(records: Sequence[Record]) -> pd.DataFrame:
    """The rows of `clients_frame`, with `name` of the method and its options after the label."""
    frame = clients_frame(records)
    told = {label: options_of(label) for label in views.groups(records)}
    frame.insert(1, "name", [label.partition(":")[0] for label in frame["label"]])
    for place, option in enumerate(dict.fromkeys(o for options in told.values() for o in options)):
        frame.insert(2 + place, option, [told[label].get(option) for label in frame["label"]])
    return frame


def options_of(label: str) -> dict[str, Any]:
    """Those that a label names; none where it is no spec but a name that somebody gave."""
    try:
        return options_in(label)
    except CoterieError:
        return {}


class Line(NamedTuple):
    """A method whose runs differ in one option alone: its values, in order, and the label of each."""

    name: str
    values: list[float]
    labels: list[str]


def swept(labels: Sequence[str]) -> dict[str, list[Line]]:
    """By option, the lines that can be drawn against it: two values or more, all of them numbers."""
    found: dict[str, dict[str, dict[float, str]]] = {}
    for label in labels:
        options = options_of(label)
        for option, value in options.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            rest = {o: str(v) for o, v in options.items() if o != option}
            line = spec_of(label.partition(":")[0], rest)
            found.setdefault(option, {}).setdefault(line, {})[value] = label
    lines = {
        option: [
            Line(name, sorted(points), [points[v] for v in sorted(points)])
            for name, points in by_line.items()
            if len(points) > 1
        ]
        for option, by_line in found.items()
    }
    return {option: drawn for option, drawn in lines.items() if drawn}


def part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where no option has several numbers."""
    lines = swept(list(by_label))
    records = [r for runs in by_label.values() for r in runs]
    metric = views.headline_metric(records)
    if not lines or not any(views.has_figures(r, metric) for r in records):
        return ""
    said = "The mean over clients in the end, against the value of one option, the others as the line's name"
    said += " says. These are test figures: a value chosen by them looks better than it is; coterie tune"
    said += " chooses without test rows."
    if any(len(runs) > 1 for runs in by_label.values()):
        said += f" Mean over seeds; the thin lines are 95 % intervals {kinds.over(records)}."
    choices = [_choice(o, found, by_label, colours, metric) for o, found in lines.items()]
    return page_figures.figure(key, {"choices": choices}, said)


def _choice(
    option: str, lines: Sequence[Line], by_label: views.Groups, colours: Mapping[str, Ink], metric: str
) -> dict[str, Any]:
    data = []
    for line in lines:
        found = [views.over_seeds(by_label[label], metric) for label in line.labels]
        times, ink = words.factor(metric), colours[line.labels[0]]
        drawn = [(v, f) for v, f in zip(line.values, found, strict=True) if math.isfinite(f.mean)]
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(line.name),
            "x": [v for v, _ in drawn],
            "y": [times * f.mean for _, f in drawn],
            "line": {"color": ink.colour, "dash": ink.dash},
            "marker": {"symbol": ink.mark, "color": ink.colour},
            "customdata": [f"{plain(line.name)}: {words.spread(f, metric)}" for _, f in drawn],
            "hovertemplate": f"{plain(option)} %{{x}}: %{{customdata}}<extra></extra>",
        }
        if all(math.isfinite(f.half) for _, f in drawn):
            trace["error_y"] = {"type": "data", "array": [times * f.half for _, f in drawn], "thickness": 1}
        data.append(trace)
    values = [v for line in lines for v in line.values]
    axis: dict[str, Any] = {"title": {"text": plain(option)}}
    if min(values) > 0 and max(values) / min(values) >= WIDE:
        axis["type"] = "log"
    layout = {"xaxis": axis, "yaxis": {"title": {"text": words.unit(metric)}, **within(metric)}}
    return {"name": option, "data": data, "layout": layout | {"hovermode": "closest", "showlegend": True}}
