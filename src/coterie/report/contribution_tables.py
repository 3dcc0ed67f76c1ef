"""Contributions as tables and words: what was free to know, what was valued, how far estimates agree, what
they took.
"""

from __future__ import annotations

import math

import numpy as np

from coterie.report import views, words
from coterie.runs.contributed import WEIGHT, Contributed, Summed, without_own

ROUNDING = 1e-6  # weights are float32: two that lie nearer to each other are the same
FEW = 30  # clients of a method that a table lists one by one
FREE = ("rounds", WEIGHT)
BEST = ("exact-shapley", "gtg", "shapley", "leave-one-out", "first-order", WEIGHT)
"""By which clients are ranked: the first of these that there is."""
Found = dict[str, Contributed]
LEGEND = (
    "A figure says by how much the receiver's mean loss fell because of the sender's replies, all valued "
    "rounds added up; below 0 they raised it. Given to others: the mean over all rows of the other clients. "
    "It is no price tag: it depends on who else was there, and on the rows that it was judged by."
)
FREE_LEGEND = (
    "Rounds: in how many another client's model took in its reply. Weight: what its replies counted in the "
    "others' models, summed over rounds and receivers. What they were worth takes --wrap contributions."
)
OWN = "Judged on training rows, which a client's own reply has seen: what it gave to itself is flattered."


def found_in(by_label: views.Groups) -> Found:
    """Of the first seed of each method in which anybody took in anybody else's reply, or was to be valued."""
    told = {label: runs[0].contributions() for label, runs in by_label.items()}
    return {label: c for label, c in told.items() if c.asked or (without_own(c.times) > 0).any()}


def of_all(by_label: views.Groups) -> views.Groups:
    """Without sites' parts of runs, which do not know what others gave to each other."""
    return {label: runs for label, runs in by_label.items() if "lead" not in runs[0].about}


def kinds(found: Contributed) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """By name: pairs [receiver, sender] and half widths, given to others [sender] and half widths; estimates
    first.
    """
    none, flat = np.zeros_like(found.weight), np.zeros(len(found.clients))
    told = {name: (s.value, s.half, s.given, s.around) for name, s in found.estimates.items()}
    told["rounds"] = (found.times, none, found.participation, flat)
    told[WEIGHT] = (found.weight, none, found.weight_given, flat)
    return told


def digits(values: np.ndarray) -> int:
    """Behind the point, for three that say something of the largest."""
    most = float(np.nanmax(np.abs(values), initial=0.0))
    return max(0, min(6, 2 - math.floor(math.log10(most)))) if most > 0 else 0


def amount(value: float, places: int, half: float = 0.0) -> str:
    if not math.isfinite(value):
        return "—"
    said = f"{value:.{places}f}".replace("-", "\u2212")
    return f"{said} ± {half:.{places}f}" if half > 0 and math.isfinite(half) else said


def alone_at_the_top(values: np.ndarray) -> int | None:
    """The place of the largest, in the flat array; None where another is as large: then nobody is first."""
    most = float(np.nanmax(values))
    near = np.flatnonzero(values >= most - ROUNDING * abs(most))
    return int(near[0]) if len(near) == 1 else None


def cells(found: Contributed) -> tuple[list[str], list[list[str]]]:
    """A line for each client: what it gave to others, by kind; who gave most comes first."""
    told = kinds(found)
    order = [*FREE, *found.estimates]
    main = leading(found)
    rank = np.argsort(-np.nan_to_num(told[main][2], nan=-math.inf), kind="stable")
    rows = []
    for j in rank[:FEW]:
        line = [found.clients[j]]
        for kind in order:
            _, _, given, around = told[kind]
            line.append(amount(given[j], 0 if kind == "rounds" else digits(given), around[j]))
        rows.append(line)
    if len(rank) > FEW:
        rows.append([f"{len(rank) - FEW} more", *[""] * len(order)])
    return ["client", f"rounds of {found.rounds}", WEIGHT, *found.estimates], rows


def leading(found: Contributed) -> str:
    """By which kind clients are ranked."""
    return next(kind for kind in BEST if kind in found.estimates or kind == WEIGHT)


def pairs(found: Contributed) -> tuple[list[str], list[list[str]]]:
    """A line for each requester: who gave most to it and who least, by the leading kind."""
    value, half, _, _ = kinds(found)[leading(found)]
    places, others, rows = digits(without_own(value)), without_own(value), []
    for r, name in enumerate(found.clients):
        known = np.flatnonzero(np.isfinite(others[r]) & (others[r] != 0))
        if not len(known):
            continue
        ends = [alone_at_the_top(sign * others[r][known]) for sign in (1, -1)]
        told = [
            "—"
            if end is None
            else f"{found.clients[known[end]]} {amount(value[r, known[end]], places, half[r, known[end]])}"
            for end in ends
        ]
        own = amount(value[r, r], digits(value), half[r, r])
        rows.append([name, told[0], told[1] if len(known) > 1 else "—", own])
    return ["requester", "was given most by", "least by", "gave itself"], rows


def of_requester(found: Contributed, name: str) -> tuple[list[str], list[list[str]]]:
    """A line for each client: what it gave to this one, by kind; who gave most comes first."""
    told, r, columns = kinds(found), found.clients.index(name), [*FREE, *found.estimates]
    places = {k: 0 if k == "rounds" else digits(told[k][0]) for k in columns}
    order = np.argsort(-np.nan_to_num(told[leading(found)][0][r], nan=-math.inf), kind="stable")
    rows = [
        [found.clients[j], *(amount(told[k][0][r, j], places[k], told[k][1][r, j]) for k in columns)]
        for j in order
    ]
    return [f"gave to {name}", f"rounds of {found.rounds}", WEIGHT, *found.estimates], rows


def agreement(found: Contributed, beside: str = "") -> tuple[list[str], list[list[str]]]:
    """A line for every two estimates, or for each beside one of them; agreement is Spearman's."""
    rows = [
        [
            f"{a.one} and {a.other}",
            rank(a.given),
            rank(a.pairs),
            "—" if math.isnan(a.difference) else f"{a.difference:.2g}",
        ]
        for a in found.agreement()
        if beside in ("", a.one, a.other)
    ]
    return [
        "estimates",
        "agreement in rank, given to others",
        "of pairs",
        "largest difference of a pair",
    ], rows


def rank(value: float) -> str:
    return "—" if math.isnan(value) else f"{value:.2f}".replace("-", "\u2212")


def price(found: Contributed) -> tuple[list[str], list[list[str]]]:
    rows = [[f"rounds, {WEIGHT}", str(found.rounds), "0", "0", "0\u00a0B", "0\u00a0s", "exact", ""]]
    for name, s in found.estimates.items():
        rows.append(
            [
                name,
                str(s.rounds),
                words.whole(s.looks),
                words.whole(s.sent),
                words.size(s.bytes),
                words.duration(s.seconds),
                sureness(s),
                drawn(s),
            ]
        )
    return [
        "estimate",
        "rounds",
        "looks at sites",
        "models sent",
        "bytes",
        "time",
        "median interval",
        "drawn",
    ], rows


def sureness(s: Summed) -> str:
    """The width of an interval of a pair, as a share of the mean size of values."""
    known = np.isfinite(s.value)
    size = float(np.abs(s.value[known]).mean()) if known.any() else 0.0
    half = float(np.median(s.half[known])) if known.any() else 0.0
    return "exact" if half == 0 else f"± {100 * half / size:.0f}\u00a0%" if size else "—"


def drawn(s: Summed) -> str:
    said = s.said
    parts = (
        [f"{words.whole(said['walks'])} orders, {words.whole(said.get('cut', 0))} cut"]
        if "walks" in said
        else []
    )
    if "skipped" in said:
        parts.append(f"{words.whole(said['skipped'])} skipped")
    return "; ".join(parts)


def sentence(found: Contributed) -> str:
    """Who gave most to whom, in total; of equals nobody is named first."""
    kind = leading(found)
    value, half, given, around = kinds(found)[kind]
    known = np.flatnonzero(np.isfinite(given))
    others = without_own(value)
    if not len(known) or not np.isfinite(others).any():
        return "Nothing was given that could be valued."
    best, first = known[given[known].argmax()], alone_at_the_top(given)
    total = amount(given[best], digits(given), around[best])
    who = f"{found.clients[best]} gave most to the others (by {kind}: {total})"
    if first is None:
        who = f"Several gave the others the same, and nobody more (by {kind}: {total})"
    if given[best] <= 0:
        nearest = "" if first is None else f"; nearest is {found.clients[best]}, {total}"
        who = f"In sum nobody gave the others anything (by {kind}{nearest})"
    if (largest := alone_at_the_top(others)) is None:
        return f"{who}."
    r, j = np.unravel_index(largest, others.shape)
    return (
        f"{who}; the largest single gift is from {found.clients[j]} to {found.clients[r]} "
        f"({amount(value[r, j], digits(others), half[r, j])})."
    )


def said(found: Contributed) -> list[str]:
    """What has to be known to read the figures."""
    lines = [LEGEND] if found.estimates else [FREE_LEGEND]
    if found.estimates:
        by: dict[str, list[str]] = {}
        for name, s in found.estimates.items():
            by.setdefault({"train": "training rows"}.get(s.rows, f"{s.rows} rows"), []).append(name)
        lines.append("; ".join(f"{', '.join(names)}: judged on {rows}" for rows, names in by.items()) + ".")
        if "training rows" in by:
            lines.append(OWN)
        if any((s.half > 0).any() for s in found.estimates.values()):
            level = f"{100 * found.level:g} %"
            lines.append(f"Intervals hold for all figures of an estimate at once, at a level of {level}.")
    if found.unvalued:
        many = "; ".join(f"{why} ({words.several(n, 'time')})" for why, n in found.unvalued.items())
        lines.append(f"Not valued: {many}.")
    return lines
