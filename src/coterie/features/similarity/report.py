"""The page of `coterie similar`, its tables, and its figures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coterie.core.errors import BadRun
from coterie.features.similarity.shown import blocks_of, sentences
from coterie.features.similarity.similarity import Similarity, similarity_of
from coterie.report.about import notes_part, repeat_part, settings, what
from coterie.report.clients import holdings_part
from coterie.runs.record import Record
from coterie.show import figures, html
from coterie.show.blocks import Group, More, Plot, Section, Sentence
from coterie.show.parts import Runs
from coterie.show.words import said
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = {"heat": "distances"}
"""Figures of a page whose files have another name."""


def write_page(path: Path, record: Record) -> Path:
    """One page about the sites and nothing else: no model was trained for them."""
    found, runs = found_in(record), Runs("", [record], key="similarity")
    came = [Sentence(sentences(found)[0], kind="headline"), Sentence(what([record]), kind="what")]
    config = More("Settings", [settings(runs.by_label)])
    parts = [
        Section(said("similar.title"), blocks_of(found, "similarity"), "similarity"),
        Section("Who has which data", holdings_part(runs), "data"),
        Section("What happened to the data", notes_part(runs), "notes"),
        Section("How to repeat it", [*repeat_part(runs)[:2], config], "repeat"),
    ]
    version = str(record.about.get("coterie", ""))
    return write_whole(path, html.document(said("similar.page"), [Group(came, "outcome")], parts, version))


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
    return figures.write(folder, lambda: draw(found), format)


def draw(found: Similarity) -> dict[str, Figure]:
    """Figures by file name, without its ending."""
    plots = [block for block in blocks_of(found, "") if isinstance(block, Plot) and block.paper is not None]
    names = [plot.key.removeprefix("-") for plot in plots]
    return {FILES.get(n, n): plot.paper() for n, plot in zip(names, plots, strict=True) if plot.paper}
