"""How a client and others differ: by sketches of their rows in words, pictures and column by column, and by
their models; and a letter that tells it.

Feedback to a partner that was not chosen: which columns, and which weights of its model, differ most.

Grimberg (2020), on feedback after a ranking, has the others learn how they were ranked, whether they are in,
and which weights of their models are far from the requester's. Columns are compared by the sketches that
sites told, weights by models that were trained alone where there are any; only linear models have a weight
for each column. It is a text to download: whether it is sent, and to whom, people decide.
"""

from __future__ import annotations

import textwrap
import time
from typing import NamedTuple

import numpy as np

from coterie.features.similarity.record import Similarity
from coterie.page.card import NAMES, bars, plot_choice
from coterie.page.view import LEAST, View
from coterie.report.close_ups import INTERCEPT, weighed
from coterie.show import inks
from coterie.show.blocks import Plot
from coterie.show.plotly import Plot as Data
from coterie.show.plotly import ticks, tidy
from coterie.show.words import Words

NAMED = 3  # columns, or reasons, of a sentence
_BARS = 12  # columns of a picture
_BECAUSE = {
    **dict.fromkeys(("first", "helps", "better", "suits"), "well"),
    **dict.fromkeys(("guess", "even", "own"), "worse"),
    **dict.fromkeys(("harms", "threshold", "chance"), "average"),
    **{name: name for name in ("few", "later", "withdrew", "other")},
    "kept": "other",
}
"""Reasons of rankings, as one tells them to whom they are about."""
_MOST = 8  # columns, and weights, that are named
_WIDE = 88  # letters in a line
_MANY = 60  # partners


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
        return answer, _columns_said(view, found, say, near)
    both = say("alike.far", one=answer.rstrip("."), name=view.names[far], value=say.number(row[far], 2))
    return both, _columns_said(view, found, say, far)


def _columns_said(view: View, found: Similarity, say: Words, j: int) -> list[str]:
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


# feedback


class _Difference(NamedTuple):
    """Of one column: (theirs, ours) for a weight, (difference, what chance would make of it) for rows."""

    name: str
    first: float
    second: float


class _Feedback(NamedTuple):
    """
    columns   those that differ by more than twice what chance would make of it, the largest first; None if
              rows were not sketched
    weights   those that differ most; None if models are not linear, or are elsewhere
    alone     whether these models were trained alone
    """

    columns: list[_Difference] | None
    weights: list[_Difference] | None
    alone: bool


def feedback(view: View, partner: str) -> _Feedback:
    i, j, found, columns = view.number, view.names.index(partner), view.similarity, None
    if found is not None and (order := columns_apart(found, i, j)):
        terms, chance = found.terms[i, j], found.expected[i, j]
        most = [c for c in order if terms[c] > 2 * chance[c]][:_MOST]
        columns = [_Difference(found.columns[c], float(terms[c]), float(chance[c])) for c in most]
    return _Feedback(columns, _weights_apart(view, partner), bool(view.alone))


def _weights_apart(view: View, partner: str) -> list[_Difference] | None:
    """(theirs, ours), the mean over seeds; of several classes, the output in which they differ most."""
    found = weighed({view.label: list(view.alone or view.runs)})
    if found is None or not {view.client, partner} <= set(found.clients):
        return None
    mean = np.nanmean(next(iter(found.values.values())), axis=0)
    mine, theirs = (mean[found.clients.index(name)] for name in (view.client, partner))
    output = int(np.abs(theirs - mine).sum(axis=1).argmax())
    mine, theirs = mine[output], theirs[output]
    apart = np.abs(theirs - mine)
    most = [f for f in np.argsort(-apart, kind="stable") if found.features[f] != INTERCEPT][:_MOST]
    most = [f for f in most if np.isfinite(apart[f]) and apart[f] != 0]
    return [_Difference(found.features[f], float(theirs[f]), float(mine[f])) for f in most]


def partners(view: View) -> list[tuple[str, bool]]:
    """To whom there are letters, and whether they count in the client's model: those who do not, first."""
    if not view.rounds:
        return []
    counts = [(view.names[j], bool(view.last[view.number, j] >= LEAST)) for j in view.others]
    return sorted(counts, key=lambda one: one[1])[:_MANY]


def letter(view: View, partner: str, say: Words) -> str:
    """The letter."""
    found, j = feedback(view, partner), view.names.index(partner)
    weight, counted = float(view.last[view.number, j]), say("letter.does_not")
    if weight >= LEAST:  # how much, where that is a share of a model; else that it did
        share = view.shares == "model"
        counted = say("letter.counts", weight=say.percent(weight)) if share else say("letter.took_part")
    parts = [
        say("letter.head", partner=partner, client=view.client),
        time.strftime("%Y-%m-%d"),
        say("letter.study", study=view.entry.name, method=view.label, rounds=say.whole(view.record.done)),
        counted,
    ]
    reason = view.reasons.get(j)
    parts += [say(f"letter.because.{_BECAUSE[reason]}")] if reason else []
    columns = say("letter.no_columns" if found.columns is None else "letter.same_columns")
    if found.columns:
        columns = _points(found.columns, ("value", "chance"), say("letter.columns"), "letter.column", say)
    weights = say("letter.no_weights")
    if found.weights:
        head = say("letter.weights_alone" if found.alone else "letter.weights")
        weights = _points(found.weights, ("theirs", "ours"), head, "letter.weight", say)
    parts += [columns, weights, say("letter.no_verdict"), say("letter.no_patient")]
    parts.append(say("letter.regards", client=view.client))
    folded = []
    for line in "\n\n".join(parts).splitlines():
        indent = "    " if line.startswith("  - ") else ""
        folded.append(textwrap.fill(line, _WIDE, subsequent_indent=indent, break_long_words=False))
    return "\n".join([*folded, ""])


def _points(found: list[_Difference], blanks: tuple[str, str], head: str, key: str, say: Words) -> str:
    """A line for each difference, in the catalogue's words."""
    lines = [
        say(key, name=d.name, **{blank: say.number(v, 2) for blank, v in zip(blanks, d[1:], strict=True)})
        for d in found
    ]
    return "\n".join([head, *(f"  - {line}" for line in lines)])
