"""Figures against what they cost: curves over steps, bytes, seconds and kWh, and methods at equal cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.core.method import UNTRAINED
from coterie.metrics.summary import means_of_known, worst
from coterie.report import kinds, page_figures, plotly_data, tables, views, words
from coterie.report.inks import Ink
from coterie.report.spent import Within, budgeted, counted, mean_total, smallest, within
from coterie.runs.budget import KINDS, LEAST, MOST, WATTS, read_budget
from coterie.runs.record import Record

TITLE = "Against cost"
AXES = {
    "rounds": "round",
    "steps": "gradient steps of all clients",
    "bytes": "bytes that passed",
    "seconds": "seconds of training",
    "kwh": "kWh (estimate)",
}


def amount(value: float, kind: str) -> str:
    """With its unit."""
    if kind == "bytes":
        return words.size(value)
    if kind == "seconds":
        return words.duration(value)
    return words.several(value, "step") if kind == "steps" else words.energy(value)


# curves


def curves_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly_data.Plot:
    """The headline figure against each kind of cost, and by round: the mean over clients, the worst one."""
    records = [r for runs in by_label.values() for r in runs]
    metric, choices = views.headline_metric(records), []
    higher = views.better_higher(records)[metric]

    def worst_of(values: np.ndarray) -> np.ndarray:
        return np.array([worst(list(row), higher) for row in values])

    ways: tuple[tuple[str, views.Over, views.Band], ...] = (
        ("mean over clients", means_of_known, views.band_kind(by_label)),
        ("worst client", worst_of, "seeds"),
    )
    for name, over, band in ways:
        for kind in (*counted(records), "rounds"):
            data: list[dict[str, Any]] = []
            for label, runs in by_label.items():
                curve = views.curve(label, runs, band, metric, over=over)
                if curve.rounds:
                    drawn = plotly_data.curve_traces(against(curve, runs, kind), inks[label], metric)
                    drawn[-1]["hovertemplate"] = "%{x:.4s}: %{customdata}"
                    data += drawn
            unit = f"test {words.unit(metric)}"
            layout = {
                "xaxis": {"title": {"text": AXES[kind]}, "rangemode": "tozero"},
                "yaxis": {"title": {"text": f"{unit}, {name}"}, **plotly_data.within(metric)},
                "hovermode": "closest",
            }
            choices.append({"name": f"{name}, against {AXES[kind]}", "data": data, "layout": layout})
    return {"choices": choices}


def against(curve: views.Curve, runs: Sequence[Record], kind: str) -> views.Curve:
    """The same curve with what was spent in the place of rounds: the mean over the seeds that have one."""
    if kind == "rounds":
        return curve
    spent = [dict(zip((m["round"] for m in r.metrics), r.spent()[kind], strict=True)) for r in runs]
    at = [float(np.mean([s[r] for s in spent if r in s])) for r in curve.rounds]
    return views.Curve(curve.label, at, curve.mean, curve.low, curve.high, curve.seeds)  # type: ignore[arg-type]


# at equal cost


def equal_cells(records: Sequence[Record], wanted: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: of each kind the figure within the smallest total, and in brackets the best."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    most = {kind: smallest(records, kind) for kind in wanted}
    header = ["method", *(f"within {amount(most[kind], kind)}" for kind in wanted)]
    rows = []
    for label, runs in by_label.items():
        found = [within(runs, kind, most[kind]) for kind in wanted]
        rows.append([label, *(_cell(each, metric) for each in found)])
    return header, rows


def _cell(found: Within, metric: str) -> str:
    if math.isnan(found.last.mean):
        return words.NONE
    return f"{words.spread(found.last, metric)} (best {words.figure(found.best.mean, metric)})"


def equal_legend(records: Sequence[Record]) -> str:
    metric = words.unit(views.headline_metric(records))
    return (
        f"Test {metric}, mean over clients, after the last scored round that had spent no more than the "
        "smallest total of all runs that spent any; in brackets the best round until then, which was chosen "
        "on test rows and so flatters. —: no round was so cheap."
    )


# what was spent


def spent_cells(by_label: views.Groups) -> tuple[list[str], list[list[str]]]:
    """Header and rows: what a whole run spent, the mean over seeds."""
    records = [r for runs in by_label.values() for r in runs]
    known = counted(records)
    titles = AXES | {"kwh": "energy (estimate)"}
    header = ["method", "rounds", *(titles[kind] for kind in known)]
    rows = []
    for label, runs in by_label.items():
        line = [label, words.whole(float(np.mean([r.done for r in runs])))]
        for kind in known:
            mean = mean_total(runs, kind)
            line.append(_energy(mean, runs) if kind == "kwh" else amount(mean, kind).replace(" steps", ""))
        rows.append(line)
    return header, rows


def _energy(mean: float, runs: Sequence[Record]) -> str:
    """With a range, unless somebody said what a core draws."""
    if any("power" in r.config for r in runs):
        return words.energy(mean)
    least, most = (words.energy(mean * watts / WATTS) for watts in (LEAST, MOST))
    return f"{words.energy(mean)} ({least} to {most})"


def ended(records: Sequence[Record]) -> list[str]:
    """Which methods a budget ended, those alike in one line, and what to know of their models."""
    by_line: dict[str, list[str]] = {}
    for label, runs in views.groups(records).items():
        cut = [r for r in runs if r.ended]
        if cut:
            by_line.setdefault(_ending(cut, len(runs)), []).append(label)
    return [f"{', '.join(labels)}: {line}" for line, labels in by_line.items()]


def _ending(cut: Sequence[Record], of: int) -> str:
    done = sorted({r.done for r in cut})
    rounds = str(done[0]) if len(done) == 1 else f"{done[0]} to {done[-1]}"
    which = sorted({r.ended for r in cut}, key=KINDS.index)
    spent = ", ".join(overshot(cut, kind) for kind in which if kind in counted(cut))
    many = "" if len(cut) == of else f", {len(cut)} of {words.several(of, 'seed')}"
    said = f"the budget is spent after round {rounds} of {cut[0].config['rounds']} ({spent}{many})"
    if any(r.metrics[-1].get("extras", {}).get("note") == UNTRAINED for r in cut):
        said += f"; {UNTRAINED}"
    if falls(cut[0]):
        said += "; its learning rate was to fall until the last of all rounds, and did not get there"
    return said


def overshot(runs: Sequence[Record], kind: str) -> str:
    """1 040 of 1 000 steps: the last round is not cut."""
    most = amount(read_budget(runs[0].config["budget"])[kind], kind)
    return f"{amount(mean_total(runs, kind), kind).removesuffix(' steps')} of {most}"


def falls(record: Record) -> bool:
    """Whether local work has a rate that falls over the rounds of a run."""
    tables = (v for v in record.config.values() if isinstance(v, Mapping))
    return any(table.get("schedule", "constant") != "constant" for table in tables)


# where it is shown


def part(by_label: views.Groups, colours: Mapping[str, Ink], key: str) -> str:
    """Nothing in runs of earlier versions, and before the first round is scored."""
    records = [r for runs in by_label.values() for r in runs]
    known = counted(records)
    if not known or not any(views.has_figures(r, views.headline_metric(records)) for r in records):
        return ""
    over = ""
    if views.band_kind(by_label) == "seeds":
        over = f" Shade: the 95 % interval {kinds.over(records)}, of means over clients."
    said = (
        "Each point is a scored round: what all clients together had spent by its end, the mean over seeds."
        f"{over} Bytes: models, rows that moved, 8 for each number, sealed shares; not for scoring. Seconds "
        "are of this machine, and no two runs take the same."
    )
    made = page_figures.figure(key, curves_plot(by_label, colours), said)
    made += f'<div class="box" tabindex="0">{tables.html_of(*spent_cells(by_label), colours)}</div>'
    made += f"<p>{escape(energy_legend(records))}</p>" if "kwh" in known else ""
    if len(by_label) > 1:
        cells = equal_cells(records, budgeted(records) or known)
        made += f'<h3>At equal cost</h3><div class="box" tabindex="0">{tables.html_of(*cells, colours)}</div>'
        made += f"<p>{escape(equal_legend(records))}</p>"
    return made


def energy_legend(records: Sequence[Record]) -> str:
    watts = sorted({float(r.config.get("power", WATTS)) for r in records})
    if watts != [WATTS]:
        drawn = " and ".join(f"{w:g}" for w in watts)
        return f"kWh: an estimate, CPU seconds of training x {drawn} W for a busy core, as was given."
    return (
        f"kWh: an estimate, CPU seconds of training x {WATTS:g} W for a busy core; in brackets for {LEAST:g} "
        f"and {MOST:g} W, the least and most of the processors that Green Algorithms lists (Lannelongue et "
        "al., 2021). Memory and cooling are not in it; with cooling, the network and CO2e: under Cost."
    )
