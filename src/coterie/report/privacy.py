"""What looking at rows has cost: epsilon by site and by partner, and the accuracy that noise costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.report import inks as colours
from coterie.report import page_tables, plotly_data, views, words
from coterie.report.glossary import behind, linked
from coterie.report.inks import Ink
from coterie.runs.record import COORDINATOR, Record

HIDING = ("dp(", "bounded(")  # kernels that hide rows, or a client, behind noise
FEW = 30  # sites of a method that a table lists one by one
SIDE = 60  # sites up to which partners are drawn
SPELLED = 12  # and up to which the figures are written into the drawing
SPENT = behind("epsilon")
Statements = dict[str, Mapping[str, Any]]
LEGEND = (
    "Epsilon bounds what a site's answers tell of any one row, whatever anybody knows besides: the smaller, "
    "the less. All colluding: of all that left the site, whatever anybody passes on. A partner's figure "
    "holds only for what that partner got from that site itself."
)
CLIENTS = "For {} epsilon is of all rows of a client at once."


def statements(by_label: views.Groups) -> Statements:
    """What the first seed of each method says, of those that say anything."""
    found = {label: next((p for r in runs if (p := r.privacy()) is not None), None)
             for label, runs in by_label.items()}  # fmt: skip
    return {label: told for label, told in found.items() if told is not None}


def cells(told: Statements) -> tuple[list[str], list[list[str]]]:
    """A line for each method and site."""
    header = ["method", "site", "rows", f"{SPENT}, all colluding", "most for one partner", "out of budget"]
    rows = []
    for label, statement in told.items():
        sites = statement["sites"]
        for site in sites[:FEW]:
            rows.append(
                [
                    label,
                    site["name"],
                    words.whole(site["rows"]),
                    figure(site["epsilon"]),
                    most(site),
                    out(site),
                ]
            )
        if len(sites) > FEW:
            worst = max((s["epsilon"] for s in sites[FEW:] if s["epsilon"] is not None), default=None)
            rows.append([label, f"{len(sites) - FEW} more", "", f"at most {figure(worst)}", "", ""])
    return header, rows


def figure(value: float | None) -> str:
    return "no bound" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def most(site: Mapping[str, Any]) -> str:
    """The partner who could learn most by itself."""
    by = {who: math.inf if e is None else e for who, e in site["by"].items()}
    worst = max(by, key=lambda who: by[who], default="")
    if not worst or by[worst] <= (site["everybody"] or 0):
        return f"{figure(site['everybody'])}, each"
    alike = sum(e == by[worst] for e in by.values())
    return f"{figure(site['by'][worst])}, {worst if alike == 1 else f'{alike} partners'}"


def out(site: Mapping[str, Any]) -> str:
    """Since which round nothing is left, and for whom if not for all."""
    since = site.get("out", {})
    return "; ".join(f"from round {round} for {who}" for who, round in since.items())


def said(told: Statements) -> list[str]:
    """What has to be known to read the figures."""
    first = next(iter(told.values()))
    lines = [f"{LEGEND} Delta is {first['delta']:g}."]
    if any("client" in site["units"] for s in told.values() for site in s["sites"]):
        of = [label for label, s in told.items() if any("client" in site["units"] for site in s["sites"])]
        lines.append(CLIENTS.format(", ".join(of)))
    for label, statement in told.items():
        budget, outside = statement["budget"], statement["outside"]
        if budget:
            each = budget["per_requester"]
            each = f", and {each:g} for one partner" if each else ""
            lines.append(f"Budget of {label}: epsilon {budget['epsilon']:g} a site{each}.")
        if outside["method"]:
            names = ", ".join(outside["method"])
            lines.append(
                f"These figures do not bound what clients of {label} told: answers that the method asked for "
                f"({names}) left without noise. With --wrap private they get some, or are refused."
            )
        if statement["scores"] == "noisy":
            sigma, bound = statement["noise"]["sigma"], statement["noise"]["bound"]
            lines.append(
                f"Scores of {label} have noise themselves: of standard deviation {sigma:g} / n in an "
                f"accuracy on n rows, {sigma * bound:g} / n in a loss."
            )
    scored = {label: sum(s["outside"]["evaluation"].values()) for label, s in told.items()}
    if any(scored.values()):
        many = ", ".join(f"{label}: {words.several(n, 'visit')}" for label, n in scored.items() if n)
        lines.append(f"Scores for this report left without noise, outside of these figures ({many}).")
    return lines


def plot(told: Statements) -> plotly_data.Plot | None:
    """Epsilon by site and by partner; nothing for very many."""
    choices = []
    for label, statement in told.items():
        sites = statement["sites"]
        if len(sites) > SIDE:
            continue
        names = [site["name"] for site in sites]
        partners = [*names, COORDINATOR]
        values = np.array([[partner(site, who) for who in partners] for site in sites], dtype=float)
        short = plotly_data.ticks(partners)
        choices.append(
            {
                "name": label,
                "data": [
                    {
                        "type": "heatmap",
                        "x": short,
                        "y": short[:-1],
                        "z": [plotly_data.tidy(row) for row in values],
                        "zmin": 0,
                        "zmax": float(np.nanmax(values, initial=1e-3)),
                        "colorscale": plotly_data.ramp(colours.SCALE),
                        **({"texttemplate": "%{z:.3g}"} if len(sites) <= SPELLED else {}),
                        "hovertemplate": "%{y} to %{x}: epsilon %{z}<extra></extra>",
                        "xgap": 1,
                        "ygap": 1,
                    }
                ],
                "layout": {
                    "xaxis": {
                        "title": {"text": "what this partner got"},
                        "type": "category",
                        "showgrid": False,
                    },
                    "yaxis": {
                        "showgrid": False,
                        "title": {"text": "of this site's rows"},
                        "type": "category",
                        "autorange": "reversed",
                    },
                },
            }
        )
    return {"choices": choices} if choices else None


def partner(site: Mapping[str, Any], who: str) -> float:
    if who == site["name"]:
        return math.nan
    found = site["by"].get(who, site["everybody"])
    return math.nan if found is None else float(found)


def twins(by_label: views.Groups) -> list[tuple[str, str]]:
    """Methods with noise, each beside the same without."""
    found, clear = [], {mark(runs[0]): label for label, runs in by_label.items() if not hides(runs[0])}
    for label, runs in by_label.items():
        if hides(runs[0]) and (other := clear.get(mark(runs[0]))) is not None:
            found.append((label, other))
    return found


def hides(record: Record) -> bool:
    return str(record.config.get("kernel", "")).startswith(HIDING)


def mark(record: Record) -> str:
    """The same for a method with the same options, whatever its local work."""
    method = str(record.config.get("method", ""))
    return repr((method, sorted(dict(record.config.get(method, {})).items(), key=str)))


def price(by_label: views.Groups, told: Statements) -> tuple[list[str], list[list[str]]]:
    """The headline figure with noise, without, and what it costs; the mean over clients and seeds."""
    metric = views.headline_metric([next(iter(by_label.values()))[0]])
    rows = []
    for label, other in twins(by_label):
        private, clear = (
            float(np.nanmean([np.nanmean(views.final(r, metric)) for r in by_label[name]]))
            if any(views.has_figures(r, metric) for r in by_label[name])
            else math.nan
            for name in (label, other)
        )
        sites = told[label]["sites"] if label in told else []
        worst = max((math.inf if s["epsilon"] is None else s["epsilon"] for s in sites), default=math.nan)
        by = words.factor(metric)
        rows.append(
            [
                label,
                "—" if math.isnan(worst) else figure(worst if math.isfinite(worst) else None),
                words.number(by * private),
                other,
                words.number(by * clear),
                words.number(by * (private - clear), sign=True),
            ]
        )
    unit = words.unit(metric)
    return ["method", f"most {SPENT}", unit, "without noise", f"{unit} there", "difference"], rows


def part(by_label: views.Groups, inks: Mapping[str, Ink], key: str) -> str:
    """The section of a page; nothing where no local work has a bound."""
    told = statements(by_label)
    if not told:
        return ""
    header, rows = without_empty(*cells(told))
    lines = [[page_tables.swatch(row[0], inks), *map(escape, row[1:])] for row in rows]
    made = page_tables.table(header, lines, "figures")
    made += "".join(f"<p>{linked(line)}</p>" for line in said(told))
    if (drawn := plot(told)) is not None:
        made += _figure(key, drawn)
    header, rows = price(by_label, told)
    if rows:
        lines = [[page_tables.swatch(row[0], inks), *map(escape, row[1:])] for row in rows]
        made += f"<h3>What the noise costs</h3>{page_tables.table(header, lines, 'figures')}"
    return made


def _figure(key: str, drawn: plotly_data.Plot) -> str:
    from coterie.report.page_figures import figure as figure_of

    return figure_of(
        key, drawn, "Row: whose rows; column: what this partner got from that site itself; colour: epsilon."
    )


def few(records: Sequence[Record]) -> tuple[list[str], list[list[str]], list[str]] | None:
    """The same for a terminal: header, rows, and what is said below."""
    told = statements(views.groups(records))
    if not told:
        return None
    header, rows = without_empty(*cells(told))
    if len(told) == 1:
        header, rows = header[1:], [row[1:] for row in rows]
    return header, rows, said(told)


def without_empty(header: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Without the last column, if nobody is out of budget."""
    if any(row[-1] for row in rows):
        return header, rows
    return header[:-1], [row[:-1] for row in rows]
