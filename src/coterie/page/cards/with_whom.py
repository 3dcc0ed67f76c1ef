"""With whom: whose models count how much in this client's, round by round.

weights[r][i, j]    what the model of j counted in the one of i in round r, as it was mixed

Where a client's own model is not that sum, shares of it would be false: of methods that share a part, they
are told of that part, and of others whose weights are no shares of any model, none are told (`summed_in`).
"""

from __future__ import annotations

import numpy as np

from coterie.core.partners import Shares
from coterie.page.cards.base import Card, Picture, Table, tinted
from coterie.page.catalogue import Words
from coterie.page.standing import reason
from coterie.page.view import View
from coterie.report import views
from coterie.report.plotly_data import tidy

LEAST = 0.005  # of a model: whoever counts less is not named
LINES = 8  # others that are drawn one by one
GONE = 3  # others of whom a sentence says that they do not count any more
COLUMNS = ("partner", "weight_now", "weight_mean", "rounds_counted", "own_weight_there", "training_rows")
SHOWN: dict[Shares, tuple[str, ...]] = {
    "model": COLUMNS,
    "part": tuple(c for c in COLUMNS if c != "own_weight_there"),
    "": ("partner", "rounds_counted", "training_rows"),
}


def summed_in(view: View) -> Shares:
    """What the weights are shares of: a client's model, the part that all share, or nothing that is known."""
    rule = view.record.config.get(view.method, {}).get("rule", "mean")
    return view.partners.shares if view.partners is not None and rule == "mean" else ""


def card(view: View, say: Words) -> Card:
    what = summed_in(view)
    how = {"model": say("with.how"), "part": say("with.how_part"), "": say("with.how_none")}[what]
    drawn = [say("with.how_rounds", n=len(view.rounds), of=len(view.record.weights))] if what else []
    return Card(
        "with",
        answer(view, say),
        [*dropped(view, say), *(listeners(view, say) if what == "model" else ()), *absent(view, say)],
        pictures(view, say, what) if what else [],
        table(view, say, SHOWN[what]),
        SHOWN[what],
        [how, *drawn],
    )


def answer(view: View, say: Words) -> str:
    if not view.rounds:
        return say("with.nothing")
    row = view.last[view.number]
    if row.sum() == 0:
        return say("with.not_reached", round=view.rounds[-1])
    partners = [j for j in np.argsort(-row, kind="stable").tolist() if j != view.number and row[j] >= LEAST]
    if not partners:
        before = view.rows(sorted(view.record.weights))[:, view.others] >= LEAST
        return say("with.alone_now" if before.any() else "with.alone")
    what, own = summed_in(view), row[view.number]
    if not what:
        return say("with.others_too", names=say.listed([view.names[j] for j in partners]))
    named = say.listed([f"{view.names[j]} ({say.percent(row[j])})" for j in partners])
    if what == "part":
        return say("with.part", names=named, own=say.percent(own))
    return (
        say("with.circle", names=named, own=say.percent(own))
        if own >= LEAST
        else say("with.circle_without", names=named)
    )


def dropped(view: View, say: Words) -> list[str]:
    """Who counted once, and not now; of all rounds, as a picture has only some."""
    rounds, lines = sorted(view.record.weights), []
    counts = view.rows(rounds) >= LEAST
    for j in view.others:
        counted = np.flatnonzero(counts[:, j])
        if len(counted) and counted[-1] < len(rounds) - 1:
            lines.append(say("with.dropped", name=view.names[j], round=rounds[int(counted[-1])]))
    return lines[:GONE]


def listeners(view: View, say: Words) -> list[str]:
    """In whose models this client's counts."""
    column = view.last[:, view.number]
    some = [j for j in np.argsort(-column, kind="stable").tolist() if j != view.number and column[j] >= LEAST]
    if not some:
        return []
    return [
        say("with.listeners", names=say.listed([f"{view.names[j]} ({say.percent(column[j])})" for j in some]))
    ]


def absent(view: View, say: Words) -> list[str]:
    away = view.record.metrics[-1].get("away") or {} if view.record.metrics else {}
    return [say("with.away", name=name, why=reason(why, say)) for name, why in list(away.items())[:GONE]]


def pictures(view: View, say: Words, what: Shares) -> list[Picture]:
    if not len(view.heard):
        return []
    mean = view.heard.mean(axis=0)
    order = [j for j in np.argsort(-mean, kind="stable").tolist() if mean[j] > 0 and j != view.number]
    drawn, rest = order[:LINES], order[LINES:]
    looks = tinted(view.names, drawn, view.number)
    lines = [(view.heard[:, j], looks[j]) for j in (view.number, *drawn)]
    if rest:
        told = say("with.others", n=len(rest))
        lines.append((view.heard[:, rest].sum(axis=1), {"color": "#9aa5b1", "width": 2, "name": told}))
    data = [
        {
            "type": "scatter",
            "mode": "lines" if len(view.rounds) > 1 else "markers",
            "stackgroup": "all" if len(view.rounds) > 1 else None,
            "x": view.rounds,
            "y": tidy(100 * values),
            "name": look["name"],
            "line": {k: v for k, v in look.items() if k != "name"},
            "marker": {"color": look["color"], "size": 9},
            "hovertemplate": "%{y:.1f} %",
        }
        for values, look in lines
    ]
    layout = {
        "xaxis": {"title": {"text": say("axis.round")}, **({"dtick": 1} if view.rounds[-1] <= 10 else {})},
        "yaxis": {
            "title": {"text": say("with.axis" if what == "model" else "with.axis_part")},
            "range": [0, 100],
        },
        "hovermode": "x unified",
    }
    return [Picture("with-rounds", {"choices": [{"name": "", "data": data, "layout": layout}]},
                    say("with.picture" if what == "model" else "with.picture_part"))]  # fmt: skip


def table(view: View, say: Words, columns: tuple[str, ...]) -> Table:
    """A row for each other, the heaviest first; some of COLUMNS."""
    mean = view.heard.mean(axis=0) if len(view.heard) else np.zeros(len(view.names))
    times = collected(view)
    sizes = views.sizes(view.record)["train"]
    rows, raw = [], []
    for j in sorted(view.others, key=lambda j: (-view.last[view.number, j], -mean[j], j)):
        now, there = view.last[view.number, j], view.last[j, view.number]
        size = sizes[j] or None  # what a site is not told of others
        raw.append([view.names[j], float(now), float(mean[j]), int(times[j]), float(there), size])
        rows.append(
            [
                view.names[j],
                say.percent(now),
                say.percent(mean[j]),
                say.whole(times[j]),
                say.percent(there),
                say.whole(size) if size else "–",
            ]
        )
    places = [COLUMNS.index(name) for name in columns]
    return Table(
        [say(f"with.column.{name}") for name in columns],
        [[row[p] for p in places] for row in rows],
        [[row[p] for p in places] for row in raw],
    )


def collected(view: View) -> np.ndarray:
    """[sender] in how many of all rounds it counted."""
    times: np.ndarray = np.count_nonzero(view.rows(list(view.record.weights)) > 0, axis=0)
    return times
