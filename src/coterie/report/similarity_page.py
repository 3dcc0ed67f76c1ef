"""The page, tables and figures of `coterie similar`."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coterie.core.errors import BadRun
from coterie.report import canvas, maps, page, page_figures, page_tables, views
from coterie.report import inks as colours
from coterie.report import similarity_words as words
from coterie.report.ranking import need_matplotlib
from coterie.report.similarity import BARS, NEAR, SIDE, TITLE, arranged, dot_sizes, mean_terms, section
from coterie.runs.alike import Similarity, similarity_of
from coterie.runs.record import Record
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_page(path: Path, record: Record) -> Path:
    """One page about the sites and nothing else: no model was trained for them."""
    found = found_in(record)
    by_label = views.groups([record])
    first = words.sentences(found)[0]
    header = (
        f'<div class="outcome"><p class="headline">{escape(first)}</p>'
        f'<p class="what">{page_tables.what([record])}</p></div>'
    )
    settings = page_figures.more("Settings", page_tables.settings(by_label))
    shown = [
        ("similarity", TITLE, section(found, "similarity")),
        ("data", "Who has which data", page_figures.data_part(record, [record], "similarity")),
        ("notes", "What happened to the data", page_tables.notes([record])),
        ("repeat", "How to repeat it", page_tables.repeat([record]) + settings),
    ]
    body = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2>{content}</section>'
        for key, name, content in shown
        if content
    )
    version = str(record.about.get("coterie", ""))
    return write_whole(path, page.document("Similarity before training", header, body, version))


def found_in(record: Record) -> Similarity:
    found = similarity_of(record)
    if found is None:
        raise BadRun("the run holds no sketches of its sites: run 'coterie similar'")
    return found


def write_tables(folder: Path, found: Similarity) -> list[Path]:
    """pairs.csv, and columns.csv where there are quantiles."""
    written = [write_whole(folder / "pairs.csv", found.pairs().to_csv(index=False))]
    if found.terms.shape[2]:
        written.append(write_whole(folder / "columns.csv", found.drift().to_csv(index=False)))
    return written


def write_figures(folder: Path, found: Similarity, format: Literal["none", "svg", "png"]) -> list[Path]:
    """Heat-maps, map, tree and columns, beside the tables; returns their paths."""
    if format == "none":
        return []
    written = []
    with need_matplotlib().rc_context(canvas.LOOK):
        stamp = {"Date": None} if format == "svg" else {"Software": None}
        for name, figure in draw(found).items():
            content = io.BytesIO()
            figure.savefig(content, format=format, metadata=stamp)
            written.append(write_whole(folder / f"{name}.{format}", content.getvalue()))
    return written


def draw(found: Similarity) -> dict[str, Figure]:
    """Figures by file name, without its ending."""
    made: dict[str, Figure] = {}
    if len(found.sites) <= SIDE:
        made["distances"] = _heats(found)
        if any(True for _ in arranged(found)):
            made |= {"map": _planes(found), "tree": _trees(found)}
    if found.terms.shape[2]:
        made["columns"] = _columns(found)
    return made


def _heats(found: Similarity) -> Figure:
    figure, _ = canvas.sheet(3.6 * len(found.measures), 3.2, axes=False)
    for axes, (name, matrix) in zip(_row(figure, len(found.measures)), found.measures.items(), strict=True):
        image = axes.imshow(matrix, cmap=canvas.ramp(NEAR).with_extremes(bad="#ECEFF2"))
        canvas.ticks(axes, found.sites, "x")
        canvas.ticks(axes, found.sites, "y")
        axes.set_title(words.CALLED[name], fontsize=8, loc="left")
        figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def _planes(found: Similarity) -> Figure:
    laid = list(arranged(found))
    figure, _ = canvas.sheet(2.9 * len(laid), 2.8, axes=False)
    for axes, (name, distances, here) in zip(_row(figure, len(laid)), laid, strict=True):
        places = maps.scaled(distances).places
        axes.scatter(*places.T, s=4 * dot_sizes(found.rows[here]), color=colours.COLOURS[0], alpha=0.75)
        for i, place in zip(here, places, strict=True):
            axes.annotate(
                canvas.plain(found.sites[i]),
                place,
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
        axes.margins(0.25)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(words.CALLED[name], fontsize=8, loc="left")
    return figure


def _trees(found: Similarity) -> Figure:
    tall = min(8.0, 1.2 + 0.22 * len(found.sites))
    laid = list(arranged(found))
    figure, _ = canvas.sheet(2.9 * len(laid), tall, axes=False)
    for axes, (name, distances, here) in zip(_row(figure, len(laid)), laid, strict=True):
        tree = maps.tree(distances)
        for places, heights in tree.lines:
            axes.plot(heights, places, color=colours.COLOURS[0], linewidth=1.2)
        leaves = [canvas.plain(found.sites[here[i]]) for i in tree.order]
        axes.set_yticks([5 + 10 * k for k in range(len(leaves))], leaves, fontsize=7)
        axes.set_xlim(left=0)
        axes.set_xlabel(words.CALLED[name])
    return figure


def _columns(found: Similarity) -> Figure:
    mean, chance = mean_terms(found, found.asking())
    order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:BARS]
    figure, axes = canvas.sheet(4.5, 0.8 + 0.22 * len(order))
    places = np.arange(len(order))
    axes.barh(places, mean[order], color=colours.SCALE[2], label="difference, mean over pairs")
    axes.plot(chance[order], places, "|", color=colours.ALONE, markersize=9, label="by chance")
    axes.invert_yaxis()
    axes.set_yticks(places, [canvas.plain(found.columns[c]) for c in order], fontsize=7)
    axes.set_xlabel("deviations")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=7)
    return figure


def _row(figure: Figure, many: int) -> list[Any]:
    return list(figure.subplots(1, many, squeeze=False)[0])
