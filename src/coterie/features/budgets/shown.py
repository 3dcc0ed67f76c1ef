"""Figures against what they cost: curves over steps, bytes, seconds and kWh, and methods at equal cost.

spent at a round    by all clients together, up to its end (`hook.py`); the mean over seeds
equal cost          the smallest total that any run of the comparison came to, of those that spent any
within it           the figure after the last scored round that had spent no more
best within it      of all scored rounds up to there; chosen on test rows, so it flatters
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.core.method import UNTRAINED
from coterie.features.energy.record import factor
from coterie.metrics.summary import Interval, means_of_known, worst
from coterie.runs.budget import KINDS, WATTS, read_budget
from coterie.runs.record import Record
from coterie.show import intervals, numbers, plotly, views
from coterie.show.blocks import Block, Plot, Points, Section, Sentence
from coterie.show.inks import Ink
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, Saying, said

if TYPE_CHECKING:
    import pandas as pd

Cells = tuple[list[str], list[list[str]]]


def counted(records: Sequence[Record]) -> list[str]:
    """The kinds of cost that every run knows, of which any spent something."""
    totals = [total(r) for r in records]
    return [k for k in KINDS if all(k in t for t in totals) and any(t[k] for t in totals)]


def total(record: Record) -> dict[str, float]:
    """What a run has spent in all, by kind."""
    return {kind: float(spent[-1]) for kind, spent in record.spent().items() if len(spent)}


def mean_total(runs: Sequence[Record], kind: str) -> float:
    """Of a whole run, the mean over seeds; NaN where it was not counted."""
    return float(np.mean([total(r).get(kind, math.nan) for r in runs]))


def _budgeted(records: Sequence[Record]) -> list[str]:
    """The kinds that any run had a budget of, as far as they were counted."""
    given = {kind for r in records for kind in read_budget(r.settings.budget)}
    return [kind for kind in counted(records) if kind in given]


class _Within(NamedTuple):
    """Of a method: its figure within some cost, and the best until then."""

    last: Interval
    best: Interval


def smallest(records: Sequence[Record], kind: str) -> float:
    """The smallest total of those that spent any."""
    return min((t for t in (total(r)[kind] for r in records) if t > 0), default=0.0)


def within(runs: Sequence[Record], kind: str, most: float) -> _Within:
    """The mean over clients within a cost, over seeds."""
    metric = views.headline_metric(runs)
    pick = max if views.better_higher(runs)[metric] else min
    last, best = list[float](), list[float]()
    for record in runs:
        rounds, values = views.figures(record, metric)
        cost = dict(zip((m["round"] for m in record.metrics), record.spent()[kind], strict=True))
        found = [v for r, v in zip(rounds, means_of_known(values), strict=True) if cost[r] <= most]
        known = [float(v) for v in found if math.isfinite(v)]
        last.append(known[-1] if known else math.nan)
        best.append(pick(known) if known else math.nan)
    return _Within(views.over_splits(runs, last), views.over_splits(runs, best))


def _costs_frame(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each run and round: what was spent up to its end by kind, and the headline figure if it was
    scored: the mean over clients and the worst client's.
    """
    import pandas as pd

    metric = views.headline_metric(records)
    higher, parts = views.better_higher(records)[metric], []
    for label, runs in views.groups(records).items():
        for record in runs:
            spent, rounds = record.spent(), [m["round"] for m in record.metrics]
            known, values = views.figures(record, metric)
            mean = dict(zip(known, means_of_known(values), strict=True))
            least = {r: worst(list(row), higher) for r, row in zip(known, values, strict=True)}
            made: dict[str, Any] = {"label": label, "seed": views.seed(record), "round": rounds}
            made |= {kind: spent.get(kind, math.nan) for kind in KINDS}
            made[metric] = [mean.get(r, math.nan) for r in rounds]
            made[f"worst_{metric}"] = [least.get(r, math.nan) for r in rounds]
            parts.append(pd.DataFrame(made))
    return pd.concat(parts, ignore_index=True)


# as blocks


def _cost_part(runs: Runs) -> list[Block]:
    """Nothing in runs of earlier versions, and before the first round is scored."""
    records, by_label = runs.records, runs.by_label
    known = counted(records)
    if not known or not any(views.has_figures(r, views.headline_metric(records)) for r in records):
        return []
    text = said("budgets.said")
    if views.band_kind(by_label) == "seeds":
        text = said("budgets.said_shade", over=intervals.over(records))
    made: list[Block] = [Plot(f"{runs.key}-costs", curves_plot(by_label, runs.inks), text)]
    made.append(runs.table(*spent_cells(by_label)))
    if "kwh" in known:
        watts = sorted({float(r.config.get("power", WATTS)) for r in records})
        legend = said("budgets.kwh_given", watts=" / ".join(f"{w:g}" for w in watts))
        if watts == [WATTS]:
            low, high = (Figure(f"{end:g}") for end in _ends())
            legend = said("budgets.kwh_said", watts=f"{WATTS:g}", low=low, high=high)
        made.append(Sentence(legend))
    if len(by_label) > 1:
        made.append(Section(said("budgets.equal"), _at_equal_cost(runs, _budgeted(records) or known)))
    return made


def on_screen(runs: Runs) -> list[Block]:
    """Methods at equal cost, where they had budgets."""
    wanted = _budgeted(runs.records)
    if not wanted or len(runs.by_label) < 2:
        return []
    return _at_equal_cost(runs, wanted)


def _at_equal_cost(runs: Runs, wanted: Sequence[str]) -> list[Block]:
    legend = said("budgets.equal_said", metric=numbers.unit(views.headline_metric(runs.records)))
    return [runs.table(*equal_cells(runs.records, wanted)), Sentence(legend)]


def _amount(value: float, kind: str) -> str:
    """With its unit."""
    if kind == "bytes":
        return numbers.size(value)
    if kind == "seconds":
        return numbers.duration(value)
    return numbers.several(value, "step") if kind == "steps" else numbers.energy(value)


def _bare(value: float, kind: str) -> str:
    """The same beside a unit that is steps already."""
    return Figure(f"{value:,.0f}".replace(",", "\u202f")) if kind == "steps" else _amount(value, kind)


def curves_plot(by_label: views.Groups, inks: Mapping[str, Ink]) -> plotly.Plot:
    """The headline figure against each kind of cost, and by round: the mean over clients, the worst one."""
    records = [r for runs in by_label.values() for r in runs]
    metric, choices = views.headline_metric(records), []
    higher = views.better_higher(records)[metric]

    def worst_of(values: np.ndarray) -> np.ndarray:
        return np.array([worst(list(row), higher) for row in values])

    ways: tuple[tuple[str, views.Over, views.Band], ...] = (
        (said("budgets.mean"), means_of_known, views.band_kind(by_label)),
        (said("budgets.worst"), worst_of, "seeds"),
    )
    for name, over, band in ways:
        for kind in (*counted(records), "rounds"):
            data: list[dict[str, Any]] = []
            for label, runs in by_label.items():
                curve = views.curve(label, runs, band, metric, over=over)
                if curve.rounds:
                    drawn = plotly.curve_traces(against(curve, runs, kind), inks[label], metric)
                    drawn[-1]["hovertemplate"] = "%{x:.4s}: %{customdata}"
                    data += drawn
            axis = said(f"budgets.axis.{kind}")
            value = said("budgets.value", metric=numbers.unit(metric), name=name)
            layout = {
                "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
                "yaxis": {"title": {"text": value}, **plotly.within(metric)},
                "hovermode": "closest",
            }
            title = said("budgets.against", name=name, axis=axis)
            choices.append({"name": title, "data": data, "layout": layout})
    return {"choices": choices}


def against(curve: views.Curve, runs: Sequence[Record], kind: str) -> views.Curve:
    """The same curve with what was spent in the place of rounds: the mean over the seeds that have one."""
    if kind == "rounds":
        return curve
    spent = [dict(zip((m["round"] for m in r.metrics), r.spent()[kind], strict=True)) for r in runs]
    at = [float(np.mean([s[r] for s in spent if r in s])) for r in curve.rounds]
    return replace(curve, rounds=at)


def equal_cells(records: Sequence[Record], wanted: Sequence[str]) -> Cells:
    """Header and rows: of each kind the figure within the smallest total, and in brackets the best."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    most = {kind: smallest(records, kind) for kind in wanted}
    header: list[str] = [said("column.method")]
    header += [said("budgets.within", amount=_amount(most[kind], kind)) for kind in wanted]
    rows = []
    for label, runs in by_label.items():
        row = [label]
        for kind in wanted:
            last, best = within(runs, kind, most[kind])
            blanks = {"last": numbers.spread(last, metric), "best": numbers.figure(best.mean, metric)}
            row.append(numbers.NONE if math.isnan(last.mean) else said("budgets.best", **blanks))
        rows.append(row)
    return header, rows


def spent_cells(by_label: views.Groups) -> Cells:
    """Header and rows: what a whole run spent, the mean over seeds."""
    known = counted([r for runs in by_label.values() for r in runs])
    header: list[str] = [said("column.method"), said("column.rounds")]
    header += [said("budgets.energy" if kind == "kwh" else f"budgets.axis.{kind}") for kind in known]
    rows = []
    for label, runs in by_label.items():
        line = [label, numbers.whole(float(np.mean([r.done for r in runs])))]
        for kind in known:
            mean = mean_total(runs, kind)
            if kind == "kwh" and not any("power" in r.config for r in runs):
                low, high = (numbers.energy(mean * watts / WATTS) for watts in _ends())
                line.append(said("budgets.kwh_range", kwh=numbers.energy(mean), low=low, high=high))
            else:
                line.append(_bare(mean, kind))
        rows.append(line)
    return header, rows


def ended(records: Sequence[Record]) -> list[Saying]:
    """Which methods a budget ended, those alike in one line, and what to know of their models."""
    by_line: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for label, runs in views.groups(records).items():
        cut = [r for r in runs if r.ended in KINDS]
        if cut:
            blanks = _ending(cut, len(runs))
            by_line.setdefault(str(blanks), ([], blanks))[0].append(label)
    return [said("budgets.ended", methods=labels, **blanks) for labels, blanks in by_line.values()]


def _ending(cut: Sequence[Record], of: int) -> dict[str, Any]:
    """What fills the blanks of the line."""
    done = sorted({r.done for r in cut})
    which = sorted({r.ended for r in cut}, key=KINDS.index)
    most = read_budget(cut[0].settings.budget)
    spent: Any = [  # 1 040 of 1 000 steps: the last round is not cut
        said("budgets.overshot", spent=_bare(mean_total(cut, kind), kind), most=_amount(most[kind], kind))
        for kind in which
        if kind in counted(cut)
    ]
    if len(cut) < of:
        spent = said("budgets.some", spent=spent, n=len(cut), seeds=numbers.several(of, "seed"))
    more = ""
    if any(r.metrics[-1].get("extras", {}).get("note") == UNTRAINED for r in cut):
        more = said("budgets.untrained", note=UNTRAINED)
    tables = (v for v in cut[0].config.values() if isinstance(v, Mapping))
    if any(table.get("schedule", "constant") != "constant" for table in tables):  # a rate that falls
        more = said("list.joined", one=more, other=said("budgets.falls"))
    rounds = done[0] if len(done) == 1 else said("list.to", low=done[0], high=done[-1])
    return {"rounds": rounds, "of": cut[0].settings.rounds, "spent": spent, "more": more}


def _ends() -> tuple[float, float]:
    """The least and the most watts that a busy core may draw."""
    watts = factor("watts")
    return watts.low, watts.high


def _ended_part(runs: Runs) -> list[Block]:
    return [Sentence(said("report.line", said=line)) for line in ended(runs.records)]


PARTS = (
    Part("costs", "budgets.title", 30, _cost_part),
    Part("costs", "", 30, on_screen, on="screen"),
    Part("ended", "", 30, _ended_part, on="summary"),
    Part("ended", "", 30, lambda runs: [Points(ended(runs.records))], on="ended"),
)
COLUMNS = {"steps": partial(mean_total, kind="steps"), "kwh": partial(mean_total, kind="kwh")}
FRAMES = {"costs.csv": _costs_frame}
