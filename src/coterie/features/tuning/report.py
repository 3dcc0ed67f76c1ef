"""What a tuning tried and found: a table for the screen, and a page that opens offline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from coterie.features.tuning.search import Axis
from coterie.features.tuning.tuning import Trial, Tuned
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.report.about import flatten, notes_part, repeat_part
from coterie.runs.compare import slug
from coterie.runs.record import Record
from coterie.show import html, numbers, plotly
from coterie.show.blocks import Block, Code, Group, More, Plot, Section, Sentence, Table
from coterie.show.inks import Ink, inks
from coterie.show.parts import Runs, coloured
from coterie.storage.atomic import write_whole

LEGEND = "Mean over clients, then over folds; ± the standard deviation over folds."


def screen_table(tuned: Tuned) -> RichTable:
    """The best options of each method."""
    header, rows = _cells(tuned)
    table = RichTable(*header, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption_justify="left")
    for row in rows:
        table.add_row(*(Text(c) for c in row))
    table.caption = Text(LEGEND)
    return table


def write_tuning(path: Path, tuned: Tuned, folder: Path) -> Path:
    """Writes the page; `folder` holds the files it tells to use."""
    tuning, runs = tuned.tuning, Runs("", [Record("", {}, tuned.about)])
    colours = inks(tuning.methods, next((s for s in tuning.methods if s.partition(":")[0] == "local"), None))
    header = ["method", "trial", "options", f"held-out {numbers.unit(tuned.metric)}"]
    rows = [[t.method, str(t.number), _options(t), _came(t, tuned.metric)] for t in tuned.trials]
    said = "Each mark is a trial, the large one the best of its method; crosses on the lower edge failed."
    every = More("Every trial as a table", [coloured(header, rows, colours, kind="")])
    tried: list[Block] = [Plot("tried", tried_plot(tuned, colours), said), every]
    config = Table(["setting", "value"], [*flatten(tuning.table()).items()], kind="settings")
    found = [spec for spec in tuning.methods if tuned.best(spec)]
    use: Block = Sentence("Every trial failed: search elsewhere.")
    if found:
        best = [folder / "best" / f"{slug(spec)}.toml" for spec in found]
        use = Code([command("compare", folder / "best.toml"), *(command("run", file) for file in best)])
    shown = [
        Section("Best options", [coloured(*_cells(tuned), colours), Sentence(LEGEND)], "best"),
        Section("What was tried", tried, "tried"),
        Section("How to use them", [use], "use"),
        Section("What happened to the data", notes_part(runs), "notes"),
        Section("How to repeat it", [*repeat_part(runs)[:2], More("Settings", [config])], "repeat"),
    ]
    clients = numbers.several(len(tuned.about["clients"]), "client")
    rounds = numbers.several(tuning.settings.rounds, "round")
    what = f"{tuning.settings.data} · {clients} · {rounds} · seed {tuning.settings.seed}"
    came = (
        f"Options picked for each method by itself, by {tuning.folds}-fold cross-validation on each client's "
        "training rows. No trial trained or was scored on test rows."
    )
    head = Group([Sentence(came, kind="headline"), Sentence(what, kind="what")], "outcome")
    main = Section("", shown, "tuning", "article")
    version = str(tuned.about.get("coterie", ""))
    return write_whole(path, html.document("Coterie tuning", [head], [main], version))


def command(name: str, config: Path) -> str:
    return shlex.join(["coterie", name, "--config", str(config)])


def _cells(tuned: Tuned) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text, the method first."""
    header = ["method", "best options", f"held-out {numbers.unit(tuned.metric)}", "trials", "failed"]
    rows = []
    for spec in tuned.tuning.methods:
        best, trials = tuned.best(spec), tuned.of(spec)
        found = [_options(best), _came(best, tuned.metric)] if best else [numbers.NONE] * 2
        rows.append([spec, *found, str(len(trials)), str(sum(t.error is not None for t in trials))])
    return header, rows


def _options(trial: Trial) -> str:
    return ", ".join(f"{name} {text}" for name, text in flatten(trial.options).items())


def _came(trial: Trial, metric: str) -> str:
    """The mean, and the standard deviation over folds; or why there is none."""
    if trial.error is not None:
        return trial.error
    return numbers.spread(Interval(trial.value or 0.0, stdev(trial.folds), len(trial.folds)), metric)


def tried_plot(tuned: Tuned, colours: Mapping[str, Ink]) -> plotly.Plot:
    """The held-out metric against each searched option; trials that failed lie on the lower edge."""
    axes = {spec: {a.name: a for a in tuned.tuning.axes(spec)} for spec in tuned.tuning.methods}
    known = [t.value for t in tuned.trials if t.value is not None]
    # errors that nearly diverged would hide all others on a linear scale
    far = not METRICS[tuned.metric].higher and max(known, default=0) > 100 * min(known, default=0) > 0
    scale, choices = "log" if far else "linear", []
    for name, axis in {n: a for mine in axes.values() for n, a in mine.items()}.items():
        data = []
        for spec in (s for s in axes if name in axes[s]):
            trials, best = tuned.of(spec), tuned.best(spec)
            ink, fine = colours[spec], [t for t in trials if t.value is not None]
            sizes = [13 if t is best else 7 for t in fine]
            mark = {"color": ink.colour, "symbol": ink.mark, "size": sizes, "opacity": 0.8}
            values = plotly.tidy(numbers.factor(tuned.metric) * (t.value or 0.0) for t in fine)
            data.append(_dots(fine, axis, values, spec, tuned.metric) | {"marker": mark})
            if failed := [t for t in trials if t.value is None]:
                lost = _dots(failed, axis, [0.02] * len(failed), f"{spec}, failed", tuned.metric)
                data.append(lost | {"yaxis": "y2", "marker": mark | {"symbol": "x-thin-open", "size": 8}})
        kind = "category" if axis.values else "log" if axis.log else "linear"
        layout = {
            "hovermode": "closest",
            "xaxis": {"title": {"text": plotly.plain(name)}, "type": kind},
            "yaxis": {"title": {"text": f"held-out {numbers.unit(tuned.metric)}"}, "type": scale},
            "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        }
        choices.append({"name": name, "data": data, "layout": layout})
    return {"choices": choices}


def _dots(
    trials: Sequence[Trial], axis: Axis, values: Sequence[float | None], name: str, metric: str
) -> dict[str, Any]:
    found = [flatten(t.options) if axis.values else t.options for t in trials]
    said = [f"trial {t.number}: {_options(t)}: {_came(t, metric)}" for t in trials]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plotly.plain(name),
        "x": [f[axis.name] for f in found],
        "y": list(values),
        "customdata": [plotly.plain(s) for s in said],
        "hovertemplate": "%{customdata}",
    }
