"""Contributions as tables and words: what was free to know, what was valued, how far estimates agree, what
they took.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from coterie.features.contributions.record import WEIGHT, Contributed, Summed, without_own
from coterie.show import numbers, views
from coterie.show.words import Figure, Saying, said

ROUNDING = 1e-6  # weights are float32: two that lie nearer to each other are the same
FEW = 30  # clients of a method that a table lists one by one
FREE = ("rounds", WEIGHT)
BEST = ("exact-shapley", "gtg", "shapley", "leave-one-out", "first-order", WEIGHT)
"""By which clients are ranked: the first of these that there is."""
Found = dict[str, Contributed]


def _column(name: str, **blanks: Any) -> Saying:
    return said(f"contributions.column.{name}", **blanks)


def called(kind: str) -> str:
    """An estimate goes by its own name."""
    return _column("weight") if kind == WEIGHT else kind


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
    text = f"{value:.{places}f}".replace("-", "\u2212")
    return Figure(f"{text} ± {half:.{places}f}" if half > 0 and math.isfinite(half) else text)


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
        rows.append([said("privacy.more", n=len(rank) - FEW), *[""] * len(order)])
    return [said("column.client"), *_kinds_of(found)], rows


def _kinds_of(found: Contributed) -> list[str]:
    return [_column("rounds_of", n=found.rounds), _column("weight"), *found.estimates]


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
        told = ["—", "—"]
        for which, end in enumerate(ends if len(known) > 1 else ends[:1]):
            if end is not None:
                j = known[end]
                figure = amount(value[r, j], places, half[r, j])
                told[which] = said("contributions.of", name=found.clients[j], value=figure)
        rows.append([name, *told, amount(value[r, r], digits(value), half[r, r])])
    return [_column(name) for name in ("requester", "most", "least", "itself")], rows


def of_requester(found: Contributed, name: str) -> tuple[list[str], list[list[str]]]:
    """A line for each client: what it gave to this one, by kind; who gave most comes first."""
    told, r, columns = kinds(found), found.clients.index(name), [*FREE, *found.estimates]
    places = {k: 0 if k == "rounds" else digits(told[k][0]) for k in columns}
    order = np.argsort(-np.nan_to_num(told[leading(found)][0][r], nan=-math.inf), kind="stable")
    rows = [
        [found.clients[j], *(amount(told[k][0][r, j], places[k], told[k][1][r, j]) for k in columns)]
        for j in order
    ]
    return [_column("gave_to", who=name), *_kinds_of(found)], rows


def agreement(found: Contributed, beside: str = "") -> tuple[list[str], list[list[str]]]:
    """A line for every two estimates, or for each beside one of them; agreement is Spearman's."""
    rows = []
    for a in found.agreement():
        if beside in ("", a.one, a.other):
            both = said("contributions.and", one=called(a.one), other=called(a.other))
            apart = "—" if math.isnan(a.difference) else Figure(f"{a.difference:.2g}")
            rows.append([both, rank(a.given), rank(a.pairs), apart])
    return [_column(name) for name in ("estimates", "agreement", "of_pairs", "largest")], rows


def rank(value: float) -> str:
    return "—" if math.isnan(value) else Figure(f"{value:.2f}".replace("-", "\u2212"))


def price(found: Contributed) -> tuple[list[str], list[list[str]]]:
    exact = said("contributions.exact")
    free: str = said("contributions.free_row")
    rows: list[list[str]] = [[free, str(found.rounds), "0", "0", "0\u00a0B", "0\u00a0s", exact, ""]]
    for name, s in found.estimates.items():
        took = [numbers.whole(s.looks), numbers.whole(s.sent)]
        took += [numbers.size(s.bytes), numbers.duration(s.seconds)]
        rows.append([name, str(s.rounds), *took, _sureness(s), _drawn(s)])
    names = ("estimate", "looks", "sent", "bytes", "time", "interval", "drawn")
    header: list[str] = [_column(name) for name in names]
    return [header[0], said("column.rounds"), *header[1:]], rows


def _sureness(s: Summed) -> str:
    """The width of an interval of a pair, as a share of the mean size of values."""
    known = np.isfinite(s.value)
    size = float(np.abs(s.value[known]).mean()) if known.any() else 0.0
    half = float(np.median(s.half[known])) if known.any() else 0.0
    if half == 0:
        return said("contributions.exact")
    return Figure(f"± {100 * half / size:.0f}\u00a0%") if size else "—"


def _drawn(s: Summed) -> str:
    told = s.said
    skipped = said("contributions.skipped", n=numbers.whole(told["skipped"])) if "skipped" in told else ""
    if "walks" not in told:
        return skipped
    cut = numbers.whole(told.get("cut", 0))
    orders = said("contributions.orders", n=numbers.whole(told["walks"]), cut=cut)
    return said("list.semicolon", first=orders, second=skipped) if skipped else orders


def sentence(found: Contributed) -> str:
    """Who gave most to whom, in total; of equals nobody is named first."""
    kind = leading(found)
    value, half, given, around = kinds(found)[kind]
    known = np.flatnonzero(np.isfinite(given))
    others = without_own(value)
    if not len(known) or not np.isfinite(others).any():
        return said("contributions.none")
    best, first = known[given[known].argmax()], alone_at_the_top(given)
    total, by = amount(given[best], digits(given), around[best]), called(kind)
    text = said("contributions.most", who=found.clients[best], kind=by, total=total)
    if given[best] <= 0:
        text = said("contributions.nobody", kind=by)
        if first is not None:
            text = said("contributions.nobody_near", kind=by, who=found.clients[best], total=total)
    elif first is None:
        text = said("contributions.several", kind=by, total=total)
    if (largest := alone_at_the_top(others)) is None:
        return said("report.line", said=text)
    r, j = np.unravel_index(largest, others.shape)
    ends = {"giver": found.clients[j], "receiver": found.clients[r]}
    size = amount(value[r, j], digits(others), half[r, j])
    return said("contributions.largest", said=text, **ends, amount=size)


def legend(found: Contributed) -> list[str]:
    """What has to be known to read the figures."""
    lines: list[str] = [said("contributions.said" if found.estimates else "contributions.free")]
    if found.estimates:
        by: dict[str, list[str]] = {}
        for name, s in found.estimates.items():
            by.setdefault(s.rows, []).append(name)
        judged = _listed(
            said("contributions.judged", names=names, rows=said(f"contributions.rows.{rows}"))
            for rows, names in by.items()
        )
        lines.append(said("report.line", said=judged))
        lines += [said("contributions.own")] if "train" in by else []
        if any((s.half > 0).any() for s in found.estimates.values()):
            lines.append(said("contributions.level", level=Figure(f"{100 * found.level:g} %")))
    if found.unvalued:
        times = {why: numbers.several(n, "time") for why, n in found.unvalued.items()}
        whys = _listed(said("contributions.why", why=why, times=n) for why, n in times.items())
        lines.append(said("contributions.unvalued", whys=whys))
    return lines


def _listed(texts: Iterable[str]) -> str:
    """One after the other, with semicolons between them."""
    return functools.reduce(lambda first, second: said("list.semicolon", first=first, second=second), texts)
