"""How alike sites are, in sentences, tables and figures: for `coterie similar`, its page, and reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from coterie.core.errors import BadRun
from coterie.features.similarity.plots import mean_terms, plots
from coterie.features.similarity.record import MEASURES, SIZES, Similarity, similarity_of
from coterie.report.about import notes_part, repeat_part, settings, what
from coterie.report.clients import holdings_part
from coterie.runs.record import Record
from coterie.show import figures, html
from coterie.show.blocks import Block, Group, More, Note, Points, Section, Sentence, Table
from coterie.show.numbers import NONE
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, listed, said
from coterie.storage.atomic import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

NAMED = 3  # columns that a sentence names
CLEAR = 3.0  # times what chance makes: two samples of the same rows reach it in fewer than 1 of 300 columns
FILES = {"heat": "distances"}
"""Figures of a page whose files have another name."""
SMALL, LARGE = 0.05, 1.0  # deviations: what is none, and what rows must not miss to call columns alike


def _similarity_part(runs: Runs) -> list[Block]:
    """Nothing where no run asked for sketches."""
    blocks: list[Block] = []
    for i, (label, some) in enumerate(runs.by_label.items()):
        if (found := similarity_of(some[0])) is not None:
            mine = blocks_of(found, f"{runs.key}-similarity-{i}")
            blocks += [Section(label, mine)] if len(runs.by_label) > 1 else mine
    return blocks


PARTS = (Part("similarity", "similar.title", 80, _similarity_part, of="similar"),)


def blocks_of(found: Similarity, key: str) -> list[Block]:
    meanings = [(said(f"similar.called.{m}"), said(f"similar.means.{m}")) for m in (*found.measures, SIZES)]
    columns, pairs = column_table(found), pair_table(found)
    return [
        *(Note(said("similar.line", said=line)) for line in warnings(found)),
        Points(sentences(found)),
        *(Sentence(means, lead=said("similar.name", name=name)) for name, means in meanings),
        Sentence(said("similar.control")),
        *plots(found, key),
        *([More(said("similar.columns_table"), [columns])] if columns.rows else []),
        More(said("similar.pairs_table"), [pairs]),
    ]


def of_pair(found: Similarity, i: int, j: int) -> str:
    """One sentence on two sites: what they measure alike, and in what they differ most."""
    terms, pair = found.terms[i, j], {"one": found.sites[i], "other": found.sites[j]}
    if not terms.size or not np.isfinite(terms).any():
        return said("similar.no_quantiles", **pair)
    order = np.argsort(-terms, kind="stable")
    clear = CLEAR * found.expected[i, j]
    differ = [c for c in order if terms[c] > max(clear[c], SMALL)]
    rest = [c for c in order[::-1] if terms[c] <= max(clear[c], SMALL)]
    same = [c for c in rest if clear[c] <= LARGE]
    if not differ:
        if len(same) == len(rest):
            return said("similar.same", **pair)
        rows = listed([f"{found.rows[k]:.0f}" for k in (i, j)])
        return said("similar.cannot_tell", **pair, rows=rows, most=Figure(f"{clear[rest].max():.2f}"))
    named = [(found.columns[c], Figure(f"{terms[c]:.2f}")) for c in differ[:NAMED]]
    most = listed([said("similar.column_by", column=column, value=value) for column, value in named])
    if not same:
        return said(f"similar.{'some_columns' if rest else 'every_column'}", **pair, most=most)
    least = listed([found.columns[c] for c in same[:NAMED]])
    return said("similar.alike_and_not", **pair, least=least, most=most)


def _nearest(found: Similarity, i: int, measure: str) -> str:
    row = found.measures[measure][i]
    if not np.isfinite(row).any():
        return said("similar.no_answer", site=found.sites[i])
    near, far = int(np.nanargmin(row)), int(np.nanargmax(row))
    value: str = Figure(f"{row[near]:.2f}")
    if (chance := found.chance.get(measure)) is not None:
        key = "no_more_than_chance" if row[near] <= chance[i, near] else "by_chance"
        value = said(f"similar.{key}", value=value, chance=Figure(f"{chance[i, near]:.2f}"))
    nearest = {"site": found.sites[i], "near": found.sites[near], "value": value}
    if near == far:
        return said("similar.nearest", **nearest)
    return said("similar.nearest_farthest", **nearest, far=found.sites[far], most=Figure(f"{row[far]:.2f}"))


def _leading(found: Similarity) -> str:
    """The measure that sentences go by."""
    return next(name for name in MEASURES if name in found.measures)


def warnings(found: Similarity) -> list[str]:
    """What to know before trusting a distance."""
    epsilon = Figure(f"{found.epsilon:g}")
    lines: list[str] = [
        said(
            "similar.drowned",
            measure=said(f"similar.called.{measure}"),
            sites=listed(sites),
            fewest=int(min(found.rows[found.sites.index(s)] for s in sites)),
            epsilon=epsilon,
        )
        for measure, sites in found.drowned.items()
        if sites
    ]
    lines += [said("similar.fitted", epsilon=epsilon)] if found.epsilon and found.fitted else []
    return lines + ([said("similar.own_scales")] if found.own_scales else [])


def sentences(found: Similarity, most: int = 12) -> list[str]:
    """For each site that asks who is near and far; for the nearest pair, and the farthest, by what."""
    measure = _leading(found)
    near = [_nearest(found, i, measure) for i in found.asking()[:most]]
    asking = found.asking()
    some = found.measures[measure][asking]
    if not found.terms.shape[2] or not np.isfinite(some).any():
        return near
    places, width = {int(np.nanargmin(some)), int(np.nanargmax(some))}, some.shape[1]
    ends = [divmod(place, width) for place in sorted(places, key=lambda p: some.flat[p])]
    return near + [of_pair(found, asking[row], j) for row, j in ends]


def pair_table(found: Similarity, most: int = 0) -> Table:
    """A line for each pair of who asks, nearest first, in both directions, as the transfer loss has two.
    `most` are shown of each site, 0 shows all.
    """
    chance = said("similar.column.by_chance")
    header = [said("similar.column.site"), said("similar.column.other")]
    for name in found.measures:
        header += [said(f"similar.called.{name}"), *([chance] if name in found.chance else [])]
    by_column = bool(found.terms.shape[2])
    header += [said("similar.column.rows"), *([said("similar.column.most")] if by_column else [])]
    far, rows = np.nan_to_num(found.measures[_leading(found)], nan=np.inf), []
    for i in found.asking():
        for j in [int(j) for j in np.argsort(far[i], kind="stable") if j != i][: most or None]:
            row = [found.sites[i], found.sites[j]]
            for name, matrix in found.measures.items():
                row.append(_figure(matrix[i, j], name == "ndoye"))
                row += [_figure(found.chance[name][i, j])] if name in found.chance else []
            row.append(str(int(found.rows[j])))
            if by_column:
                terms = found.terms[i, j]
                most_different = np.argsort(-terms, kind="stable")[:2]
                named = ", ".join(f"{found.columns[c]} {terms[c]:.2f}" for c in most_different)
                row.append(named if np.isfinite(terms).any() else said("similar.away"))
            rows.append(row)
    return Table(header, rows)


def _figure(value: float, signed: bool = False) -> Figure:
    return Figure(NONE if not np.isfinite(value) else f"{value:+.3f}" if signed else f"{value:.3f}")


def column_table(found: Similarity, most: int | None = None) -> Table:
    """Columns by how much they differ over all pairs of who asks: mean, chance, and the farthest pair."""
    names = ("column", "mean", "by_chance", "largest", "between")
    header = [said(f"similar.column.{name}") for name in names]
    asking = found.asking()
    off = ~np.eye(len(found.sites), dtype=bool)[asking]
    mean, _ = mean_terms(found, asking)
    rows = []
    for c in (int(c) for c in np.argsort(-mean, kind="stable")[:most] if np.isfinite(mean[c])):
        terms, chance = (np.where(off, some[asking, :, c], np.nan) for some in (found.terms, found.expected))
        first, second = np.unravel_index(np.nanargmax(terms), terms.shape)
        pair = listed([found.sites[asking[int(first)]], found.sites[int(second)]])
        three = map(_figure, (float(np.nanmean(terms)), float(np.nanmean(chance)), float(np.nanmax(terms))))
        rows.append([found.columns[c], *three, pair])
    return Table(header, rows)


# as files


def write_page(path: Path, record: Record) -> Path:
    """One page about the sites and nothing else: no model was trained for them."""
    found, runs = similarity_of(record), Runs("", [record], key="similarity")
    if found is None:
        raise BadRun("the run holds no sketches of its sites: run 'coterie similar'")
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


def write_files(folder: Path, found: Similarity, format: Literal["none", "svg", "png"]) -> list[Path]:
    """pairs.csv, columns.csv where there are quantiles, and figures: heat-maps, map, tree and columns."""
    written = [write_whole(folder / "pairs.csv", found.pairs().to_csv(index=False))]
    if found.terms.shape[2]:
        written.append(write_whole(folder / "columns.csv", found.drift().to_csv(index=False)))
    return written + figures.write(folder, lambda: draw(found), format)


def draw(found: Similarity) -> dict[str, Drawn]:
    """Figures by file name, without its ending."""
    named = {plot.key.removeprefix("-"): plot for plot in plots(found, "")}
    return {FILES.get(name, name): plot.paper() for name, plot in named.items() if plot.paper}
