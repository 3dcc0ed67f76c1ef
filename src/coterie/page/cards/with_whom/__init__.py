"""With whom: whose models count how much in this client's, round by round.

weights[r][i, j]    what the model of j counted in the one of i in round r, as it was mixed

Where a client's own model is not that sum, shares of it would be false: of methods that share a part, they
are told of that part, and of others whose weights are no shares of any model, none are told (`View.shares`).
"""

from __future__ import annotations

import numpy as np

from coterie.core.partners import Shares
from coterie.page.card import FAINT, Card, client_looks, line, plot_choice, table_of
from coterie.page.live import reason_away
from coterie.page.view import LEAST, View
from coterie.show import views
from coterie.show.blocks import Plot, Table
from coterie.show.words import Words

NAME, ORDER = "with", 10
_LINES = 8  # others that are drawn one by one
_GONE = 3  # others of whom a sentence says that they do not count any more
_COLUMNS = ("partner", "weight_now", "weight_mean", "rounds_counted", "own_weight_there", "training_rows")
_SHOWN: dict[Shares, tuple[str, ...]] = {
    "model": _COLUMNS,
    "part": tuple(c for c in _COLUMNS if c != "own_weight_there"),
    "": ("partner", "rounds_counted", "training_rows"),
}


def card(view: View, say: Words) -> Card:
    what = view.shares
    how = {"model": say("with.how"), "part": say("with.how_part"), "": say("with.how_none")}[what]
    drawn = [say("with.how_rounds", n=len(view.rounds), of=len(view.record.weights))] if what else []
    lines = _dropped(view, say)
    if what == "model":  # in whose models this client's counts
        column = view.last[:, view.number]
        order = [j for j in np.argsort(-column, kind="stable").tolist() if j != view.number]
        some = [f"{view.names[j]} ({say.percent(column[j])})" for j in order if column[j] >= LEAST]
        lines += [say("with.listeners", names=say.listed(some))] if some else []
    away = view.record.metrics[-1].get("away") or {} if view.record.metrics else {}
    for name, why in list(away.items())[:_GONE]:
        lines.append(say("with.away", name=name, why=reason_away(why, say)))
    pictures = _pictures(view, say, what) if what else []
    return Card(NAME, _answer(view, say), lines, pictures, _table(view, say, _SHOWN[what]), [how, *drawn])


def _answer(view: View, say: Words) -> str:
    if not view.rounds:
        return say("with.nothing")
    row = view.last[view.number]
    if row.sum() == 0:
        return say("with.not_reached", round=view.rounds[-1])
    partners = [j for j in np.argsort(-row, kind="stable").tolist() if j != view.number and row[j] >= LEAST]
    if not partners:
        before = view.rows(sorted(view.record.weights))[:, view.others] >= LEAST
        return say("with.alone_now" if before.any() else "with.alone")
    what, own = view.shares, row[view.number]
    if not what:
        return say("with.others_too", names=say.listed([view.names[j] for j in partners]))
    named = say.listed([f"{view.names[j]} ({say.percent(row[j])})" for j in partners])
    if what == "part":
        return say("with.part", names=named, own=say.percent(own))
    if own < LEAST:
        return say("with.circle_without", names=named)
    return say("with.circle", names=named, own=say.percent(own))


def _dropped(view: View, say: Words) -> list[str]:
    """Who counted once, and not now; of all rounds, as a picture has only some."""
    rounds, lines = sorted(view.record.weights), []
    counts = view.rows(rounds) >= LEAST
    for j in view.others:
        counted = np.flatnonzero(counts[:, j])
        if len(counted) and counted[-1] < len(rounds) - 1:
            lines.append(say("with.dropped", name=view.names[j], round=rounds[int(counted[-1])]))
    return lines[:_GONE]


def _pictures(view: View, say: Words, what: Shares) -> list[Plot]:
    if not len(view.heard):
        return []
    mean = view.heard.mean(axis=0)
    order = [j for j in np.argsort(-mean, kind="stable").tolist() if mean[j] > 0 and j != view.number]
    apart, rest = order[:_LINES], order[_LINES:]
    looks = client_looks(view.names, apart, view.number)
    lines = [(view.heard[:, j], *looks[j]) for j in (view.number, *apart)]
    if rest:
        told = say("with.others", n=len(rest))
        lines.append((view.heard[:, rest].sum(axis=1), told, {"color": FAINT, "width": 2}))
    several = len(view.rounds) > 1
    kind = {"mode": "lines", "stackgroup": "all"} if several else {"mode": "markers", "stackgroup": None}
    data = [
        line(
            view.rounds, 100 * values, name, look, "%{y:.1f} %",
            marker={"color": look["color"], "size": 9}, **kind,
        )
        for values, name, look in lines
    ]  # fmt: skip
    whole = what == "model"
    titles = (say("axis.round"), say("with.axis" if whole else "with.axis_part"))
    xaxis = {"dtick": 1} if view.rounds[-1] <= 10 else {}
    plot = plot_choice(data, *titles, xaxis=xaxis, yaxis={"range": [0, 100]}, hovermode="x unified")
    return [Plot("with-rounds", {"choices": [plot]}, say("with.picture" if whole else "with.picture_part"))]


def _table(view: View, say: Words, columns: tuple[str, ...]) -> Table:
    """A row for each other, the heaviest first; some of COLUMNS."""
    mean = view.heard.mean(axis=0) if len(view.heard) else np.zeros(len(view.names))
    times = np.count_nonzero(view.rows(list(view.record.weights)) > 0, axis=0)  # of all rounds
    sizes, rows = views.sizes(view.record)["train"], []
    for j in sorted(view.others, key=lambda j: (-view.last[view.number, j], -mean[j], j)):
        shares = [float(share) for share in (view.last[view.number, j], mean[j], view.last[j, view.number])]
        now, usual, there = ((share, say.percent(share)) for share in shares)
        # what a site is not told of others
        size = (sizes[j], say.whole(sizes[j])) if sizes[j] else (None, "–")
        whole = ((view.names[j],) * 2, now, usual, (int(times[j]), say.whole(times[j])), there, size)
        rows.append([cell for name, cell in zip(_COLUMNS, whole, strict=True) if name in columns])
    return table_of(NAME, columns, rows, say)
