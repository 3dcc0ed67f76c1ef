"""How alike the rows of a client and of others are, by sketches: in words, pictures and column by column."""

from __future__ import annotations

import numpy as np

from coterie.features.similarity.record import Similarity
from coterie.page.card import NAMES, bars, plot_choice
from coterie.page.view import View
from coterie.show import inks
from coterie.show.blocks import Plot
from coterie.show.plotly import Plot as Data
from coterie.show.plotly import ticks, tidy
from coterie.show.words import Words

NAMED = 3  # columns, or reasons, of a sentence
_BARS = 12  # columns of a picture


def nearest(view: View, found: Similarity, say: Words) -> tuple[str, list[str]]:
    """Whose rows look most like one's own, and in which columns the farthest differ."""
    measure = next(iter(found.measures))
    row = found.measures[measure][view.number]
    known = [j for j in view.others if np.isfinite(row[j])]
    if not known:
        return "", []
    order = sorted(known, key=lambda j: float(row[j]))
    near, far = order[0], order[-1]
    answer = say("alike.near", name=view.names[near], value=say.number(row[near], 2))
    if near == far:
        return answer, _columns_of(view, found, say, near)
    both = say("alike.far", one=answer.rstrip("."), name=view.names[far], value=say.number(row[far], 2))
    return both, _columns_of(view, found, say, far)


def _columns_of(view: View, found: Similarity, say: Words, j: int) -> list[str]:
    """The columns in which another differs by more than chance would."""
    known = columns_apart(found, view.number, j)
    if not known:
        return []
    terms, chance = found.terms[view.number, j], found.expected[view.number, j]
    order = [c for c in known if terms[c] > 2 * chance[c]]
    if not order:
        return [say("alike.no_column", name=view.names[j])]
    listed = say.listed([f"{found.columns[c]} ({say.number(terms[c], 2)})" for c in order[:NAMED]], NAMED)
    return [say("alike.columns", name=view.names[j], columns=listed)]


def columns_apart(found: Similarity, i: int, j: int) -> list[int]:
    """Columns of two sites, those that differ most first; none where they were not told."""
    terms = found.terms[i, j]
    order = np.argsort(-np.nan_to_num(terms, nan=-1.0), kind="stable").tolist()
    return [c for c in order if np.isfinite(terms[c])]


def similarity_plots(view: View, found: Similarity, say: Words) -> list[Plot]:
    """How far the rows of each other lie from one's own, and what chance would make of it; and in which
    columns they differ most.
    """
    measure = next(iter(found.measures))
    row, chance = found.measures[measure][view.number], found.chance.get(measure)
    order = sorted((j for j in view.others if np.isfinite(row[j])), key=lambda j: float(row[j]))[:40]
    names = ticks([view.names[j] for j in order])
    by_chance = np.full(len(order), np.nan) if chance is None else chance[view.number][order]
    sites, choices = _two_bars(names, row[order], by_chance, say), []
    for j in view.others[:60]:
        terms, chance = found.terms[view.number, j], found.expected[view.number, j]
        if not np.isfinite(terms).any():
            continue
        most = np.argsort(-np.nan_to_num(terms, nan=-1.0), kind="stable")[:_BARS]
        names = ticks([found.columns[c] for c in most], 24)
        one = _two_bars(names, terms[most], chance[most], say)["choices"][0]
        choices.append({**one, "name": view.names[j]})
    made = [Plot("why-sites", sites, say("alike.picture_sites"))]
    if choices:
        plot = {"choices": choices, "height": 160 + 22 * min(_BARS, len(found.columns))}
        made.append(Plot("why-columns", plot, say("alike.picture_columns")))
    return made


def _two_bars(names: list[str], values: np.ndarray, chance: np.ndarray, say: Words) -> Data:
    """Differences, and a mark at what chance would make of each."""
    own = bars(names, values, "%{y}: %{x:.3~g}<extra></extra>", name=say("alike.difference"))
    look = {"color": inks.COLOURS[4], "symbol": "line-ns-open", "size": 14, "line": {"width": 3}}
    marks = {"type": "scatter", "mode": "markers", "x": tidy(chance), "y": names, "marker": look}
    marks |= {"name": say("alike.by_chance"), "hovertemplate": "%{x:.3~g}<extra></extra>"}
    plot = plot_choice(
        [own, marks], say("alike.axis"), xaxis={"rangemode": "tozero"}, yaxis=NAMES, bargap=0.35
    )
    return {"choices": [plot], "height": 130 + 30 * len(names)}
