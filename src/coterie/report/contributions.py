"""Who gave how much to whom: the section of a page, and the lines of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.report import inks as colours
from coterie.report import page_tables, plotly_data, views
from coterie.report.contribution_tables import (
    Found,
    agreement,
    alone_at_the_top,
    amount,
    cells,
    digits,
    found_in,
    kinds,
    leading,
    of_all,
    pairs,
    price,
    said,
    sentence,
)
from coterie.report.inks import Ink
from coterie.runs.contributed import WEIGHT, Contributed, without_own
from coterie.runs.record import Record

SIDE = 60  # clients up to which pairs are drawn
SPELLED = 12  # and up to which figures are written into the drawing
KINDS = {
    "rounds": "rounds in which its reply was taken in",
    WEIGHT: "weight of its replies, summed over rounds",
    "first-order": "first-order influence: how fast the loss falls towards its reply",
    "leave-one-out": "what is lost if it alone is missing",
    "shapley": "Shapley value, by random orders",
    "gtg": "Shapley value, by guided orders (GTG)",
    "exact-shapley": "Shapley value, exact",
}
SHORT = (
    "Gave: by how much the mean loss of the others fell because of its replies. `coterie contributions` on "
    "the folder tells all."
)


def choice(name: str, found: Contributed, kind: str, order: Sequence[int]) -> dict[str, Any]:
    """Bars of what each gave to others, above the matrix of pairs: the same columns."""
    value, half, given, around = (part[..., order] for part in kinds(found)[kind])
    value, half, names = value[order], half[order], plotly_data.ticks([found.clients[i] for i in order])
    signed, most = bool((value < 0).any()), float(np.nanmax(np.abs(value), initial=1e-12))
    places = 0 if kind == "rounds" else digits(value)
    texts = [
        [amount(v, places, h) for v, h in zip(*row, strict=True)] for row in zip(value, half, strict=True)
    ]
    heat = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [plotly_data.tidy(row) for row in value],
        "zmin": -most if signed else 0,
        "zmax": most,
        "colorscale": plotly_data.ramp(colours.SCALE_SIGNED if signed else colours.SCALE),
        "customdata": texts,
        "hovertemplate": "%{x} to %{y}: %{customdata}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 12, "len": 0.66, "y": 0, "yanchor": "bottom", "outlinewidth": 0},
    }
    if len(order) <= SPELLED:
        heat |= {
            "text": [[amount(v, min(places, 3)) for v in row] for row in value],
            "texttemplate": "%{text}",
        }
    bars = {
        "type": "bar",
        "x": names,
        "y": plotly_data.tidy(given),
        "yaxis": "y2",
        "showlegend": False,
        "marker": {"color": ["#D55E00" if v < 0 else "#0072B2" for v in np.nan_to_num(given)]},
        "customdata": [
            amount(g, 0 if kind == "rounds" else digits(given), a) for g, a in zip(given, around, strict=True)
        ],
        "hovertemplate": "%{x} to all others: %{customdata}<extra></extra>",
    }
    if (np.nan_to_num(around) > 0).any():
        bars["error_y"] = {
            "type": "data",
            "array": plotly_data.tidy(around),
            "thickness": 1,
            "width": 3,
            "color": "#333",
        }
    layout = {
        "xaxis": {"type": "category", "showgrid": False, "title": {"text": "who gave"}, "anchor": "y"},
        "yaxis": {
            "type": "category",
            "autorange": "reversed",
            "showgrid": False,
            "domain": [0, 0.68],
            "title": {"text": "to whom"},
        },
        "yaxis2": {"domain": [0.75, 1], "title": {"text": "to all others"}, "anchor": "x", "zeroline": True},
        "bargap": 0.35,
    }
    return {"name": name, "data": [heat, bars], "layout": layout}


def plot(found: Found, by_label: views.Groups) -> plotly_data.Plot | None:
    """A drawing for each method and kind; nothing for very many clients."""
    choices = []
    for label, told in found.items():
        if len(told.clients) > SIDE:
            continue
        order = views.client_order(by_label[label][0])
        names = [leading(told), *(k for k in kinds(told) if k != leading(told))]
        for kind in names:
            if np.isfinite(kinds(told)[kind][0]).any():
                name = KINDS.get(kind, kind)
                choices.append(choice(f"{label}: {name}" if len(found) > 1 else name, told, kind, order))
    side = max((len(told.clients) for told in found.values()), default=0)
    return {"choices": choices, "height": min(900, 360 + 26 * side)} if choices else None


def part(by_label: views.Groups, inks: Mapping[str, Ink], key: str) -> str:
    """The section of a page; nothing where nobody took in anything of anybody."""
    found = found_in(of_all(by_label))
    if not found:
        return ""
    from coterie.report.page_figures import figure, more

    made = ""
    for label, told in found.items():
        named = f"{page_tables.swatch(label, inks)}: " if len(found) > 1 else ""
        made += f"<p>{named}{escape(sentence(told))}</p>"
    if (drawing := plot(found, by_label)) is not None:
        made += figure(key, drawing, "Bars: what each gave to all others; below, column by column, to whom.")
    for label, told in found.items():
        named = f" of {label}" if len(found) > 1 else ""
        tables = [("What each client gave to the others", cells(told))]
        tables += [(f"By requester, {leading(told)}", pairs(told))]
        if told.estimates:
            tables += [(f"Beside {leading(told)}", agreement(told, leading(told)))]
            tables += [("What they took", price(told))]
        inner = "".join(f"<h3>{escape(title)}</h3>{_table(*rows)}" for title, rows in tables if rows[1])
        if len(told.estimates) > 2:
            inner += more("How far any two agree", _table(*agreement(told)))
        inner += "".join(f"<p>{escape(line)}</p>" for line in said(told))
        made += (
            more(f"Contributions{named} in figures", inner) if len(found) > 1 or not told.estimates else inner
        )
    return made


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return page_tables.table(header, [[escape(cell) for cell in row] for row in rows], "figures")


def few(records: Sequence[Record]) -> tuple[list[str], list[list[str]], str] | None:
    """For the terminal, of runs that were valued: who gave most to all others, and to whom most."""
    found = {label: c for label, c in found_in(of_all(views.groups(records))).items() if c.asked}
    rows = [[label, *most(c)] for label, c in found.items()]
    if not rows:
        return None
    notes = SHORT
    for c in found.values():
        notes += "".join(f" {line}" for line in said(c)[-1:] if c.unvalued and line not in notes)
    return ["method", "valued by", "gave most", "to others", "largest gift", "of it"], rows, notes


def most(found: Contributed) -> list[str]:
    """The cells of one method."""
    kind = leading(found)
    value, half, given, around = kinds(found)[kind]
    others = without_own(value)
    if not np.isfinite(given).any() or not np.isfinite(others).any():
        return [kind, "—", "—", "—", "—"]
    best, largest = alone_at_the_top(given), alone_at_the_top(others)
    told = [kind, "—", "—", "—", "—"]  # of equals nobody is named first
    if best is not None:
        told[1:3] = found.clients[best], amount(given[best], digits(given), around[best])
    if largest is not None:
        r, j = np.unravel_index(largest, others.shape)
        size = amount(value[r, j], digits(others), half[r, j])
        told[3:5] = f"{found.clients[j]} to {found.clients[r]}", size
    return told
