"""Who gave how much to whom: a part of the report, and the lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.features.contributions import cells as tables
from coterie.features.contributions.cells import (
    Found,
    alone_at_the_top,
    amount,
    called,
    digits,
    found_in,
    kinds,
    leading,
    legend,
    of_all,
    sentence,
)
from coterie.features.contributions.record import Contributed, without_own
from coterie.show import inks as colours
from coterie.show import plotly, views
from coterie.show.blocks import Block, More, Plot, Section, Sentence, Table
from coterie.show.parts import Part, Runs
from coterie.show.words import said

SIDE = 60  # clients up to which pairs are drawn
SPELLED = 12  # and up to which figures are written into the drawing


def _choice(name: str, found: Contributed, kind: str, order: Sequence[int]) -> dict[str, Any]:
    """Bars of what each gave to others, above the matrix of pairs: the same columns."""
    value, half, given, around = (part[..., order] for part in kinds(found)[kind])
    value, half, names = value[order], half[order], plotly.ticks([found.clients[i] for i in order])
    signed, most = bool((value < 0).any()), float(np.nanmax(np.abs(value), initial=1e-12))
    places, in_all = (0 if kind == "rounds" else digits(values) for values in (value, given))
    pairs = [list(zip(*row, strict=True)) for row in zip(value, half, strict=True)]
    heat = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [plotly.tidy(row) for row in value],
        "zmin": -most if signed else 0,
        "zmax": most,
        "colorscale": plotly.ramp(colours.SCALE_SIGNED if signed else colours.SCALE),
        "customdata": [[amount(v, places, h) for v, h in row] for row in pairs],
        "hovertemplate": plotly.hover(said("contributions.hover")),
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 12, "len": 0.66, "y": 0, "yanchor": "bottom", "outlinewidth": 0},
    }
    if len(order) <= SPELLED:
        heat["text"] = [[amount(v, min(places, 3)) for v in row] for row in value]
        heat["texttemplate"] = "%{text}"
    bars = {
        "type": "bar",
        "x": names,
        "y": plotly.tidy(given),
        "yaxis": "y2",
        "showlegend": False,
        "marker": {"color": ["#D55E00" if v < 0 else "#0072B2" for v in np.nan_to_num(given)]},
        "customdata": [amount(g, in_all, a) for g, a in zip(given, around, strict=True)],
        "hovertemplate": plotly.hover(said("contributions.hover_all")),
    }
    if (np.nan_to_num(around) > 0).any():
        width = {"thickness": 1, "width": 3, "color": "#333"}
        bars["error_y"] = {"type": "data", "array": plotly.tidy(around), **width}
    gave, whom, to_all = ({"text": said(f"contributions.axis.{axis}")} for axis in ("gave", "whom", "all"))
    down = {"type": "category", "autorange": "reversed", "showgrid": False}
    layout = {
        "xaxis": {"type": "category", "showgrid": False, "title": gave, "anchor": "y"},
        "yaxis": {**down, "domain": [0, 0.68], "title": whom},
        "yaxis2": {"domain": [0.75, 1], "title": to_all, "anchor": "x", "zeroline": True},
        "bargap": 0.35,
    }
    return {"name": name, "data": [heat, bars], "layout": layout}


def _plot(found: Found, by_label: views.Groups) -> plotly.Plot | None:
    """A drawing for each method and kind; nothing for very many clients."""
    choices = []
    for label, told in found.items():
        if len(told.clients) > SIDE:
            continue
        order = views.client_order(by_label[label][0])
        names = [leading(told), *(k for k in kinds(told) if k != leading(told))]
        for kind in names:
            if np.isfinite(kinds(told)[kind][0]).any():
                name = said(f"contributions.kind.{kind}")
                if len(found) > 1:
                    name = said("contributions.choice", method=label, kind=name)
                choices.append(_choice(name, told, kind, order))
    side = max((len(told.clients) for told in found.values()), default=0)
    return {"choices": choices, "height": min(900, 360 + 26 * side)} if choices else None


def contributions_part(runs: Runs) -> list[Block]:
    """Nothing where nobody took in anything of anybody."""
    found = found_in(of_all(runs.by_label))
    made: list[Block] = []
    for label, told in found.items():
        lead = said("report.of", who=label, said="") if len(found) > 1 else ""
        made.append(Sentence(sentence(told), lead=lead))
    if (drawing := _plot(found, runs.by_label)) is not None:
        made.append(Plot(f"{runs.key}-contributions", drawing, said("contributions.plot")))
    for label, told in found.items():
        inner = _in_figures(told)
        if len(found) > 1:
            made.append(More(said("contributions.figures_of", method=label), inner))
        else:
            made += inner if told.estimates else [More(said("contributions.figures"), inner)]
    return made


def _in_figures(told: Contributed) -> list[Block]:
    kind = called(leading(told))
    made = [(said("contributions.cells"), tables.cells(told))]
    made.append((said("contributions.pairs", kind=kind), tables.pairs(told)))
    if told.estimates:
        made.append((said("contributions.beside", kind=kind), tables.agreement(told, leading(told))))
        made.append((said("contributions.price"), tables.price(told)))
    inner: list[Block] = [Section(title, [Table(*rows)]) for title, rows in made if rows[1]]
    if len(told.estimates) > 2:
        inner.append(More(said("contributions.agree"), [Table(*tables.agreement(told))]))
    return [*inner, *map(Sentence, legend(told))]


def on_screen(runs: Runs) -> list[Block]:
    """Of runs that were valued: who gave most to all others, and to whom most."""
    found = {label: c for label, c in found_in(of_all(runs.by_label)).items() if c.asked}
    rows = [[label, *most(c)] for label, c in found.items()]
    if not rows:
        return []
    notes = {line: None for c in found.values() if c.unvalued for line in legend(c)[-1:]}
    header = [said("column.method")]
    header += [said(f"contributions.few.{name}") for name in ("by", "gave", "others", "gift", "of")]
    return [runs.table(header, rows), *map(Sentence, (said("contributions.short"), *notes))]


PARTS = (
    Part("contributions", "contributions.title", 150, contributions_part),
    Part("contributions", "", 150, on_screen, on="screen"),
)


def most(found: Contributed) -> list[str]:
    """The cells of one method."""
    kind = leading(found)
    value, half, given, around = kinds(found)[kind]
    others = without_own(value)
    if not np.isfinite(given).any() or not np.isfinite(others).any():
        return [called(kind), "—", "—", "—", "—"]
    best, largest = alone_at_the_top(given), alone_at_the_top(others)
    told: list[str] = [called(kind), "—", "—", "—", "—"]  # of equals nobody is named first
    if best is not None:
        told[1:3] = found.clients[best], amount(given[best], digits(given), around[best])
    if largest is not None:
        r, j = np.unravel_index(largest, others.shape)
        size = amount(value[r, j], digits(others), half[r, j])
        ends = {"giver": found.clients[j], "receiver": found.clients[r]}
        told[3:5] = said("contributions.gift", **ends), size
    return told
