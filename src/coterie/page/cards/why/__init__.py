"""Why: what was measured of the others before and while their models were taken, or not.

rankings    reasons of `features/ranking/ranking.py`, one for each other
sketches    how far rows lie apart, all in all and column by column (`features/similarity`)
matrices    what the method itself looked at, round by round: distances, losses, what is left of a weight
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coterie.core.method import CIRCLE
from coterie.features.ranking.ranking import IN
from coterie.page.card import NAMES, Card, bars, client_looks, line, plot_choice
from coterie.page.differences import NAMED, columns_apart, nearest, similarity_plots
from coterie.page.view import View
from coterie.show import views
from coterie.show.blocks import Plot, Table
from coterie.show.plotly import plain, ticks
from coterie.show.words import Words

_LINES = 12  # others that are drawn
NAME, ORDER = "why", 20
_LISTED = 12  # columns of each other that the table shows; its file has all
_COLUMNS = ("partner", "measure", "value", "by_chance", "reason")


def card(view: View, say: Words) -> Card:
    order, said, near = _leading(view), list[str](), ""
    lines = [choice for name in _named(view) if (choice := _line_choice(view, name, say))]
    pictures = [Plot("why-rounds", {"choices": lines}, say("why.picture_rounds"))] if lines else []
    if view.similarity is not None:
        near, said = nearest(view, view.similarity, say)
        pictures += similarity_plots(view, view.similarity, say)
    measured = _by_matrix(view, say, order) if order else ""
    answers = [text for text in (ranking_answer(view, say), measured, near) if text]
    said = [*answers[1:], *said]
    if (
        not answers and (chooses := view.partners) is not None
    ):  # as the method says that it chooses, if it does
        answers = [chooses.said(say.language) or ("" if chooses.by else say("why.nothing"))]
    return Card(NAME, answers[0] if answers else "", said, pictures, _table(view, say), _how(view, say))


def _how(view: View, say: Words) -> list[str]:
    said = view.partners.said(say.language) if view.partners is not None else ""
    lines = [said or say("why.how_method", method=view.method)]
    lines += [_of_matrix(name, "how", "", say) for name in _named(view)]
    lines.append(say("why.no_sketches" if view.similarity is None else "why.how_sketches"))
    if view.similarity is not None and not view.same:
        lines.append(say("alike.other_rows"))
    return [line for line in lines if line]


def _leading(view: View) -> str:
    """The first number that the method goes by, by which others can be told apart."""
    for name in (name for name in _named(view) if name in _numbers(view)):
        row = last_row(view, name)[view.others]
        known = row[np.isfinite(row)]
        if len(known) == 1 or np.ptp(known) > 0:
            return name
    return ""


def _by_matrix(view: View, say: Words, name: str) -> str:
    """Who fits best and who least, by what the method went by."""
    row = last_row(view, name)
    known = [j for j in view.others if np.isfinite(row[j])]
    if not known:
        return ""
    order = sorted(known, key=lambda j: -row[j] if _numbers(view)[name] == "high" else row[j])
    best, worst = order[0], order[-1]
    what = _of_matrix(name, "name", name, say)
    one = say("why.best", name=view.names[best], value=say.number(row[best]), measure=what)
    if worst == best:
        return one
    return say("why.best_worst", one=one.rstrip("."), name=view.names[worst], value=say.number(row[worst]))


def ranking_answer(view: View, say: Words) -> str:
    """The answer of a ranking: who is in, for which reason."""
    by_other = view.reasons
    if not by_other:
        return ""
    picked = [j for j, name in by_other.items() if name in IN]
    if not picked:  # the same reason for all is said once, as where there are too few rows to tell
        said = dict.fromkeys(say(f"reason.{key}", name=view.names[j]) for j, key in by_other.items())
        return say("why.nobody", reason="; ".join(text.rstrip(".") for text in list(said)[:NAMED]))
    first = say(f"reason.{by_other[picked[0]]}", name=view.names[picked[0]])
    return say("why.picked", names=say.listed([view.names[j] for j in picked]), reason=first)


def _table(view: View, say: Words) -> Table:
    """Every figure of every other; of columns the first, as its file has all."""
    because = {j: say(f"reason.{key}", name=view.names[j]) for j, key in view.reasons.items()}
    rows, raw = list[list[str]](), list[list[Any]]()
    for j in view.others:
        name, why, columns = view.names[j], because.get(j, ""), 0
        for measure, called, *values in _figures(view, j, say):
            columns += measure.startswith("column ")
            raw.append([name, measure, *(float(v) if np.isfinite(v) else None for v in values), why])
            rows += [[name, called, *map(say.number, values), why]] if columns <= _LISTED else []
    header = [say(f"why.column.{name}") for name in _COLUMNS]
    return Table(header, rows, say("why.title"), columns=_COLUMNS, raw=raw)


def _figures(view: View, j: int, say: Words) -> Iterator[tuple[str, str, float, float]]:
    """All figures of another: name, what people call it, value, what chance would make of it."""
    for name in _named(view):
        if np.isfinite(value := last_row(view, name)[j]):
            yield name, _of_matrix(name, "name", name, say), value, np.nan
    if (found := view.similarity) is None:
        return
    for measure, matrix in found.measures.items():
        if np.isfinite(value := matrix[view.number, j]):
            chance = found.chance.get(measure)
            by_chance = np.nan if chance is None else chance[view.number, j]
            yield measure, say.of(f"measure.{measure}", measure), value, by_chance
    terms, chances = found.terms[view.number, j], found.expected[view.number, j]
    for c in columns_apart(found, view.number, j):
        name = found.columns[c]
        yield f"column {name}", say("alike.one_column", name=name), terms[c], chances[c]


def _of_matrix(name: str, what: str, otherwise: str, say: Words) -> str:
    return say.of(f"matrix.{name.replace(' ', '-')}.{what}", otherwise)


def _numbers(view: View) -> Mapping[str, str]:
    """The matrices that the method goes by, and whether a high or a low number speaks for another."""
    return view.partners.by if view.partners is not None else {}


def _named(view: View) -> list[str]:
    """The matrices that say anything of this client, those that the method goes by first."""
    found = []
    for name, by_round in view.record.matrices.items():
        if name != CIRCLE and by_round and np.isfinite(last_row(view, name)[view.others]).any():
            found.append(name)
    return sorted(found, key=lambda name: [*_numbers(view), name].index(name))


def last_row(view: View, name: str) -> np.ndarray:
    """[other] the last figures; where one of them is not known any more, the last that was."""
    values = view.rows(sorted(view.record.matrices[name], reverse=True), name)  # the newest first
    first = np.isfinite(values).argmax(axis=0)
    return np.asarray(values[first, np.arange(len(view.names))])


def _line_choice(view: View, name: str, say: Words) -> dict[str, Any] | None:
    """A line for each other, or bars if it was measured once."""
    by_round = view.record.matrices[name]
    rounds = views.thin(sorted(by_round), 120)
    values = view.rows(rounds, name)
    some = [j for j in view.others if np.isfinite(values[:, j]).any()]
    if not some:
        return None
    some = sorted(some, key=lambda j: -np.nanmax(np.abs(values[:, j])))[:_LINES]
    looks, what = client_looks(view.names, some, view.number), _of_matrix(name, "name", name, say)
    if len(rounds) == 1:
        names = ticks([view.names[j] for j in some])
        data = [bars(names, values[0, some], "%{y}: %{x:.3~g}<extra></extra>")]
        return plot_choice(data, plain(what), name=what, yaxis=NAMES)
    dots = {"mode": "lines+markers", "connectgaps": True}
    data = []
    for j, (called, look) in ((j, looks[j]) for j in some):
        marker = {"color": look["color"], "size": 4}
        data.append(line(rounds, values[:, j], called, look, "%{y:.3~g}", marker=marker, **dots))
    return plot_choice(data, say("axis.round"), name=what, hovermode="x unified")
