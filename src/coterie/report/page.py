"""One HTML file that shows runs and opens anywhere, offline: styles, scripts and data are all inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput
from coterie.report import calibration, features, heatmaps, layers, parts, plots, tables, traces, views, words
from coterie.report.inks import Ink, inks
from coterie.runs.files import write_whole
from coterie.runs.record import Record

# the browser is told to load nothing from elsewhere, whatever a name or a library might ask for
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True)
class Section:
    """Runs on the same clients under one heading: a single run, or methods by seeds."""

    title: str
    records: Sequence[Record]


def write_report(path: str | Path, sections: Sequence[Section], title: str = "Coterie report") -> Path:
    """Writes the page; returns its path."""
    return write_whole(Path(path), render_page(sections, title))


def render_page(sections: Sequence[Section], title: str = "Coterie report") -> str:
    """The page as text."""
    if not sections:
        raise BadInput("nothing to report: give at least one section")
    by_section = [views.groups(s.records) for s in sections]
    alone = next((b for b in map(views.baseline, by_section) if b is not None), None)
    colours = inks([label for by_label in by_section for label in by_label], alone)
    several = len(sections) > 1
    outcomes = "".join(_outcome(s, i, several) for i, s in enumerate(sections))
    body = "".join(
        _section(s, by_label, colours, i, several)
        for i, (s, by_label) in enumerate(zip(sections, by_section, strict=True))
    )
    return document(title, outcomes, body, str(sections[0].records[0].about.get("coterie", "")))


def document(title: str, header: str, main: str, version: str) -> str:
    """A page from the HTML of its head and its parts, with styles and scripts inside."""
    from plotly.offline import get_plotlyjs  # only here: it takes a while to import

    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_resource("style.css")}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>{header}</header>
<noscript><p class="warning">The figures need JavaScript; the tables do without.</p></noscript>
<main>{main}</main>
<footer>Made by Coterie {escape(version)}</footer>
<script>{get_plotlyjs()}</script>
<script>{_resource("page.js")}</script>
</body>
</html>
"""


def _outcome(section: Section, i: int, several: bool) -> str:
    name = f'<a href="#s{i}">{escape(section.title)}</a>' if several else escape(section.title)
    kind = f"<h2>{name}</h2>" if section.title else ""
    return (
        f'<div class="outcome">{kind}<p class="headline">{escape(words.headline(section.records))}</p>'
        f'<p class="what">{parts.what(section.records)}</p></div>'
    )


def _section(
    section: Section, by_label: views.Groups, colours: Mapping[str, Ink], i: int, several: bool
) -> str:
    records = section.records
    first = next(iter(by_label.values()))[0]
    warnings = "".join(f'<p class="warning">Unfinished: {escape(t)}.</p>' for t in tables.unfinished(records))
    summary = f'<div class="box">{tables.summary_html(records, colours)}</div>'
    summary += f"<p>{escape(tables.legend(records, trust=False))}</p>"
    shown = [
        ("summary", "Summary", warnings + summary),
        ("rounds", "Round by round", _rounds(by_label, colours, f"s{i}-rounds-plot")),
        ("clients", "Client by client", _clients(by_label, colours, f"s{i}-clients-plot")),
        ("calibration", "Calibration", _calibration(by_label, colours, f"s{i}-calibration-plot")),
        ("matrix", "Who listens to whom", _matrix(by_label, f"s{i}-matrix-plot")),
        ("collected", "Who collected from whom", _collected(by_label, f"s{i}-collected-plot")),
        ("layers", "Layer by layer", _layers(by_label, f"s{i}-layers-plot")),
        ("measures", "Neighbours and drift", _measures(by_label, colours, f"s{i}-measures-plot")),
        ("traces", "One client, round by round", _traces(by_label, colours, f"s{i}-traces-plot")),
        ("features", "What the models weigh", _features(by_label, colours, f"s{i}-features-plot")),
        ("data", "Who has which data", _data(first, records, f"s{i}")),
        ("cost", "Cost", _cost(by_label, colours)),
        ("notes", "What happened to the data", parts.notes(records)),
        ("repeat", "How to repeat it", parts.repeat(records) + more("Settings", parts.settings(by_label))),
    ]
    shown = [part for part in shown if part[2]]
    links = " ".join(f'<a href="#s{i}-{key}">{escape(name)}</a>' for key, name, _ in shown)
    level = "h3" if several else "h2"
    inner = "".join(
        f'<section id="s{i}-{key}"><{level}>{escape(name)}</{level}>{content}</section>'
        for key, name, content in shown
    )
    heading = f"<h2>{escape(section.title)}</h2>" if several else ""
    return f'<article id="s{i}">{heading}<nav aria-label="Parts">{links}</nav>{inner}</article>'


def _rounds(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    said = f"{_lines(by_label)} Round 0 is the model before training."
    return figure(key, plots.curves_plot(by_label, colours), said)


def _lines(by_label: views.Groups, over_clients: bool = True) -> str:
    """How to read lines and shades; with one seed, there may be a shade over clients."""
    said = "Lines: the mean over clients."
    if views.band_kind(by_label) == "seeds":
        single = [label for label, runs in by_label.items() if len(runs) == 1]
        said = "Lines: the mean over clients, then over seeds. Shade: its 95 % interval over seeds."
        said += f" {', '.join(single)}: one seed, so no shade." if single else ""
    elif over_clients:
        said += (
            " Shade: the middle half of the clients (from the 25th to the 75th percentile), not an interval: "
            "there is one seed."
        )
    most = max(len(views.figures(r, "loss", views.TRAIN)[0]) for runs in by_label.values() for r in runs)
    if most > plots.POINTS:
        said += f" At most {plots.POINTS} evenly chosen rounds are drawn."
    return said


def _clients(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    said = "Each client's own model on its own test data, after the last scored round."
    if any(len(runs) > 1 for runs in by_label.values()):
        said += " Mean over seeds; the thin lines are 95 % intervals over seeds."
    plot = figure(key, plots.clients_plot(by_label, colours), said)
    unit = f"test {words.unit(views.headline_metric([next(iter(by_label.values()))[0]]))}"
    return plot + more(f"The same as a table ({unit})", parts.clients(by_label))


def _calibration(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing for a regression, and in runs of earlier versions."""
    if not calibration.scored(by_label):
        return ""
    plot = calibration.plot(by_label, colours)
    drawn = "" if plot is None else figure(key, plot, calibration.caption(by_label))
    side_by_side = f'<div class="box">{calibration.table(by_label, colours)}</div>'
    return f"{drawn}{side_by_side}<p>{escape(calibration.LEGEND)}</p>"


def _matrix(by_label: views.Groups, key: str) -> str:
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
    return figure(key, plot, said, controls, "matrix")


def _collected(by_label: views.Groups, key: str) -> str:
    """Nothing before the first round."""
    plot = heatmaps.collected_plot(by_label)
    if plot is None:
        return ""
    said = (
        "Row: who collects; column: from whom; colour: in how many rounds of the run the other's model had a "
        "weight in the one's, straight or by way of a server."
    )
    controls = _menu("Method", "run", [run["label"] for run in plot["runs"]], plot["first"])
    return figure(key, plot, said + heatmaps.places(plot, by_label), controls, "matrix")


def _layers(by_label: views.Groups, key: str) -> str:
    """Nothing where no method weighed layers one by one."""
    plot = layers.layers_plot(by_label)
    return "" if plot is None else figure(key, plot, layers.caption(by_label))


def _measures(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where nothing was measured, as in runs of earlier versions."""
    plot = plots.measures_plot(by_label, colours)
    if not plot["choices"]:
        return ""
    records = [r for runs in by_label.values() for r in runs]
    last = f'<div class="box">{tables.measures_html(records, colours)}</div>'
    said = f"{_lines(by_label, over_clients=False)} {tables.measures_legend(records)} "
    return figure(key, plot, f"{said}The table has the last that was measured.") + last


def _traces(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing where no method named a matrix."""
    plot = traces.traces_plot(by_label, colours)
    if plot is None:
        return ""
    several = len({run["label"] for run in plot["runs"]}) > 1
    names = [f"{run['label']}: {run['name']}" if several else run["name"] for run in plot["runs"]]
    controls = _menu("Show", "run", names) + _menu("Client", "client", [])  # filled by the page
    return figure(key, plot, traces.caption(plot, by_label), controls, "traces")


def _features(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
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


def _data(first: Record, records: Sequence[Record], key: str) -> str:
    n = words.several(len(first.clients), "client")
    said = f"Samples of each of the {n}."
    others = [r for r in records if r.about["clients"] != first.about["clients"]]
    if others:
        said += f" Other seeds were split differently; this is seed {views.seed(first)}."
    made = figure(f"{key}-sizes-plot", plots.sizes_plot(first), said, kind="low")
    labels = plots.labels_plot(first)
    if labels is not None:
        made += figure(f"{key}-labels-plot", labels, "How many samples of each class a client holds.")
    return made


def _cost(by_label: views.Groups, colours: Mapping[str, Ink]) -> str:
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
    return (
        parts.cost(by_label, colours)
        + "<p>For a whole run, the mean over seeds. A model counts when a client sends or receives one "
        f"({one} each); one that goes straight from a client to another counts at both ends. Models per "
        "client: sent and received, the mean over clients. Training and "
        f"scoring are time on the clock.{pooled}</p>"
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
    sizes = {"min-width": plot.get("least"), "height": plot.get("height")}
    style = ";".join(f"{name}:{size}px" for name, size in sizes.items() if size)
    least = f' style="{style}"' if style else ""
    data = json.dumps(plot, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace(
        "<", "\\u003c"
    )
    return (
        f'<figure class="{kind}" data-plot="{key}"><div class="controls">{controls}</div>'
        f'<div class="box"><div class="canvas"{least}></div></div>'
        f"<figcaption>{escape(said)}</figcaption></figure>"
        f'<script type="application/json" id="{key}">{data}</script>'
    )


def _resource(name: str) -> str:
    return files("coterie.report").joinpath(name).read_text(encoding="utf-8")
