"""What was measured of the others: what there is to go by, and pictures of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.core.method import CIRCLE
from coterie.page.cards.base import Picture, tinted
from coterie.page.catalogue import Words
from coterie.page.view import View
from coterie.report import inks as colours
from coterie.report import views
from coterie.report.plotly_data import Plot, plain, ticks, tidy
from coterie.runs.alike import Similarity

BARS = 12  # columns of a picture
LINES = 12  # others that are drawn


def slug(name: str) -> str:
    return name.replace(" ", "-")


def numbers(view: View) -> Mapping[str, str]:
    """The matrices that the method goes by, and whether a high or a low number speaks for another."""
    return view.partners.by if view.partners is not None else {}


def named(view: View) -> list[str]:
    """The matrices that say anything of this client, those that the method goes by first."""
    found = []
    for name, by_round in view.record.matrices.items():
        if name != CIRCLE and by_round and np.isfinite(last_row(view, name)[view.others]).any():
            found.append(name)
    return sorted(found, key=lambda name: [*numbers(view), name].index(name))


def last_row(view: View, name: str) -> np.ndarray:
    """[other] the last figures; where one of them is not known any more, the last that was."""
    values = view.rows(sorted(view.record.matrices[name], reverse=True), name)  # the newest first
    first = np.isfinite(values).argmax(axis=0)
    row: np.ndarray = values[first, np.arange(len(view.names))]
    return row


def pictures(view: View, say: Words) -> list[Picture]:
    made = []
    lines = [choice for name in named(view) if (choice := line_choice(view, name, say))]
    if lines:
        made.append(Picture("why-rounds", {"choices": lines}, say("why.picture_rounds")))
    if view.similarity is not None:
        made.append(Picture("why-sites", sites_plot(view, view.similarity, say), say("why.picture_sites")))
        if (plot := columns_plot(view, view.similarity, say))["choices"]:
            made.append(Picture("why-columns", plot, say("why.picture_columns")))
    return made


def line_choice(view: View, name: str, say: Words) -> dict[str, Any] | None:
    """A line for each other, or bars if it was measured once."""
    by_round = view.record.matrices[name]
    rounds = views.thin(sorted(by_round), 120)
    values = view.rows(rounds, name)
    some = [j for j in view.others if np.isfinite(values[:, j]).any()]
    if not some:
        return None
    some = sorted(some, key=lambda j: -np.nanmax(np.abs(values[:, j])))[:LINES]
    looks, what = tinted(view.names, some, view.number), say.of(f"matrix.{slug(name)}.name", name)
    if len(rounds) == 1:
        data: list[Mapping[str, Any]] = [
            {
                "type": "bar",
                "orientation": "h",
                "y": ticks([view.names[j] for j in some]),
                "x": tidy(values[0, some]),
                "marker": {"color": colours.COLOURS[0]},
                "hovertemplate": "%{y}: %{x:.3~g}<extra></extra>",
            }
        ]
        layout: dict[str, Any] = {
            "xaxis": {"title": {"text": plain(what)}},
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        }
        return {"name": what, "data": data, "layout": layout}
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "connectgaps": True,
            "x": rounds,
            "y": tidy(values[:, j]),
            "name": looks[j]["name"],
            "line": {k: v for k, v in looks[j].items() if k != "name"},
            "marker": {"color": looks[j]["color"], "size": 4},
            "hovertemplate": "%{y:.3~g}",
        }
        for j in some
    ]
    layout = {"xaxis": {"title": {"text": say("axis.round")}}, "yaxis": {}}
    return {"name": what, "data": data, "layout": {**layout, "hovermode": "x unified"}}


def sites_plot(view: View, found: Similarity, say: Words) -> Plot:
    """How far the rows of each other lie from one's own, and what chance would make of it."""
    measure = next(iter(found.measures))
    row, chance = found.measures[measure][view.number], found.chance.get(measure)
    order = sorted((j for j in view.others if np.isfinite(row[j])), key=lambda j: float(row[j]))[:40]
    names = ticks([view.names[j] for j in order])
    by_chance = np.full(len(order), np.nan) if chance is None else chance[view.number][order]
    return two_bars(names, row[order], by_chance, say)


def columns_plot(view: View, found: Similarity, say: Words) -> Plot:
    """For each other, the columns that differ most."""
    choices = []
    for j in view.others[:60]:
        terms, chance = found.terms[view.number, j], found.expected[view.number, j]
        if not np.isfinite(terms).any():
            continue
        order = np.argsort(-np.nan_to_num(terms, nan=-1.0), kind="stable")[:BARS]
        names = ticks([found.columns[c] for c in order], 24)
        one = two_bars(names, terms[order], chance[order], say)["choices"][0]
        choices.append({**one, "name": view.names[j]})
    return {"choices": choices, "height": 160 + 22 * min(BARS, len(found.columns))}


def two_bars(names: list[str], values: np.ndarray, chance: np.ndarray, say: Words) -> Plot:
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": tidy(values),
        "y": names,
        "name": say("why.difference"),
        "marker": {"color": colours.COLOURS[0]},
        "hovertemplate": "%{y}: %{x:.3~g}<extra></extra>",
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": tidy(chance),
        "y": names,
        "name": say("why.by_chance"),
        "marker": {"color": colours.COLOURS[4], "symbol": "line-ns-open", "size": 14, "line": {"width": 3}},
        "hovertemplate": "%{x:.3~g}<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": say("why.axis")}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
        "bargap": 0.35,
    }
    return {
        "choices": [{"name": "", "data": [bars, marks], "layout": layout}],
        "height": 130 + 30 * len(names),
    }
