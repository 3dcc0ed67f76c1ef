"""What a tuning tried and found: a table for the screen, and a page that opens offline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import stdev
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.report import page_tables, plotly_data, words
from coterie.report.inks import Ink, inks
from coterie.report.page import document
from coterie.report.page_figures import figure, more
from coterie.runs.compare import slug
from coterie.runs.record import Record
from coterie.runs.search import Axis
from coterie.runs.trials import Trial, Tuned
from coterie.storage.atomic import write_whole

LEGEND = "Mean over clients, then over folds; ± the standard deviation over folds."


def screen_table(tuned: Tuned) -> Table:
    """The best options of each method."""
    header, rows = cells(tuned)
    table = Table(*header, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption_justify="left")
    for row in rows:
        table.add_row(*(Text(c) for c in row))
    table.caption = Text(LEGEND)
    return table


def write_tuning(path: Path, tuned: Tuned, folder: Path) -> Path:
    """Writes the page; `folder` holds the files it tells to use."""
    return write_whole(path, render_tuning(tuned, folder))


def render_tuning(tuned: Tuned, folder: Path) -> str:
    """The page as text."""
    tuning, record = tuned.tuning, Record("", {}, tuned.about)
    alone = next((spec for spec in tuning.methods if spec.partition(":")[0] == "local"), None)
    colours = inks(tuning.methods, alone)
    shown = [
        ("best", "Best options", _best(tuned, colours)),
        ("tried", "What was tried", _tried(tuned, colours)),
        ("use", "How to use them", _use(tuned, folder)),
        ("notes", "What happened to the data", page_tables.notes([record])),
        ("repeat", "How to repeat it", page_tables.repeat([record]) + _settings(tuned)),
    ]
    links = " ".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in shown)
    inner = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2>{content}</section>' for key, name, content in shown
    )
    clients = words.several(len(tuned.about["clients"]), "client")
    what = f"{tuning.settings.data} · {clients} · {words.several(tuning.settings.rounds, 'round')}"
    header = (
        f'<div class="outcome"><p class="headline">Options picked for each method by itself, by '
        f"{tuning.folds}-fold cross-validation on each client's training rows. "
        "No trial trained or was scored on test rows.</p>"
        f'<p class="what">{escape(what)} · seed {tuning.settings.seed}</p></div>'
    )
    main = f'<article><nav aria-label="Parts">{links}</nav>{inner}</article>'
    return document("Coterie tuning", header, main, str(tuned.about.get("coterie", "")))


def command(name: str, config: Path) -> str:
    return shlex.join(["coterie", name, "--config", str(config)])


def cells(tuned: Tuned) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text, the method first."""
    header = ["method", "best options", f"held-out {words.unit(tuned.metric)}", "trials", "failed"]
    rows = []
    for spec in tuned.tuning.methods:
        best, trials = tuned.best(spec), tuned.of(spec)
        found = [options(best), words.spread(over_folds(best), tuned.metric)] if best else [words.NONE] * 2
        rows.append([spec, *found, str(len(trials)), str(sum(t.error is not None for t in trials))])
    return header, rows


def options(trial: Trial) -> str:
    return ", ".join(f"{name} {text}" for name, text in page_tables.flatten(trial.options).items())


def over_folds(trial: Trial) -> Interval:
    """The mean, and the standard deviation over folds."""
    return Interval(trial.value or 0.0, stdev(trial.folds), len(trial.folds))


def tried_plot(tuned: Tuned, colours: Mapping[str, Ink]) -> plotly_data.Plot:
    """The held-out metric against each searched option; trials that failed lie on the lower edge."""
    axes = {spec: {a.name: a for a in tuned.tuning.axes(spec)} for spec in tuned.tuning.methods}
    choices = []
    for name, axis in {n: a for mine in axes.values() for n, a in mine.items()}.items():
        data = []
        for spec in (s for s in axes if name in axes[s]):
            trials, best = tuned.of(spec), tuned.best(spec)
            ink, fine = colours[spec], [t for t in trials if t.value is not None]
            sizes = [13 if t is best else 7 for t in fine]
            mark = {"color": ink.colour, "symbol": ink.mark, "size": sizes, "opacity": 0.8}
            values = plotly_data.tidy(words.factor(tuned.metric) * (t.value or 0.0) for t in fine)
            data.append(_dots(fine, axis, values, spec, tuned.metric) | {"marker": mark})
            if failed := [t for t in trials if t.value is None]:
                lost = _dots(failed, axis, [0.02] * len(failed), f"{spec}, failed", tuned.metric)
                data.append(lost | {"yaxis": "y2", "marker": mark | {"symbol": "x-thin-open", "size": 8}})
        kind = "category" if axis.values else "log" if axis.log else "linear"
        layout = {
            "hovermode": "closest",
            "xaxis": {"title": {"text": plotly_data.plain(name)}, "type": kind},
            "yaxis": {"title": {"text": f"held-out {words.unit(tuned.metric)}"}, "type": _scale(tuned)},
            "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        }
        choices.append({"name": name, "data": data, "layout": layout})
    return {"choices": choices}


def _scale(tuned: Tuned) -> str:
    """Errors that nearly diverged would hide all others on a linear scale."""
    values = [t.value for t in tuned.trials if t.value is not None]
    far = not METRICS[tuned.metric].higher and max(values, default=0) > 100 * min(values, default=0) > 0
    return "log" if far else "linear"


def _dots(
    trials: Sequence[Trial], axis: Axis, values: Sequence[float | None], name: str, metric: str
) -> dict[str, Any]:
    found = [page_tables.flatten(t.options) if axis.values else t.options for t in trials]
    said = [
        f"trial {t.number}: {options(t)}: "
        + (words.spread(over_folds(t), metric) if t.error is None else t.error)
        for t in trials
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plotly_data.plain(name),
        "x": [f[axis.name] for f in found],
        "y": list(values),
        "customdata": [plotly_data.plain(s) for s in said],
        "hovertemplate": "%{customdata}",
    }


def _best(tuned: Tuned, colours: Mapping[str, Ink]) -> str:
    header, rows = cells(tuned)
    lines = [[page_tables.swatch(spec, colours), *map(escape, rest)] for spec, *rest in rows]
    return page_tables.table(header, lines, "figures") + f"<p>{escape(LEGEND)}</p>"


def _tried(tuned: Tuned, colours: Mapping[str, Ink]) -> str:
    said = "Each mark is a trial, the large one the best of its method; crosses on the lower edge failed."
    plot = figure("tried-plot", tried_plot(tuned, colours), said)
    rows = []
    for trial in tuned.trials:
        value = words.spread(over_folds(trial), tuned.metric) if trial.error is None else trial.error
        rows.append(
            [
                page_tables.swatch(trial.method, colours),
                str(trial.number),
                escape(options(trial)),
                escape(value),
            ]
        )
    header = ["method", "trial", "options", f"held-out {words.unit(tuned.metric)}"]
    return plot + more("Every trial as a table", page_tables.table(header, rows))


def _use(tuned: Tuned, folder: Path) -> str:
    if not tuned.specs():
        return "<p>Every trial failed: search elsewhere.</p>"
    found = [spec for spec in tuned.tuning.methods if tuned.best(spec)]
    lines = [command("compare", folder / "best.toml")]
    lines += [command("run", folder / "best" / f"{slug(spec)}.toml") for spec in found]
    return "".join(f"<pre tabindex='0'>{escape(line)}</pre>" for line in lines)


def _settings(tuned: Tuned) -> str:
    rows = [[escape(k), escape(v)] for k, v in page_tables.flatten(tuned.tuning.table()).items()]
    return more("Settings", page_tables.table(["setting", "value"], rows, "settings"))
