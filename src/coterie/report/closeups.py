"""Some clients close up, for a paper: round by round beside their matrices, and what their models weigh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.report import canvas, features, traces, views, words
from coterie.report.glossary import behind
from coterie.report.inks import ALONE, COLOURS, Ink, inks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLIENTS = 4  # that get figures of their own
PANELS = 12  # classes side by side
GREY = "#9aa5b1"


def draw(by_label: views.Groups, ink: Mapping[str, Ink]) -> dict[str, Figure]:
    """Figures by file name; a title says so where only some of the clients have one."""
    found = traces.traces(by_label, receivers=CLIENTS)
    made: dict[str, Figure] = {}
    for label in dict.fromkeys(t.label for t in found):
        mine = [t for t in found if t.label == label]
        for client in dict.fromkeys(c for t in mine for c in t.receivers):
            name = f"traces-{canvas.slug(label)}-{canvas.slug(mine[0].record.clients[client])}"
            shown = [t for t in mine if client in t.receivers]
            made[canvas.unused(name, made)] = traced(shown, client, by_label, ink)
    weighed = features.weighed(by_label)
    if weighed is not None:
        for i in views.thin(range(len(weighed.clients)), CLIENTS):
            name = f"features-{canvas.slug(weighed.clients[i])}"
            made[canvas.unused(name, made)] = bars(weighed, i, ink)
    return made


def traced(
    shown: Sequence[traces.Trace], client: int, by_label: views.Groups, ink: Mapping[str, Ink]
) -> Figure:
    """A panel of scores, and one for each matrix below it."""
    first, record = shown[0], shown[0].record
    figure, _ = canvas.sheet(5.5, 1.2 + 1.7 * (1 + len(shown)), axes=False)
    panels = figure.subplots(1 + len(shown), 1, sharex=True)
    metric = views.headline_metric([record])
    factor = words.factor(metric)
    for score in traces.scores(by_label, views.seed(record), metric):
        look = ink[score.label]
        style = {
            "color": look.colour,
            "linestyle": canvas.DASHES[look.dash],
            "label": canvas.plain(score.label),
        }
        panels[0].plot(score.rounds, factor * score.values[:, client], linewidth=1.4, **style)
    always = traces.commonest(record) if metric == "accuracy" else None
    if always is not None:
        panels[0].axhline(
            factor * always[client],
            color=GREY,
            linestyle=":",
            linewidth=1,
            label="always its commonest class",
        )
    panels[0].set_ylabel(f"test {words.unit(metric)}")
    _legend(panels[0])
    for axes, trace in zip(panels[1:], shown, strict=True):
        for values, name, style in lines(trace, client):
            axes.plot(trace.rounds, values, label=name, **style)
        axes.set_ylabel(canvas.plain(behind(trace.name)))
        axes.axhline(0, color=GREY, linewidth=0.6)
    _legend(panels[1])
    panels[-1].set_xlabel("round")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    said = f"{canvas.plain(record.clients[client])}, {canvas.plain(first.label)}, seed {views.seed(record)}"
    some = len(first.receivers)
    said += f" ({some} of {first.of_receivers} clients drawn)" if some < first.of_receivers else ""
    panels[0].set_title(said, fontsize=8, loc="left")
    return figure


def lines(trace: traces.Trace, client: int) -> Iterator[tuple[np.ndarray, str, dict[str, Any]]]:
    """A client's row as lines: values by round, the name in the legend ("" for none), and how to draw it."""
    names, groups = trace.record.clients, traces.groups(trace.record)
    i, many = trace.receivers.index(client), len(trace.senders) > traces.FEW
    own_ink = inks([str(s) for s in trace.senders])
    levels, told = sorted(set(groups or ())), set[str]()
    for s, sender in enumerate(trace.senders):
        values = trace.values[:, i, s]
        if sender == client:
            if traces.has_own_line(trace, i):
                style = {
                    "color": ALONE,
                    "linestyle": "--",
                    "linewidth": 1.2,
                    "marker": "o",
                    "markersize": 1.5,
                }
                yield values, f"{canvas.plain(names[sender])} (itself)", style
        elif not np.isfinite(values).any():
            continue
        elif many:
            colour = COLOURS[levels.index(groups[sender])] if groups else COLOURS[0]
            name = f"group {groups[sender]}" if groups else "others"
            yield values, "" if name in told else name, {"color": colour, "linewidth": 0.5, "alpha": 0.6}
            told.add(name)
        else:
            look = own_ink[str(sender)]
            style = {"color": look.colour, "linestyle": canvas.DASHES[look.dash], "linewidth": 1.1}
            style |= {"marker": "o", "markersize": 1.5}
            yield values, canvas.plain(names[sender]), style


def bars(found: features.Weighed, client: int, ink: Mapping[str, Ink]) -> Figure:
    """Parameters by feature, a group of bars for each, a panel for each class if there are more than two."""
    outputs = views.thin(range(len(found.outputs)), PANELS)
    spreads = {label: features.spread(v)[:, client] for label, v in found.values.items()}
    rows = features.largest(np.stack([s[0][outputs] for s in spreads.values()]))
    width, places = 0.8 / len(spreads), np.arange(len(rows))
    columns = min(4, len(outputs))
    deep = -(-len(outputs) // columns)
    tall = 0.9 + len(rows) * (0.08 + 0.07 * len(spreads))
    figure, _ = canvas.sheet(max(4.5, 1.2 + 2.2 * columns), 0.4 + tall * deep, axes=False)
    panels = figure.subplots(deep, columns, sharey=True, squeeze=False).flatten()
    for axes, output in zip(panels, outputs, strict=False):
        for k, (label, stats) in enumerate(spreads.items()):
            mean, look = stats[0][output][rows], ink[label]
            ends = [mean - stats[1][output][rows], stats[2][output][rows] - mean] if len(stats) == 3 else None
            axes.barh(
                places + (k - (len(spreads) - 1) / 2) * width, mean, width, xerr=ends,
                color=look.colour, hatch=look.hatch * 3, edgecolor="white", linewidth=0,
                label=canvas.plain(label), error_kw={"elinewidth": 0.7},
            )  # fmt: skip
        axes.axvline(0, color="#333333", linewidth=0.6)
        axes.set_xlabel(f"{'class ' if len(found.outputs) > 1 else ''}{found.outputs[output]}")
        axes.margins(y=0.01)
        axes.set_yticks(places, [canvas.plain(found.features[f]) for f in rows], fontsize=7)
    panels[0].invert_yaxis()
    for axes in panels[len(outputs) :]:
        axes.set_visible(False)
    seeds = max(len(v) for v in found.values.values())
    said = _said(found, client, len(rows), len(outputs))
    said += f"; thin lines: the range over {seeds} seeds" if seeds > 1 else ""
    figure.suptitle(said, fontsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=7)
    return figure


def _said(found: features.Weighed, client: int, rows: int, outputs: int) -> str:
    counts = {
        "clients": (min(CLIENTS, len(found.clients)), len(found.clients)),
        "parameters": (rows, len(found.features)),
        "classes": (outputs, len(found.outputs)),
    }
    limits = [f"{some} of {all} {what}" for what, (some, all) in counts.items() if some < all]
    said = canvas.plain(found.clients[client])
    return f"{said} ({', '.join(limits)} drawn)" if limits else said


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
