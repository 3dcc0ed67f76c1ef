"""The parts of a report's page that have figures: a plot, a caption, and perhaps a table or a menu."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.report import (
    advice,
    calibration,
    choices,
    decisions,
    features,
    heatmaps,
    kinds,
    layers,
    little,
    page_tables,
    plotly_data,
    recalibration,
    tables,
    traces,
    views,
    words,
)
from coterie.report.glossary import linked
from coterie.report.inks import Ink
from coterie.runs.measures import MEASURES
from coterie.runs.record import Record

FEW = 12  # clients whose sentences are shown at once


def rounds_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    said = f"{_lines(by_label)} Round 0 is the model before training."
    return figure(key, plotly_data.curves_plot(by_label, colours), said)


def _lines(by_label: views.Groups, over_clients: bool = True) -> str:
    """How to read lines and shades; with one seed, there may be a shade over clients."""
    said = "Lines: the mean over clients."
    if views.band_kind(by_label) == "seeds":
        single = [label for label, runs in by_label.items() if len(runs) == 1]
        over = kinds.over([r for runs in by_label.values() for r in runs])
        said = f"Lines: the mean over clients, then over seeds. Shade: its 95 % interval {over}."
        said += f" {', '.join(single)}: one seed, so no shade." if single else ""
    elif over_clients:
        said += (
            " Shade: the middle half of the clients (from the 25th to the 75th percentile), not an interval: "
            "there is one seed."
        )
    most = max(len(r.metrics) for runs in by_label.values() for r in runs)
    if most > plotly_data.POINTS:
        said += f" At most {plotly_data.POINTS} evenly chosen rounds are drawn."
    return said


def clients_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    said = "Each client's own model on its own test data, after the last scored round."
    if any(len(runs) > 1 for runs in by_label.values()):
        over = kinds.over([r for runs in by_label.values() for r in runs])
        said += f" Mean over seeds; the thin lines are 95 % intervals {over}."
    partly = tables.partly(by_label, views.headline_metric([next(iter(by_label.values()))[0]]))
    said += "".join(f" {text}." for text in partly)
    plot = _advice(by_label) + figure(key, plotly_data.clients_plot(by_label, colours), said)
    unit = f"test {words.unit(views.headline_metric([next(iter(by_label.values()))[0]]))}"
    return plot + more(f"The same as a table ({unit})", page_tables.clients(by_label))


def _advice(by_label: views.Groups) -> str:
    """A sentence for each client; of many on demand."""
    records = [r for runs in by_label.values() for r in runs]
    lines = advice.sentences(records) if any(map(advice.together, by_label.values())) else []
    if not lines:
        return ""
    said = f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    if len(lines) > FEW:
        said = more("A sentence for each client", said)
    return f"{said}<p>{escape(advice.legend(records))}</p>"


def calibration_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing for a regression, and in runs of earlier versions."""
    if not calibration.scored(by_label):
        return ""
    counts = calibration.counted(by_label)
    plot = calibration.plot(counts, colours)
    drawn = "" if plot is None else figure(key, plot, calibration.caption(by_label, counts))
    side_by_side = f'<div class="box" tabindex="0">{calibration.table(by_label, counts, colours)}</div>'
    acting = decisions.part(by_label, calibration.pooled(counts), colours)
    in_use = recalibration.part(by_label, colours)
    return f"{drawn}{side_by_side}<p>{linked(calibration.LEGEND)}</p>{in_use}{acting}"


def matrix_part(by_label: views.Groups, key: str) -> str:
    plot = heatmaps.matrix_plot(by_label)
    if plot is None:
        return "<p>No round has finished yet.</p>"
    said = (
        "Row: who listens; column: to whom; colour: with what weight, on a scale of its own for each method."
    )
    said += heatmaps.places(plot, by_label)
    thinned = [run for run in plot["runs"] if len(run["rounds"]) < run["of"]]
    if thinned:
        most, of = max(len(run["rounds"]) for run in thinned), max(run["of"] for run in thinned)
        said += f" To keep the page small, {most} of {of} rounds are here, evenly chosen."
    controls = (
        _menu("Method", "run", [run["label"] for run in plot["runs"]], plot["first"])
        + '<label class="wide">Round <input class="round" type="range" min="0" step="1"><output></output>'
        "</label>"
        '<label><input class="self" type="checkbox"> leave out own weight</label>'
    )
    alone = "".join(f"<li>{escape(line)}</li>" for line in choices.alone_lines(by_label))
    told = f"<h3>Who trains alone, and why</h3><ul>{alone}</ul>" if alone else ""
    return figure(key, plot, said, controls, "matrix") + told


def collected_part(by_label: views.Groups, key: str) -> str:
    """Nothing before the first round."""
    plot = heatmaps.collected_plot(by_label)
    if plot is None:
        return ""
    said = (
        "Row: who collects; column: from whom; colour: in how many rounds the other's model went into "
        "the collector's, directly or through a server."
    )
    controls = _menu("Method", "run", [run["label"] for run in plot["runs"]], plot["first"])
    return figure(key, plot, said + heatmaps.places(plot, by_label), controls, "matrix")


def layers_part(by_label: views.Groups, key: str) -> str:
    """Nothing where no method weighed layers one by one."""
    plot = layers.layers_plot(by_label)
    return "" if plot is None else figure(key, plot, layers.caption(by_label))


def measures_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where nothing was measured, or all had one model and no group."""
    records = [r for runs in by_label.values() for r in runs]
    if not any(np.nansum(views.figures(r, m, views.MEASURED)[1]) for r in records for m in MEASURES):
        return ""
    plot = plotly_data.measures_plot(by_label, colours)
    last = f'<div class="box" tabindex="0">{tables.measures_html(records, colours)}</div>'
    said = f"{_lines(by_label, over_clients=False)} {tables.measures_legend(records)} "
    return figure(key, plot, f"{said}The table shows the last values.") + last


def traces_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where no method named a matrix."""
    plot = traces.traces_plot(by_label, colours)
    if plot is None:
        return ""
    several = len({run["label"] for run in plot["runs"]}) > 1
    names = [f"{run['label']}: {run['name']}" if several else run["name"] for run in plot["runs"]]
    controls = _menu("Show", "run", names) + _menu("Client", "client", [])  # filled by the page
    return figure(key, plot, traces.caption(plot, by_label), controls, "traces")


def features_part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where models are not linear or features have no names."""
    found = features.weighed(by_label)
    if found is None:
        return ""
    plot = features.features_plot(found, colours)
    if plot is None:
        return f"<p>{escape(features.too_many(found))}</p>"
    controls = _menu("Client", "client", [client["name"] for client in plot["clients"]])
    controls += _menu("Class", "output", plot["outputs"]) if len(plot["outputs"]) > 1 else ""
    return figure(key, plot, features.caption(plot, found), controls)


def data_part(first: Record, records: Sequence[Record], key: str) -> str:
    n = words.several(len(first.clients), "client")
    said = f"Samples of each of the {n}."
    others = [r for r in records if r.about["clients"] != first.about["clients"]]
    if others:
        said += f" Other seeds were split differently; this is seed {views.seed(first)}."
    said += "".join(f" {note}" for note in little.notes([first]))
    made = figure(f"{key}-sizes-plot", plotly_data.sizes_plot(first), said, kind="low")
    labels = plotly_data.labels_plot(first)
    if labels is not None:
        made += figure(f"{key}-labels-plot", labels, "How many samples of each class a client holds.")
    return made


def cost_part(by_label: views.Groups, colours: Mapping[str, Ink]) -> str:
    record = next(iter(by_label.values()))[0]
    one = words.size(int(record.about["belief_bytes"]))
    moved = {
        label: sum(m["extras"].get("samples_moved", 0) for m in r[0].metrics) for label, r in by_label.items()
    }
    pooled = "".join(
        f" {escape(label)} moved {words.several(n, 'sample')} to one place instead."
        for label, n in moved.items()
        if n
    )
    given = page_tables.given_away(by_label, colours)
    if given:
        several = any(len(runs) > 1 for runs in by_label.values())
        seed = f"of seed {views.seed(record)}, " if several else ""
        said = f"Over the rounds {seed}without first models and scoring. Numbers: single values like a loss."
        given = more("What was given away", f"{given}<p>{escape(said)}</p>")
    return (
        page_tables.cost(by_label, colours)
        + given
        + "<p>For a whole run, the mean over seeds. A model counts once each time that it passes from one to "
        f"another ({one} each), be it a client or the coordinator. Per client: all that passed, divided by "
        f"how many clients there are. Training and scoring are time on the clock.{pooled}</p>"
    )


def more(name: str, content: str) -> str:
    """What is shown on demand."""
    return f"<details><summary>{escape(name)}</summary>{content}</details>"


def _menu(name: str, kind: str, choices: Sequence[str], first: int = 0) -> str:
    options = "".join(
        f'<option value="{i}"{" selected" * (0 < i == first)}>{escape(choice)}</option>'
        for i, choice in enumerate(choices)
    )
    return f'<label>{escape(name)} <select class="{kind}">{options}</select></label>'


def figure(key: str, plot: Mapping[str, Any], said: str, controls: str = "", kind: str = "") -> str:
    """A plot with its menu and its caption; page.js draws it."""
    choices = plot.get("choices", ())
    if not choices and "kind" not in plot:
        return "<p>Nothing was scored yet.</p>"
    if len(choices) > 1:
        controls = _menu("Show", "choice", [c["name"] for c in choices])
    data = json.dumps(plot, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace(
        "<", "\\u003c"
    )
    return (
        f'<figure class="{kind}" data-plot="{key}"><div class="controls">{controls}</div>'
        f'<div class="box" tabindex="0"><div class="canvas"></div></div>'
        f"<figcaption>{linked(said)}</figcaption></figure>"
        f'<script type="application/json" id="{key}">{data}</script>'
    )
