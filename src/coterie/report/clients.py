"""Client by client. What each holds, by split and by class; and what to know before any figure: who rests on
little (`runs/about.py`), and which columns tell the outcome alone (`sites/leaks.py`).

Then final figures by method, the gain over training alone, and a sentence for each: whether training together
served it better than training alone, so far as seeds can tell; and whom it listened to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coterie.methods.baselines import YARDSTICKS
from coterie.metrics.summary import Interval
from coterie.report import outcome
from coterie.report.about import few
from coterie.report.learnable import no_gain
from coterie.runs import about
from coterie.runs.record import Record
from coterie.show import inks as colours
from coterie.show import intervals, numbers, plotly, views
from coterie.show.blocks import Block, More, Plot, Points, Sentence, Table
from coterie.show.inks import Ink
from coterie.show.intervals import covers
from coterie.show.parts import Runs
from coterie.show.words import said, sentences
from coterie.sites.leaks import look_first

FEW = 12  # clients whose sentences are shown at once
BARS = 30  # clients that are drawn as bars; more are dots
NAMED = 3  # reasons in a line, and clients of each


# what they hold


def holdings_part(runs: Runs) -> list[Block]:
    first, records = next(iter(runs.by_label.values()))[0], runs.records
    text = [said("holdings.said", clients=numbers.several(len(first.clients), "client"))]
    if any(r.about["clients"] != first.about["clients"] for r in records):
        text.append(said("holdings.other", seed=views.seed(first)))
    shown = sentences(*text, *small_samples_notes([first]))
    data = [
        {"type": "bar", "x": plotly.ticks(first.clients), "y": counts, "name": said(f"split.{split}")}
        | {"marker": {"color": colours.SPLITS[split]}}
        for split, counts in views.sizes(first).items()
    ]
    layout = {"barmode": "stack", "bargap": 0.2, "hovermode": "x unified", "xaxis": {"type": "category"}}
    layout |= {"yaxis": {"title": {"text": said("plot.samples")}}}
    sizes = {"choices": [{"name": "", "data": data, "layout": layout}]}
    made: list[Block] = [Plot(f"{runs.key}-sizes", sizes, shown, kind="low")]
    if (labels := _labels_plot(first)) is not None:
        made.append(Plot(f"{runs.key}-labels", labels, said("holdings.labels")))
    return made


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


# how they fare


def clients_part(runs: Runs) -> list[Block]:
    by_label = runs.by_label
    main = views.headline_metric(runs.records)
    text = [said("clients.said")]
    if runs.several_seeds:
        text.append(said("clients.seeds", over=intervals.over(runs.records)))
    text += [said("report.line", said=line) for line in outcome.partly(by_label, main)]
    plot = Plot(f"{runs.key}-clients", clients_plot(by_label, runs.inks), sentences(*text))
    title = said("clients.table", metric=numbers.unit(main))
    made: list[Block] = []
    if any(map(_together, by_label.values())) and (lines := client_sentences(runs.records)):
        shown = Points(lines)
        made.append(More(said("clients.sentences"), [shown]) if len(lines) > FEW else shown)
        made.append(Sentence(client_legend(runs.records)))
    return [*made, plot, More(title, _clients_table(by_label))]


def _clients_table(by_label: views.Groups) -> list[Block]:
    """Every client: sizes, and its final figure by method."""
    records = [r for runs in by_label.values() for r in runs]
    record = records[0]
    main = views.headline_metric([record])
    drawn = [views.bars(label, runs, main) for label, runs in by_label.items()]
    splits = views.sizes(record)
    groups = [c.get("cluster") for c in record.about["clients"]]
    grouped = any(g is not None for g in groups)
    header = [said("column.client"), *(said(f"split.{split}") for split in splits)]
    header += [said("column.group")] if grouped else []
    rows, found = [], commented(records)
    for i, name in enumerate(record.clients):
        known = splits["train"][i] > 0  # who is not there yet, or another site, in a site's part of a run
        sizes = [numbers.whole(counts[i]) if known else numbers.NONE for counts in splits.values()]
        row = [f"{name} {about.MARK}" if name in found else name, *sizes]
        row += [numbers.NONE if groups[i] is None else str(groups[i])] if grouped else []
        rows.append([*row, *(numbers.figure(float(b.mean[i]), main) for b in drawn)])
    table = Table([*header, *(b.label for b in drawn)], rows)
    return [table, *map(Sentence, small_samples_notes(records))]


def clients_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly.Plot:
    """Each client's final figure by method, and its gain over local."""
    records = [r for runs in by_label.values() for r in runs]
    names, alone = plotly.ticks(records[0].clients), views.baseline(by_label)
    main = views.headline_metric(records)
    choices = []
    for metric in views.metrics_to_show(records):
        drawn = [views.bars(label, runs, metric) for label, runs in by_label.items()]
        name = said("scores.test", metric=numbers.called(metric))
        choices.append(_by_client(name, metric, names, drawn, inks))
    others = [(label, runs) for label, runs in by_label.items() if label != alone]
    if alone is not None and others and choices:
        drawn = [views.gain_bars(label, runs, by_label[alone], main) for label, runs in others]
        name = said("scores.gain", alone=alone, metric=numbers.label(main))
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
    factor, data = numbers.factor(metric), []
    for bars in drawn:
        ink = inks[bars.label]
        y, name_of = plotly.tidy(factor * bars.mean), plotly.plain(bars.label)
        trace: dict[str, Any] = {"x": list(names), "y": y, "name": name_of}
        trace["hovertemplate"] = "%{x}<br>%{fullData.name} %{customdata}<extra></extra>"
        told = []
        for m, h in zip(bars.mean, bars.half, strict=True):
            mean, half = numbers.figure(m, metric, signed), numbers.figure(h, metric, like=m)
            told.append(mean if half == numbers.NONE else said("plot.pm", mean=mean, half=half))
        trace["customdata"] = told
        if np.isfinite(bars.half).any():
            bar = {"thickness": 1, "width": 2, "color": "#333"}
            dot = {"thickness": 0.7, "width": 0, "color": ink.shade(0.45)}
            error = {"type": "data", "array": plotly.tidy(factor * bars.half)}
            trace["error_y"] = error | (bar if len(names) <= BARS else dot)
        if len(names) <= BARS:
            trace |= {"type": "bar", "marker": {"color": ink.colour, "pattern": {"shape": ink.hatch}}}
        else:
            trace |= {"type": "scatter", "mode": "markers"}
            trace["marker"] = {"color": ink.colour, "symbol": ink.mark, "size": 6, "opacity": 0.85}
        data.append(trace)
    title = name if factor == 1 else said("plot.points" if signed else "plot.percent", name=name)
    yaxis = {"title": {"text": title}, "zeroline": signed, **({} if signed else plotly.within(metric))}
    layout = {"barmode": "group", "bargap": 0.25, "xaxis": {"type": "category"}, "yaxis": yaxis}
    return {"name": name, "data": data, "layout": layout}


class _Try(NamedTuple):
    """A method, and what it gained one client over training alone: above zero is better. `worthless`: the
    client has no better with it than with always the same answer.
    """

    label: str
    gain: Interval
    worthless: bool = False


def client_sentences(records: Sequence[Record]) -> list[str]:
    """One for each client, behind its name; none where nobody trained alone."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    alone = views.baseline(by_label)
    if alone is None:
        return []
    tried = {label: runs for label, runs in by_label.items() if _together(runs)}
    found = {label: views.gain_by_client(runs, by_label[alone], metric) for label, runs in tried.items()}
    worthless = {label: no_gain(by_label, runs, metric) for label, runs in tried.items()}
    lines: list[str] = []
    for i, name in enumerate(records[0].clients):
        tries = [_Try(label, gains[i], bool(worthless[label][i])) for label, gains in found.items()]
        known = [t for t in tries if math.isfinite(t.gain.mean)]
        lines.append(said("report.of", who=name, said=_sentence(known, metric)))
    return lines


def _together(runs: Sequence[Record]) -> bool:
    """Whether clients could use this method to train together."""
    return views.method(runs[0]) not in YARDSTICKS


def _sentence(tries: Sequence[_Try], metric: str) -> str:
    """What the best of these methods brings a client, and what the costliest of the others would cost it.

    A gain or a cost is one only where its interval over seeds leaves out 0, and that over test rows does so
    too where there is one.
    """
    if not tries:
        return said("advice.none")
    best = max(tries, key=lambda t: t.gain.mean)
    name = said("advice.best", method=best.label, n=len(tries)) if len(tries) > 1 else best.label
    if best.worthless:
        return said("advice.nothing", name=name)
    if best.gain.seeds < 2:
        difference = outcome.more_or_less(best.gain.mean, metric)
        bounds = outcome.bounds_of_gain(best.gain, metric)
        return said("advice.single", name=name, difference=difference, bounds=bounds)
    if best.gain.side < 0:
        return said("advice.stay", name=name, size=outcome.size_of(best.gain, metric))
    text = said(
        f"advice.{'pays' if best.gain.side > 0 else 'unclear'}", apart=_apart(name, best.gain, metric)
    )
    costly = [t for t in tries if t.gain.side < 0]
    if not costly:
        return said("report.line", said=text)
    worst = min(costly, key=lambda t: t.gain.mean)
    size = outcome.size_of(worst.gain, metric)
    return said("advice.costly", said=text, method=worst.label, size=size)


def _apart(name: str, gain: Interval, metric: str) -> str:
    """A difference from training alone, without a verdict."""
    if gain.mean == 0:
        return said("advice.same", name=name, difference=outcome.no_difference(gain, metric))
    way = "gains" if gain.mean > 0 else "loses"
    return said(f"advice.{way}", name=name, size=outcome.size_of(gain, metric))


def client_legend(records: Sequence[Record]) -> str:
    """How far the sentences can be trusted."""
    by_label = views.groups(records)
    ways = sum(map(_together, by_label.values()))
    text: list[str] = []
    if ways > 1:
        text.append(said("advice.chosen", n=ways, of=ways * len(records[0].clients)))
    if max(map(len, by_label.values())) > 1:
        text.append(said("covers.pm", covers=covers(records)))
    return sentences(*text, *outcome.beside_legend(records))


def listened(runs: Sequence[Record], most: int = 2) -> list[list[str]]:
    """For each client those others with the largest weights in its model: "age 21-35 0.41"."""
    names = runs[0].clients
    means = [np.mean([np.nan_to_num(w) for w in r.weights.values()], axis=0) for r in runs if r.weights]
    # [receiver, sender] the weight of one's model in the other's, the mean over rounds and seeds
    weights = np.mean(means, axis=0) if means else np.zeros((len(names), len(names)))
    np.fill_diagonal(weights, 0)
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    return [
        [f"{names[j]} {weights[i, j]:.2f}" for j in row if weights[i, j] >= 0.005]
        for i, row in enumerate(order.tolist())
    ]
