"""A ranking on screen and on paper: who is worth learning with, for one requester or for all."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from coterie.core.errors import BadInput
from coterie.methods import METHODS, ranks_by
from coterie.methods.ranking.bar import ABOVE, THERE, error_name
from coterie.report import canvas, choices
from coterie.report import inks as colours
from coterie.report.ranked import ranked
from coterie.runs.record import Record
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHOSEN, LEFT = colours.COLOURS[0], "#C3CCD5"
HEADING = 9  # characters of a line above figures
FIRST = 3  # participants that are listed for each requester where a matrix is too wide
STAR = "* chosen to train with"
CAPTION: dict[str, Any] = {"caption": STAR, "caption_justify": "left", "caption_style": "dim"}


def ranking_frame(record: Record) -> pd.DataFrame:
    """One row for each requester and participant that was ranked, best first.

    Columns: requester, rank (from 1), participant, chosen, the value ranked by under its name, what else the
    method says of the pair, and the reason for choosing it or not.
    """
    found = ranked(record)
    further = [other for other in record.matrices if other != found.name]
    values, *others = _matrices(record, [found.name, *further])
    rows = []
    for r in found.requesters:
        for place, j in enumerate(found.order(r), start=1):
            figures = (float(matrix[r, j]) for matrix in (values, *others))
            pair = (found.clients[r], place, found.clients[j], bool(found.chosen[r, j]))
            rows.append((*pair, *figures, choices.why(found, r, j)))
    first = ["requester", "rank", "participant", "chosen"]
    return pd.DataFrame(rows, columns=[*first, found.name, *further, "reason"])


def screen_table(record: Record, width: int = 80) -> Table:
    """The ranking for one requester, one line a participant; for several, one line a requester.

    What it comes to, and why, is for `choices.sentences` to say.
    """
    found = ranking_frame(record)
    if found["requester"].nunique() == 1:
        return _one(record, found)
    wide = max(map(len, record.clients)) + sum(max(len(c), 8) + 2 for c in record.clients)
    return _matrix(record, found) if wide < width else _lines(record, found)


def _one(record: Record, found: pd.DataFrame) -> Table:
    shown = {THERE, ABOVE, *(by[0] for name in METHODS if (by := ranks_by(name)))}
    figures = [c for c in found.columns[4:-1] if c in shown]
    table = Table("rank", "participant", box=None, header_style="bold", **CAPTION)
    for column in (*figures, "training rows"):
        table.add_column("\n".join(textwrap.wrap(column, HEADING)), justify="right", no_wrap=True)
    table.add_column("chosen")
    sizes = {c["name"]: str(c["train"]) for c in record.about["clients"]}
    for row in found.to_dict("records"):
        cells = [f"{row[figures[0]]:+.4f}", *(_beside(row, figure) for figure in figures[1:])]
        mark = "*" if row["chosen"] else ""
        name = row["participant"]
        table.add_row(str(row["rank"]), escape(name), *cells, sizes[name], mark, style="bold" if mark else "")
    for name in sizes:
        if name not in {*found["participant"], *found["requester"]}:
            gone = ["did not answer", *[""] * (len(figures) - 1)]
            table.add_row("", escape(name), *gone, sizes[name], "", style="dim")
    return table


def _beside(row: Mapping[str, Any], figure: str) -> str:
    """A figure, and its standard error where there is one."""
    error = row.get(error_name(figure), math.nan)
    return f"{row[figure]:.3f}" + (f" ± {error:.3f}" if math.isfinite(error) else "")


def _matrix(record: Record, found: pd.DataFrame) -> Table:
    table = Table("requester", box=None, header_style="bold", **CAPTION)
    for name in record.clients:
        table.add_column(escape(name), justify="right")
    cells = {(row[0], row[2]): _cell(row[4], row[3]) for row in found.itertuples(index=False)}
    for requester in record.clients:
        table.add_row(
            escape(requester), *(cells.get((requester, c), "[dim]·[/dim]  ") for c in record.clients)
        )
    return table


def _cell(value: float, chosen: bool) -> str:
    return f"[bold]{value:+.3f} *[/bold]" if chosen else f"{value:+.3f}  "


def _lines(record: Record, found: pd.DataFrame) -> Table:
    table = Table("requester", "chosen", "ranked first", box=None, header_style="bold", **CAPTION)
    for requester in record.clients:
        mine = found[found["requester"] == requester]
        first = [
            f"{escape(row[2])} {row[4]:+.3f}{' *' * row[3]}"
            for row in mine.head(FIRST).itertuples(index=False)
        ]
        table.add_row(escape(requester), str(int(mine["chosen"].sum())), ", ".join(first) or "[dim]·[/dim]")
    return table


def need_matplotlib() -> Any:
    """Asked before anything is ranked."""
    try:
        import matplotlib
    except ImportError:
        raise BadInput(
            "figures need matplotlib: pip install 'coterie[figures]', or set figures=none"
        ) from None
    return matplotlib


def write_ranking(folder: Path, record: Record, format: Literal["none", "svg", "png"]) -> list[Path]:
    """ranking.csv, and the figure beside it; returns their paths."""
    written = [write_whole(folder / "ranking.csv", ranking_frame(record).to_csv(index=False))]
    if format == "none":
        return written
    with need_matplotlib().rc_context(canvas.LOOK):
        content = io.BytesIO()
        stamp = {"Date": None} if format == "svg" else {"Software": None}
        draw_ranking(record).savefig(content, format=format, metadata=stamp)
    return [*written, write_whole(folder / f"ranking.{format}", content.getvalue())]


def draw_ranking(record: Record) -> Figure:
    """Bars for one requester, best first; for several, a matrix with a dot on whom each has chosen."""
    found, by = ranking_frame(record), ranked(record)
    name, high = by.name, by.high
    label = f"{name} ({'higher' if high else 'lower'} is better)"
    if found["requester"].nunique() == 1:
        return _bars(found, label)
    # blue is good, and what there is nothing to say of is not white, which is 0
    ramp = canvas.ramp(colours.SCALE_SIGNED if high else colours.SCALE_SIGNED[::-1])
    return _picture(record, name, label, ramp.with_extremes(bad="#ECEFF2"))


def _bars(found: pd.DataFrame, label: str) -> Figure:
    figure, axes = canvas.sheet(4.5, max(1.6, min(7.5, 0.7 + 0.22 * len(found))))
    places, values = np.arange(len(found)), found.iloc[:, 4].to_numpy()
    for chosen, colour, what in ((True, CHOSEN, "chosen"), (False, LEFT, "left out")):
        some = found["chosen"].to_numpy() == chosen
        if some.any():
            axes.barh(places[some], values[some], color=colour, label=what)
    axes.invert_yaxis()
    axes.axvline(0, color=colours.ALONE, linewidth=0.6)
    canvas.ticks(axes, list(found["participant"]), "y")
    axes.set_xlabel(label)
    nobody = "" if found["chosen"].any() else ": nobody is worth it"
    axes.set_title(f"for {canvas.plain(found['requester'].iloc[0])}{nobody}", fontsize=8, loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=7)
    return figure


def _picture(record: Record, name: str, label: str, ramp: Any) -> Figure:
    found = ranked(record)
    (values,) = _matrices(record, [name])
    chosen = found.chosen & np.isfinite(values)
    figure, axes = canvas.sheet(4.4, 3.8)
    bound = float(np.nanmax(np.abs(values))) or 1.0
    image = axes.imshow(values, cmap=ramp, vmin=-bound, vmax=bound)
    rows, columns = np.nonzero(chosen)
    axes.scatter(columns, rows, s=max(2, 160 / len(values)), color="white", edgecolor="black", linewidth=0.6)
    canvas.ticks(axes, record.clients, "x")
    nobody = set(found.requesters) - set(rows.tolist())
    for r in nobody:  # in the place of itself, of which there is nothing to say
        axes.text(r, r, "nobody", ha="center", va="center", fontsize=max(2, min(7, 40 / len(values))))
    canvas.ticks(axes, record.clients, "y")
    axes.set(xlabel="participant", ylabel="requester")
    said = "dots: chosen" + ("; nobody: trains alone" if nobody else "")
    axes.set_title(said, fontsize=7, loc="left", color="#52606d")
    figure.colorbar(image, ax=axes, label=label, shrink=0.85)
    return figure


def _matrices(record: Record, names: Sequence[str]) -> list[np.ndarray]:
    """These matrices of the round that ranked."""
    round = max(record.matrices[names[0]])
    return [np.asarray(record.matrices[n][round]) for n in names]
