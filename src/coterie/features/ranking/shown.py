"""A ranking in words, as a table and as a figure: who is worth learning with, for one requester or for all.

A requester's line gathers its pairs by reason (`ranking.REASONS`).
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from coterie.features.ranking.ranking import IN, JUDGED, Ranked, is_ranking, ranked, reason
from coterie.methods import METHODS, ranks_by
from coterie.methods.ranking.bar import ABOVE, THERE, error_name
from coterie.runs.record import Record
from coterie.show import figures, views
from coterie.show import inks as colours
from coterie.show.blocks import Block, Points
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure as Number
from coterie.show.words import known as known_text
from coterie.show.words import listed, said, say

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LISTED = 6  # names in a line
LINES = 12  # of those who train alone
FIRST = 3  # participants that are listed for each requester where a matrix is too wide
CHOSEN, LEFT = colours.COLOURS[0], "#C3CCD5"
HEADING = 9  # characters of a line above figures

# in words


def _number(value: float) -> Number:
    return Number(f"{value:.3g}".replace("-", "−"))


def _value(found: Ranked, r: int, j: int) -> str:
    value, error = found.value[r, j], found.error[r, j]
    text = said("ranking.figures.value", name=found.name, value=_number(value))
    return said("ranking.figures.error", value=text, error=_number(error)) if math.isfinite(error) else text


def _figures(name: str, found: Ranked, r: int, j: int) -> str:
    """Of one pair, by the reason that it has; nothing where there are none to it."""
    there, own = _number(found.there[r, j]), _number(found.there[r, j] - found.above[r, j])
    match name:
        case "first" | "helps" | "harms" | "chance" | "other":
            return _value(found, r, j)
        case "better" | "suits" | "even" | "own":
            return said("ranking.figures.own", there=there, own=own, error=_number(found.spread[r, j]))
        case "guess":
            return said("ranking.figures.guess", there=there, guess=_number(found.guess[r]))
        case "threshold":
            threshold = Number(f"{found.threshold:g}")
            return said("ranking.figures.threshold", value=_value(found, r, j), threshold=threshold)
        case "later":
            return said("ranking.figures.best", best=found.best)
    return ""


def _because(name: str, others: Sequence[str], at: str) -> str:
    form = "one" if len(others) == 1 else "many"
    return said(f"ranking.reason.{name}.{form}", names=listed(others, LISTED), at=at)


def _sentence(found: Ranked, r: int) -> str:
    """Who is chosen, or nobody, and because of what: each reason once, of all whom it is of."""
    by_reason: dict[str, list[str]] = {}
    for j in found.order(r):
        by_reason.setdefault(reason(found, r, j), []).append(found.clients[j])
    chosen = [found.clients[j] for j in found.order(r) if reason(found, r, j) in IN]
    names = [name for name in by_reason if name in IN] or list(by_reason)
    each = [_because(name, by_reason[name], found.clients[r]) for name in names]
    because = reduce(lambda first, second: said("ranking.then", first=first, second=second), each)
    who = listed(chosen, LISTED) if chosen else said("ranking.nobody")
    return said("ranking.because", who=who, why=because)


def sentences(record: Record) -> dict[str, str]:
    """By requester; nothing of a run that has not ranked."""
    if not is_ranking(record):
        return {}
    found = ranked(record)
    return {found.clients[r]: _sentence(found, r) for r in found.requesters}


def alone(record: Record) -> dict[str, str]:
    """Those who train alone because nobody was worth it, and why."""
    if not is_ranking(record):
        return {}
    found = ranked(record)
    others = ~np.eye(len(found.clients), dtype=bool)
    nobody = (r for r in found.requesters if not (found.chosen[r] & others[r]).any())
    return {found.clients[r]: _sentence(found, r) for r in nobody}


def _alone_by_seed(runs: Sequence[Record]) -> dict[str, dict[int, str]]:
    """The same of several runs: by client, then by seed."""
    found: dict[str, dict[int, str]] = {}
    for record in runs:
        for name, text in alone(record).items():
            found.setdefault(name, {})[views.seed(record)] = text
    return found


def alone_lines(by_label: views.Groups) -> list[str]:
    """Who trains alone because nobody was worth it, in how many seeds, and why in the first of them."""
    lines: list[str] = []
    for label, runs in by_label.items():
        for name, why in _alone_by_seed(runs).items():
            seed = min(why)
            text = "ranking.alone" if len(runs) == 1 else "ranking.alone_in"
            blanks = {"n": len(why), "of": len(runs), "seed": seed}
            lines.append(said(text, method=label, client=name, why=why[seed], **blanks))
    more = len(lines) - LINES
    return lines if more <= 0 else [*lines[:LINES], said("ranking.not_listed", n=more)]


def alone_in_short(by_label: views.Groups) -> list[str]:
    """A line for each method and kind of reason: who trains alone, and in how many seeds. A single run says
    why in full.
    """
    if all(len(runs) == 1 for runs in by_label.values()) and len(by_label) == 1:
        return alone_lines(by_label)
    lines: list[str] = []
    for label, runs in by_label.items():
        by_kind: dict[str, list[str]] = {}
        for name, why in _alone_by_seed(runs).items():
            seeds = said("ranking.in_seeds", client=name, n=len(why), of=len(runs)) if len(runs) > 1 else name
            whys = set[str]()
            for found in (ranked(record) for record in runs if name in alone(record)):
                r = found.clients.index(name)
                whys |= {reason(found, r, j) for j in found.order(r)}
            kind = "few" if whys == {"few"} else "worth" if whys <= JUDGED else "chosen"
            by_kind.setdefault(kind, []).append(seeds)
        for kind, who in by_kind.items():
            lines.append(said(f"ranking.short.{kind}", method=label, who=listed(who, LISTED)))
    return lines


# in reports


def _alone_part(runs: Runs) -> list[Block]:
    lines = alone_lines(runs.by_label)
    return [Points(lines)] if lines else []


PARTS = (
    Part("alone", "matrix.alone", 91, _alone_part, within="matrix"),
    Part("alone", "", 91, lambda runs: [Points(alone_in_short(runs.by_label))], on="ended"),
)


# as a table


def ranking_frame(record: Record) -> pd.DataFrame:
    """One row for each requester and participant that was ranked, best first.

    Columns: requester, rank (from 1), participant, chosen, the value ranked by under its name, what else the
    method says of the pair, and the reason for choosing it or not.
    """
    import pandas as pd  # only where a frame is asked for: it takes a while to import

    found = ranked(record)
    round = max(record.matrices[found.name])
    names = [found.name, *(other for other in record.matrices if other != found.name)]
    matrices = [np.asarray(record.matrices[name][round]) for name in names]
    rows = []
    for r in found.requesters:
        for place, j in enumerate(found.order(r), start=1):
            why = reason(found, r, j)
            text, figures = _because(why, [found.clients[j]], found.clients[r]), _figures(why, found, r, j)
            text = said("ranking.why", why=text, figures=figures) if figures else text
            pair = (found.clients[r], place, found.clients[j], bool(found.chosen[r, j]))
            rows.append((*pair, *(float(matrix[r, j]) for matrix in matrices), str(text)))
    return pd.DataFrame(rows, columns=["requester", "rank", "participant", "chosen", *names, "reason"])


def screen_table(record: Record, width: int = 80) -> Table:
    """The ranking for one requester, one line a participant; for several, one line a requester.

    What it comes to, and why, is for `sentences` to say.
    """
    found = ranking_frame(record)
    if found["requester"].nunique() == 1:
        return _one(record, found)
    wide = max(map(len, record.clients)) + sum(max(len(c), 8) + 2 for c in record.clients)
    return _matrix(record, found) if wide < width else _lines(record, found)


def _table(*columns: str) -> Table:
    star: dict[str, Any] = {"caption": say("ranking.star"), "caption_justify": "left", "caption_style": "dim"}
    return Table(*(say(f"ranking.column.{name}") for name in columns), box=None, header_style="bold", **star)


def _one(record: Record, found: pd.DataFrame) -> Table:
    known = {THERE, ABOVE, *(by[0] for name in METHODS if (by := ranks_by(name)))}
    figures = [c for c in found.columns[4:-1] if c in known]
    table = _table("rank", "participant")
    for column in (*figures, say("ranking.column.rows")):
        called = say.again(known_text("number_called", column))
        table.add_column("\n".join(textwrap.wrap(called, HEADING)), justify="right", no_wrap=True)
    table.add_column(say("ranking.column.chosen"))
    sizes = {c["name"]: str(c["train"]) for c in record.about["clients"]}
    for row in found.to_dict("records"):
        cells = [say.written(f"{row[figures[0]]:+.4f}")]
        for figure in figures[1:]:
            error = row.get(error_name(figure), math.nan)
            around = f" ± {error:.3f}" if math.isfinite(error) else ""
            cells.append(say.written(f"{row[figure]:.3f}{around}"))
        mark, name = "*" if row["chosen"] else "", row["participant"]
        style = "bold" if mark else ""
        table.add_row(str(row["rank"]), escape(name), *cells, sizes[name], mark, style=style)
    for name in sizes:
        if name not in {*found["participant"], *found["requester"]}:
            gone = [say("ranking.away"), *[""] * (len(figures) - 1)]
            table.add_row("", escape(name), *gone, sizes[name], "", style="dim")
    return table


def _matrix(record: Record, found: pd.DataFrame) -> Table:
    table = _table("requester")
    for name in record.clients:
        table.add_column(escape(name), justify="right")
    cells = {
        (row[0], row[2]): say.written(f"[bold]{row[4]:+.3f} *[/bold]" if row[3] else f"{row[4]:+.3f}  ")
        for row in found.itertuples(index=False)
    }
    for r in record.clients:
        table.add_row(escape(r), *(cells.get((r, c), "[dim]·[/dim]  ") for c in record.clients))
    return table


def _lines(record: Record, found: pd.DataFrame) -> Table:
    table = _table("requester", "chosen", "first")
    for requester in record.clients:
        mine = found[found["requester"] == requester]
        best = mine.head(FIRST).itertuples(index=False)
        first = [f"{escape(row[2])} {say.written(f'{row[4]:+.3f}')}{' *' * row[3]}" for row in best]
        table.add_row(escape(requester), str(int(mine["chosen"].sum())), ", ".join(first) or "[dim]·[/dim]")
    return table


# on paper


def draw_ranking(record: Record) -> Figure:
    """Bars for one requester, best first; for several, a matrix with a dot on whom each has chosen."""
    found = ranked(record)
    label = f"{found.name} ({'higher' if found.high else 'lower'} is better)"
    return _bars(ranking_frame(record), label) if len(found.requesters) == 1 else _picture(found, label)


def _bars(found: pd.DataFrame, label: str) -> Figure:
    figure, axes = figures.sheet(4.5, max(1.6, min(7.5, 0.7 + 0.22 * len(found))))
    places, values = np.arange(len(found)), found.iloc[:, 4].to_numpy()
    for chosen, colour, what in ((True, CHOSEN, "chosen"), (False, LEFT, "left out")):
        some = found["chosen"].to_numpy() == chosen
        if some.any():
            axes.barh(places[some], values[some], color=colour, label=what)
    axes.invert_yaxis()
    axes.axvline(0, color=colours.ALONE, linewidth=0.6)
    figures.ticks(axes, list(found["participant"]), "y")
    axes.set_xlabel(label)
    nobody = "" if found["chosen"].any() else ": nobody is worth it"
    axes.set_title(f"for {figures.plain(found['requester'].iloc[0])}{nobody}", fontsize=8, loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=7)
    return figure


def _picture(found: Ranked, label: str) -> Figure:
    values, chosen = found.value, found.chosen & np.isfinite(found.value)
    # blue is good, and what there is nothing to say of is not white, which is 0
    ramp = figures.ramp(colours.SCALE_SIGNED if found.high else colours.SCALE_SIGNED[::-1])
    figure, axes = figures.sheet(4.4, 3.8)
    bound = float(np.nanmax(np.abs(values))) or 1.0
    image = axes.imshow(values, cmap=ramp.with_extremes(bad="#ECEFF2"), vmin=-bound, vmax=bound)
    rows, columns = np.nonzero(chosen)
    axes.scatter(columns, rows, s=max(2, 160 / len(values)), color="white", edgecolor="black", linewidth=0.6)
    figures.ticks(axes, found.clients, "x")
    nobody = set(found.requesters) - set(rows.tolist())
    for r in nobody:  # in the place of itself, of which there is nothing to say
        axes.text(r, r, "nobody", ha="center", va="center", fontsize=max(2, min(7, 40 / len(values))))
    figures.ticks(axes, found.clients, "y")
    axes.set(xlabel="participant", ylabel="requester")
    title = "dots: chosen" + ("; nobody: trains alone" if nobody else "")
    axes.set_title(title, fontsize=7, loc="left", color="#52606d")
    figure.colorbar(image, ax=axes, label=label, shrink=0.85)
    return figure
