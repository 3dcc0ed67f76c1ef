"""What looking at rows has cost: epsilon by site and by partner, and the accuracy that noise costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.runs.record import COORDINATOR
from coterie.show import inks as colours
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, Plot, Section, Sentence
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, said, semicolons

HIDING = ("dp(", "bounded(")  # kernels that hide rows, or a client, behind noise
FEW = 30  # sites of a method that a table lists one by one
SIDE = 60  # sites up to which partners are drawn
SPELLED = 12  # and up to which the figures are written into the drawing
Statements = dict[str, Mapping[str, Any]]
Cells = tuple[list[str], list[list[str]]]


def privacy_part(runs: Runs) -> list[Block]:
    """Nothing where no local work has a bound."""
    told = statements(runs.by_label)
    if not told:
        return []
    made: list[Block] = [runs.table(*cells(told)), *map(Sentence, legend(told))]
    if (drawn := plot(told)) is not None:
        made.append(Plot(f"{runs.key}-privacy", drawn, said("privacy.plot")))
    header, rows = price(runs.by_label, told)
    return [*made, Section(said("privacy.price"), [runs.table(header, rows)])] if rows else made


def on_screen(runs: Runs) -> list[Block]:
    told = statements(runs.by_label)
    if not told:
        return []
    header, rows = cells(told)
    if len(told) == 1:
        header, rows = header[1:], [row[1:] for row in rows]
    return [runs.table(header, rows), *map(Sentence, legend(told))]


PARTS = (
    Part("privacy", "privacy.title", 170, privacy_part, of="privacy"),
    Part("privacy", "", 170, on_screen, on="screen", of="privacy"),
)


def statements(by_label: views.Groups) -> Statements:
    """What the first seed of each method says, of those that say anything."""
    found: Statements = {}
    for label, runs in by_label.items():
        if (told := next((p for r in runs if (p := r.privacy()) is not None), None)) is not None:
            found[label] = told
    return found


def cells(told: Statements) -> Cells:
    """A line for each method and site."""
    columns = ("site", "rows", "colluding", "most", "out")
    header: list[str] = [said("column.method"), *(said(f"privacy.{c}") for c in columns)]
    rows: list[list[str]] = []
    for label, statement in told.items():
        sites = statement["sites"]
        for site in sites[:FEW]:
            # since which round nothing is left, and for whom if not for all
            out = semicolons(
                said("privacy.from_round", round=r, who=who) for who, r in site.get("out", {}).items()
            )
            size = numbers.whole(site["rows"])
            rows.append([label, site["name"], size, _figure(site["epsilon"]), most(site), out])
        if len(sites) > FEW:
            worst = max((s["epsilon"] for s in sites[FEW:] if s["epsilon"] is not None), default=None)
            more = said("privacy.more", n=len(sites) - FEW)
            rows.append([label, more, "", said("privacy.at_most", epsilon=_figure(worst)), "", ""])
    if not any(row[-1] for row in rows):  # nobody is out of budget
        return header[:-1], [row[:-1] for row in rows]
    return header, rows


def _figure(value: float | None) -> str:
    if value is None:
        return said("privacy.no_bound")
    return Figure(f"{value:.3g}" if value < 100 else f"{value:,.0f}")


def most(site: Mapping[str, Any]) -> str:
    """The partner who could learn most by itself."""
    by = {who: math.inf if e is None else e for who, e in site["by"].items()}
    worst = max(by, key=by.__getitem__, default="")
    if not worst or by[worst] <= (site["everybody"] or 0):
        return said("privacy.each", epsilon=_figure(site["everybody"]))
    alike, epsilon = sum(e == by[worst] for e in by.values()), _figure(site["by"][worst])
    if alike == 1:
        return said("privacy.for_one", epsilon=epsilon, who=worst)
    return said("privacy.for_some", epsilon=epsilon, n=alike)


def legend(told: Statements) -> list[str]:
    """What has to be known to read the figures."""
    first = next(iter(told.values()))
    lines: list[str] = [said("privacy.said", delta=f"{first['delta']:g}")]
    of = [label for label, s in told.items() if any("client" in site["units"] for site in s["sites"])]
    lines += [said("privacy.clients", methods=of)] if of else []
    for label, statement in told.items():
        budget, outside = statement["budget"], statement["outside"]
        if budget:
            blanks = {"method": label, "epsilon": Figure(f"{budget['epsilon']:g}")}
            if each := budget["per_requester"]:
                blanks["each"] = Figure(f"{each:g}")
            lines.append(said("privacy.budget_each" if each else "privacy.budget", **blanks))
        if outside["method"]:
            lines.append(said("privacy.outside", method=label, names=list(outside["method"])))
        if statement["scores"] == "noisy":
            sigma, bound = statement["noise"]["sigma"], statement["noise"]["bound"]
            ends = {"accuracy": Figure(f"{sigma:g}"), "loss": Figure(f"{sigma * bound:g}")}
            lines.append(said("privacy.noisy", method=label, **ends))
    scored = {label: sum(s["outside"]["evaluation"].values()) for label, s in told.items()}
    visits = [said("report.of", who=k, said=numbers.several(n, "visit")) for k, n in scored.items() if n]
    return [*lines, said("privacy.scores", visits=visits)] if visits else lines


def plot(told: Statements) -> plotly.Plot | None:
    """Epsilon by site and by partner; nothing for very many."""
    choices = [_choice(k, s["sites"]) for k, s in told.items() if len(s["sites"]) <= SIDE]
    return {"choices": choices} if choices else None


def _choice(label: str, sites: list[Mapping[str, Any]]) -> dict[str, Any]:
    partners = [*(site["name"] for site in sites), COORDINATOR]
    values = np.array([[partner(site, who) for who in partners] for site in sites], dtype=float)
    short = plotly.ticks(partners)
    heat = {
        "type": "heatmap",
        "x": short,
        "y": short[:-1],
        "z": [plotly.tidy(row) for row in values],
        "zmin": 0,
        "zmax": float(np.nanmax(values, initial=1e-3)),
        "colorscale": plotly.ramp(colours.SCALE),
        **({"texttemplate": "%{z:.3g}"} if len(sites) <= SPELLED else {}),
        "hovertemplate": plotly.hover(said("privacy.hover")),
        "xgap": 1,
        "ygap": 1,
    }
    axis = {"type": "category", "showgrid": False}
    layout = {
        "xaxis": {**axis, "title": {"text": said("privacy.axis.partner")}},
        "yaxis": {**axis, "title": {"text": said("privacy.axis.site")}, "autorange": "reversed"},
    }
    return {"name": label, "data": [heat], "layout": layout}


def partner(site: Mapping[str, Any], who: str) -> float:
    found = None if who == site["name"] else site["by"].get(who, site["everybody"])
    return math.nan if found is None else float(found)


def twins(by_label: views.Groups) -> list[tuple[str, str]]:
    """Methods with noise, each beside the same without: with the same options, whatever its local work."""
    hiding, clear = dict[str, str](), dict[str, str]()
    for label, (first, *_) in by_label.items():
        method = first.settings.method
        mark = repr((method, sorted(dict(first.config.get(method, {})).items(), key=str)))
        if first.settings.kernel.startswith(HIDING):
            hiding[label] = mark
        else:
            clear[mark] = label
    return [(label, clear[mark]) for label, mark in hiding.items() if mark in clear]


def price(by_label: views.Groups, told: Statements) -> Cells:
    """The headline figure with noise, without, and what it costs; the mean over clients and seeds."""
    metric = views.headline_metric([next(iter(by_label.values()))[0]])

    def mean(label: str) -> float:
        runs = by_label[label]
        if not any(views.has_figures(r, metric) for r in runs):
            return math.nan
        return float(np.nanmean([np.nanmean(views.final(r, metric)) for r in runs]))

    rows = []
    for label, other in twins(by_label):
        private, clear = mean(label), mean(other)
        sites = told[label]["sites"] if label in told else []
        worst = max((math.inf if s["epsilon"] is None else s["epsilon"] for s in sites), default=math.nan)
        spent = numbers.NONE if math.isnan(worst) else _figure(worst if math.isfinite(worst) else None)
        by = numbers.factor(metric)
        figures = [numbers.number(by * private), other, numbers.number(by * clear)]
        rows.append([label, spent, *figures, numbers.number(by * (private - clear), sign=True)])
    unit = numbers.unit(metric)
    header: list[str] = [said("column.method"), said("privacy.costs.most"), unit]
    header += [said("privacy.costs.without"), said("privacy.costs.there", metric=unit)]
    return [*header, said("privacy.costs.difference")], rows
