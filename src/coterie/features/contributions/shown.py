"""Who gave how much to whom, as a part of the report, tables and words: what was free to know, what was
valued, how far estimates agree, what they took.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie.features.contributions.record import FREE, WEIGHT, Contributed, without_own
from coterie.show import inks as colours
from coterie.show import numbers, plotly, views
from coterie.show.blocks import Block, More, Plot, Section, Sentence, Table
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, Saying, said, semicolons

ROUNDING = 1e-6  # weights are float32: two that lie nearer to each other are the same
FEW = 30  # clients of a method that a table lists one by one
SIDE = 60  # clients up to which pairs are drawn
SPELLED = 12  # and up to which figures are written into the drawing
BEST = ("exact-shapley", "gtg", "shapley", "leave-one-out", "first-order", WEIGHT)
"""By which clients are ranked: the first of these that there is."""
NONE = "—"
Found = dict[str, Contributed]
Rows = tuple[list[str], list[list[str]]]
"""A header, and lines."""


def found_in(by_label: views.Groups) -> Found:
    """Of the first seed of each method in which anybody took in anybody else's reply, or was to be valued."""
    told = {label: runs[0].contributions() for label, runs in by_label.items()}
    return {label: c for label, c in told.items() if c.asked or (without_own(c.times) > 0).any()}


def _of_whole_runs(runs: Runs) -> Found:
    """Without sites' parts of runs, which do not know what others gave to each other."""
    whole = {label: some for label, some in runs.by_label.items() if "lead" not in some[0].about}
    return found_in(whole)


# figures and names


def _column(name: str, **blanks: Any) -> Saying:
    return said(f"contributions.column.{name}", **blanks)


def _called(kind: str) -> str:
    """An estimate goes by its own name."""
    return _column("weight") if kind == WEIGHT else kind


def _leading(found: Contributed) -> str:
    """By which kind clients are ranked."""
    return next(kind for kind in BEST if kind in found.estimates or kind == WEIGHT)


def _digits(values: np.ndarray, kind: str = "") -> int:
    """Behind the point, for three that say something of the largest; rounds are whole numbers."""
    if kind == "rounds":
        return 0
    most = float(np.nanmax(np.abs(values), initial=0.0))
    return max(0, min(6, 2 - math.floor(math.log10(most)))) if most > 0 else 0


def _amount(value: float, places: int, half: float = 0.0) -> str:
    if not math.isfinite(value):
        return NONE
    text = f"{value:.{places}f}".replace("-", "\u2212")
    return Figure(f"{text} ± {half:.{places}f}" if half > 0 and math.isfinite(half) else text)


def _alone_at_the_top(values: np.ndarray) -> int | None:
    """The place of the largest, in the flat array; None where another is as large: then nobody is first."""
    most = float(np.nanmax(values))
    near = np.flatnonzero(values >= most - ROUNDING * abs(most))
    return int(near[0]) if len(near) == 1 else None


# tables


def cells(found: Contributed) -> Rows:
    """A line for each client: what it gave to others, by kind; who gave most comes first."""
    told = {k: (given, around, _digits(given, k)) for k, (_, _, given, around) in found.kinds().items()}
    rows = _by_client(found, told)
    if len(rows) > FEW:
        more = said("privacy.more", n=len(rows) - FEW)
        rows = [*rows[:FEW], [more, *[""] * len(told)]]
    return _header(found, said("column.client")), rows


def _of_requester(found: Contributed, name: str) -> Rows:
    """A line for each client: what it gave to this one, by kind; who gave most comes first."""
    r = found.clients.index(name)
    told = {k: (kind.value[r], kind.half[r], _digits(kind.value, k)) for k, kind in found.kinds().items()}
    return _header(found, _column("gave_to", who=name)), _by_client(found, told)


def _header(found: Contributed, first: str) -> list[str]:
    return [first, _column("rounds_of", n=found.rounds), _column("weight"), *found.estimates]


def _by_client(found: Contributed, told: Mapping[str, tuple[np.ndarray, np.ndarray, int]]) -> list[list[str]]:
    """By kind values [sender], half widths, digits."""
    columns = [told[k] for k in (*FREE, *found.estimates)]
    order = np.argsort(-np.nan_to_num(told[_leading(found)][0], nan=-math.inf), kind="stable")
    return [[found.clients[j], *(_amount(v[j], places, h[j]) for v, h, places in columns)] for j in order]


def pairs(found: Contributed) -> Rows:
    """A line for each requester: who gave most to it and who least, by the leading kind."""
    value, half, _, _ = found.kinds()[_leading(found)]
    others, rows = without_own(value), []
    places = _digits(others)
    for r, name in enumerate(found.clients):
        known = np.flatnonzero(np.isfinite(others[r]) & (others[r] != 0))
        if not len(known):
            continue
        ends = [_alone_at_the_top(sign * others[r][known]) for sign in (1, -1)]
        told = [NONE, NONE]
        for which, end in enumerate(ends if len(known) > 1 else ends[:1]):
            if end is not None:
                j = known[end]
                figure = _amount(value[r, j], places, half[r, j])
                told[which] = said("contributions.of", name=found.clients[j], value=figure)
        rows.append([name, *told, _amount(value[r, r], _digits(value), half[r, r])])
    return [_column(name) for name in ("requester", "most", "least", "itself")], rows


def agreement(found: Contributed, beside: str = "") -> Rows:
    """A line for every two estimates, or for each beside one of them; agreement is Spearman's."""
    rows = []
    for a in found.agreement():
        if beside in ("", a.one, a.other):
            line: list[str] = [said("contributions.and", one=_called(a.one), other=_called(a.other))]
            for value in (a.given, a.pairs):
                line.append(NONE if math.isnan(value) else Figure(f"{value:.2f}".replace("-", "\u2212")))
            rows.append([*line, NONE if math.isnan(a.difference) else Figure(f"{a.difference:.2g}")])
    return [_column(name) for name in ("estimates", "agreement", "of_pairs", "largest")], rows


def _price(found: Contributed) -> Rows:
    """A line for what was free, and for each estimate: what it took, how sure it is, what was drawn."""
    exact = said("contributions.exact")
    free: str = said("contributions.free_row")
    rows: list[list[str]] = [[free, str(found.rounds), "0", "0", "0\u00a0B", "0\u00a0s", exact, ""]]
    for name, s in found.estimates.items():
        took = [numbers.whole(s.looks), numbers.whole(s.sent)]
        took += [numbers.size(s.bytes), numbers.duration(s.seconds)]
        drawn = []
        if "walks" in s.said:
            cut = numbers.whole(s.said.get("cut", 0))
            drawn.append(said("contributions.orders", n=numbers.whole(s.said["walks"]), cut=cut))
        if "skipped" in s.said:
            drawn.append(said("contributions.skipped", n=numbers.whole(s.said["skipped"])))
        rows.append([name, str(s.rounds), *took, _sureness(s.value, s.half), semicolons(drawn)])
    names = ("estimate", "looks", "sent", "bytes", "time", "interval", "drawn")
    header: list[str] = [_column(name) for name in names]
    return [header[0], said("column.rounds"), *header[1:]], rows


def _sureness(value: np.ndarray, half_widths: np.ndarray) -> str:
    """The width of an interval of a pair, as a share of the mean size of values."""
    known = np.isfinite(value)
    size = float(np.abs(value[known]).mean()) if known.any() else 0.0
    half = float(np.median(half_widths[known])) if known.any() else 0.0
    if half == 0:
        return said("contributions.exact")
    return Figure(f"± {100 * half / size:.0f}\u00a0%") if size else NONE


def tables(found: Contributed, requester: str) -> list[Rows]:
    """All that a terminal shows, or what one requester was given."""
    if requester:
        return [_of_requester(found, requester)]
    made = [cells(found), pairs(found)]
    return [*made, agreement(found), _price(found)] if found.estimates else made


# words


def sentence(found: Contributed) -> str:
    """Who gave most to whom, in total; of equals nobody is named first."""
    kind = _leading(found)
    value, half, given, around = found.kinds()[kind]
    known = np.flatnonzero(np.isfinite(given))
    others = without_own(value)
    if not len(known) or not np.isfinite(others).any():
        return said("contributions.none")
    best, first = known[given[known].argmax()], _alone_at_the_top(given)
    total, by = _amount(given[best], _digits(given), around[best]), _called(kind)
    text = said("contributions.most", who=found.clients[best], kind=by, total=total)
    if given[best] <= 0:
        text = said("contributions.nobody", kind=by)
        if first is not None:
            text = said("contributions.nobody_near", kind=by, who=found.clients[best], total=total)
    elif first is None:
        text = said("contributions.several", kind=by, total=total)
    if (largest := _alone_at_the_top(others)) is None:
        return said("report.line", said=text)
    r, j = np.unravel_index(largest, others.shape)
    ends = {"giver": found.clients[j], "receiver": found.clients[r]}
    size = _amount(value[r, j], _digits(others), half[r, j])
    return said("contributions.largest", said=text, **ends, amount=size)


def legend(found: Contributed) -> list[str]:
    """What has to be known to read the figures."""
    lines: list[str] = [said("contributions.said" if found.estimates else "contributions.free")]
    if found.estimates:
        by: dict[str, list[str]] = {}
        for name, s in found.estimates.items():
            by.setdefault(s.rows, []).append(name)
        judged = semicolons(
            said("contributions.judged", names=names, rows=said(f"contributions.rows.{rows}"))
            for rows, names in by.items()
        )
        lines.append(said("report.line", said=judged))
        lines += [said("contributions.own")] if "train" in by else []
        if any((s.half > 0).any() for s in found.estimates.values()):
            lines.append(said("contributions.level", level=Figure(f"{100 * found.level:g} %")))
    if found.unvalued:
        times = {why: numbers.several(n, "time") for why, n in found.unvalued.items()}
        whys = semicolons(said("contributions.why", why=why, times=n) for why, n in times.items())
        lines.append(said("contributions.unvalued", whys=whys))
    return lines


# the report


def _choice(name: str, found: Contributed, kind: str, order: Sequence[int]) -> dict[str, Any]:
    """Bars of what each gave to others, above the matrix of pairs: the same columns."""
    value, half, given, around = (part[..., order] for part in found.kinds()[kind])
    value, half, names = value[order], half[order], plotly.ticks([found.clients[i] for i in order])
    signed, most = bool((value < 0).any()), float(np.nanmax(np.abs(value), initial=1e-12))
    places, in_all = (_digits(values, kind) for values in (value, given))
    both = [list(zip(*row, strict=True)) for row in zip(value, half, strict=True)]
    heat = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [plotly.tidy(row) for row in value],
        "zmin": -most if signed else 0,
        "zmax": most,
        "colorscale": plotly.ramp(colours.SCALE_SIGNED if signed else colours.SCALE),
        "customdata": [[_amount(v, places, h) for v, h in row] for row in both],
        "hovertemplate": plotly.hover(said("contributions.hover")),
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 12, "len": 0.66, "y": 0, "yanchor": "bottom", "outlinewidth": 0},
    }
    if len(order) <= SPELLED:
        heat["text"] = [[_amount(v, min(places, 3)) for v in row] for row in value]
        heat["texttemplate"] = "%{text}"
    bars = {
        "type": "bar",
        "x": names,
        "y": plotly.tidy(given),
        "yaxis": "y2",
        "showlegend": False,
        "marker": {"color": ["#D55E00" if v < 0 else "#0072B2" for v in np.nan_to_num(given)]},
        "customdata": [_amount(g, in_all, a) for g, a in zip(given, around, strict=True)],
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
        first = _leading(told)
        for kind in (first, *(k for k in told.kinds() if k != first)):
            if np.isfinite(told.kinds()[kind].value).any():
                name = said(f"contributions.kind.{kind}")
                if len(found) > 1:
                    name = said("contributions.choice", method=label, kind=name)
                choices.append(_choice(name, told, kind, order))
    side = max((len(told.clients) for told in found.values()), default=0)
    return {"choices": choices, "height": min(900, 360 + 26 * side)} if choices else None


def contributions_part(runs: Runs) -> list[Block]:
    """Nothing where nobody took in anything of anybody."""
    found = _of_whole_runs(runs)
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
    kind = _called(_leading(told))
    made = [(said("contributions.cells"), cells(told))]
    made.append((said("contributions.pairs", kind=kind), pairs(told)))
    if told.estimates:
        made.append((said("contributions.beside", kind=kind), agreement(told, _leading(told))))
        made.append((said("contributions.price"), _price(told)))
    inner: list[Block] = [Section(title, [Table(*rows)]) for title, rows in made if rows[1]]
    if len(told.estimates) > 2:
        inner.append(More(said("contributions.agree"), [Table(*agreement(told))]))
    return [*inner, *map(Sentence, legend(told))]


def on_screen(runs: Runs) -> list[Block]:
    """Of runs that were valued: who gave most to all others, and to whom most."""
    found = {label: c for label, c in _of_whole_runs(runs).items() if c.asked}
    rows = [[label, *most(c)] for label, c in found.items()]
    if not rows:
        return []
    notes = {line: None for c in found.values() if c.unvalued for line in legend(c)[-1:]}
    header = [said("column.method")]
    header += [said(f"contributions.few.{name}") for name in ("by", "gave", "others", "gift", "of")]
    return [runs.table(header, rows), *map(Sentence, (said("contributions.short"), *notes))]


def most(found: Contributed) -> list[str]:
    """By what, who gave most to others and how much, the largest gift and its size."""
    kind = _leading(found)
    value, half, given, around = found.kinds()[kind]
    told, others = [_called(kind), *[NONE] * 4], without_own(value)  # of equals nobody is named first
    if not np.isfinite(given).any() or not np.isfinite(others).any():
        return told
    if (best := _alone_at_the_top(given)) is not None:
        told[1:3] = found.clients[best], _amount(given[best], _digits(given), around[best])
    if (largest := _alone_at_the_top(others)) is not None:
        r, j = np.unravel_index(largest, others.shape)
        ends = {"giver": found.clients[j], "receiver": found.clients[r]}
        told[3:5] = said("contributions.gift", **ends), _amount(value[r, j], _digits(others), half[r, j])
    return told


PARTS = (
    Part("contributions", "contributions.title", 150, contributions_part),
    Part("contributions", "", 150, on_screen, on="screen"),
)
