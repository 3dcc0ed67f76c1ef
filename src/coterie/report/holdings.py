"""Who has which data, by split and by class; and what to know before any figure: who rests on little
(`runs/about.py`), and which columns tell the outcome alone (`sites/leaks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.report.about import few
from coterie.runs import about
from coterie.runs.record import Record
from coterie.show import inks as colours
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, Plot
from coterie.show.parts import Runs
from coterie.show.words import said, sentences
from coterie.sites.leaks import look_first

NAMED = 3  # reasons in a line, and clients of each


def holdings_part(runs: Runs) -> list[Block]:
    first, records = next(iter(runs.by_label.values()))[0], runs.records
    text = [said("holdings.said", clients=numbers.several(len(first.clients), "client"))]
    if any(r.about["clients"] != first.about["clients"] for r in records):
        text.append(said("holdings.other", seed=views.seed(first)))
    shown = sentences(*text, *small_samples_notes([first]))
    made: list[Block] = [Plot(f"{runs.key}-sizes", _sizes_plot(first), shown, kind="low")]
    if (labels := _labels_plot(first)) is not None:
        made.append(Plot(f"{runs.key}-labels", labels, said("holdings.labels")))
    return made


def _sizes_plot(record: Record) -> plotly.Plot:
    """Samples of each client by split."""
    names = plotly.ticks(record.clients)
    data = [
        {"type": "bar", "x": names, "y": counts, "name": said(f"split.{split}")}
        | {"marker": {"color": colours.SPLITS[split]}}
        for split, counts in views.sizes(record).items()
    ]
    layout = {"barmode": "stack", "bargap": 0.2, "hovermode": "x unified", "xaxis": {"type": "category"}}
    layout |= {"yaxis": {"title": {"text": said("plot.samples")}}}
    return {"choices": [{"name": "", "data": data, "layout": layout}]}


def _labels_plot(record: Record) -> plotly.Plot | None:
    """Counts of each class at each client, by split; None for a regression."""
    found = views.labels(record)
    if found is None:
        return None
    classes, by_split = found
    above = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "thickness": 10, "outlinewidth": 0}
    choices = []
    for split, counts in by_split.items():
        heat = {
            "type": "heatmap",
            "x": plotly.ticks(record.clients),
            "y": plotly.ticks(classes),
            "z": counts.tolist(),
            "zmin": 0,
            "zmax": max(1, int(counts.max(initial=0))),
            "colorscale": plotly.ramp(colours.SCALE),
            "xgap": 1 if len(record.clients) <= 60 else 0,
            "ygap": 1,
            "showscale": len(record.clients) > 15,
            "colorbar": above,
            "hovertemplate": plotly.hover(said("plot.class_hover")),
        }
        if not heat["showscale"]:
            heat["texttemplate"] = "%{z}"
        rows = {"type": "category", "title": {"text": said("plot.class")}, "autorange": "reversed"}
        layout = {"xaxis": {"type": "category"}, "yaxis": rows}
        choices.append({"name": said(f"plot.of_split.{split}"), "data": [heat], "layout": layout})
    return {"choices": choices}


def leaks_line(records: Sequence[Record]) -> str:
    """One line for all columns that tell the outcome; nothing where none does, or a record is too old to say.
    Each is named once, where it tells most: seeds may deal rows differently.
    """
    best = dict[str, Mapping[str, Any]]()
    for record in records:
        for leak in record.about.get("leaks") or ():
            name = str(leak["column"])
            if name not in best or leak["score"] > best[name]["score"]:
                best[name] = leak
    return look_first(sorted(best.values(), key=lambda leak: (-leak["score"], -leak["rows"])))


def commented(records: Sequence[Record]) -> dict[str, str]:
    """By client, from the first run that has something to say of it: seeds may deal rows differently."""
    found: dict[str, str] = {}
    for record in records:
        for name, why in about.comments(record.about["clients"], views.task(record)).items():
            found.setdefault(name, why)
    return {name: found[name] for name in records[0].clients if name in found}


def small_samples_line(records: Sequence[Record]) -> str:
    """One line for all of them; nothing where there are none, or a single client has no mean."""
    found, n = commented(records), len(records[0].clients)
    if not found or n == 1:
        return ""
    reasons = _by_reason(found)
    groups = [said("small.group", names=few(names, NAMED), why=why) for why, names in reasons.items()]
    who: str = said("list.plain", names=groups[:NAMED])
    if rest := sum(len(names) for names in list(reasons.values())[NAMED:]):
        who = said("small.more", who=who, n=rest)
    clients = numbers.several(len(found), "client")
    return said(f"small.line.{'one' if len(found) == 1 else 'many'}", clients=clients, n=n, who=who)


def _by_reason(found: Mapping[str, str]) -> dict[str, list[str]]:
    """Clients of which the same is said."""
    made: dict[str, list[str]] = {}
    for name, why in found.items():
        made.setdefault(why, []).append(name)
    return made


def small_samples_notes(records: Sequence[Record]) -> list[str]:
    """What the marks mean, a line for each client; of many that share a reason, one."""
    return [
        said(f"small.note.{'one' if len(names) == 1 else 'many'}", mark=about.MARK, names=names, why=why)
        for why, names in _by_reason(commented(records)).items()
    ]
