"""How alike the sites are: the section of a page, with heat-maps, a map, a tree, and columns that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from coterie.report import inks as colours
from coterie.report import maps, page_tables, plotly_data, views
from coterie.report import similarity_words as words
from coterie.report.inks import Ink
from coterie.runs.alike import SIZES, Similarity, similarity_of

TITLE = "How alike the sites are"
SIDE = 60  # sites that are drawn one by one
SPELLED = 12  # and up to which figures are written into the drawing
BARS = 15  # columns that are drawn
NEAR = colours.SCALE[::-1]  # dark is near
HEAT = (
    "Row: who asks; column: the other; dark is near, or for size, large. Hover for what chance alone would "
    "make of a distance."
)
MAP = (
    "Sites near each other on the map are near by the measure. Directions mean nothing, distances do. Of two "
    "directions of a transfer loss it is the mean."
)
TREE = "Lines join at the mean distance of the sites below them: what joins low is alike (average linkage)."
COLUMNS = (
    "Bars: by how many deviations the column differs, the mean over the pairs shown. Marks: what two samples "
    "of the same rows would differ by."
)


def part(by_label: views.Groups, inks: Mapping[str, Ink], key: str) -> str:
    """The section of a page; nothing where no run asked for sketches."""
    found = {label: similarity_of(runs[0]) for label, runs in by_label.items()}
    made = ""
    for i, (label, told) in enumerate((label, told) for label, told in found.items() if told is not None):
        assert told is not None
        named = f"<p>{page_tables.swatch(label, inks)}</p>" if len(by_label) > 1 else ""
        made += named + section(told, f"{key}-{i}")
    return made


def section(found: Similarity, key: str) -> str:
    """Sentences, figures, tables."""
    from coterie.report.page_figures import figure, more

    said = "".join(f'<p class="warning">{escape(line)}.</p>' for line in words.warnings(found))
    said += f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in words.sentences(found))}</ul>"
    meant = [(words.CALLED.get(m, m), words.MEANS[m]) for m in (*found.measures, SIZES)]
    said += "".join(f"<p><b>{escape(name)}</b>: {escape(what)}.</p>" for name, what in meant)
    said += f"<p>{escape(words.CONTROL)}</p>"
    if len(found.sites) <= SIDE:
        said += figure(f"{key}-heat", heat_plot(found), HEAT)
        if any(True for _ in arranged(found)):
            said += figure(f"{key}-map", map_plot(found), MAP)
            said += figure(f"{key}-tree", tree_plot(found), TREE)
    if np.isfinite(found.terms).any():
        said += figure(f"{key}-columns", columns_plot(found), COLUMNS)
        said += more("Columns in figures", _table(*words.column_cells(found)))
    return said + more("Pairs of sites in figures", _table(*words.pair_cells(found)))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return page_tables.table(header, [[escape(cell) for cell in row] for row in rows], "figures")


def heat_plot(found: Similarity) -> plotly_data.Plot:
    """A heat-map for each measure, and for size."""
    n = len(found.sites)
    sizes = np.where(np.eye(n, dtype=bool), np.nan, np.broadcast_to(found.rows.astype(float), (n, n)))
    choices = [
        _heat(found, words.CALLED[name], matrix, found.chance.get(name), NEAR)
        for name, matrix in found.measures.items()
    ]
    choices.append(_heat(found, "size alone: rows of the other", sizes, None, colours.SCALE))
    return {"choices": choices, "height": min(760, 260 + 30 * n)}


def _heat(
    found: Similarity, name: str, matrix: np.ndarray, chance: np.ndarray | None, scale: Sequence[str]
) -> dict[str, Any]:
    names = plotly_data.ticks(found.sites)
    texts = [["" if not np.isfinite(v) else f"{v:.3g}" for v in row] for row in matrix]
    hover = [
        [
            text + (f" (by chance {chance[i, j]:.3g})" if chance is not None and text else "")
            for j, text in enumerate(row)
        ]
        for i, row in enumerate(texts)
    ]
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [plotly_data.tidy(row) for row in matrix],
        "colorscale": plotly_data.ramp(scale),
        "customdata": hover,
        "hovertemplate": "%{y} and %{x}: %{customdata}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 12, "outlinewidth": 0},
    }
    if len(names) <= SPELLED:
        heat |= {"text": texts, "texttemplate": "%{text}"}
    layout = {
        "xaxis": {"type": "category", "showgrid": False, "title": {"text": "the other"}},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "title": {"text": "site"}},
    }
    return {"name": name, "data": [heat], "layout": layout}


def arranged(found: Similarity) -> Iterator[tuple[str, np.ndarray, list[int]]]:
    """Measures by which sites can be laid out: distances between those that have all, and which these are.
    One site alone, as in its own part of a run, knows none between others.
    """
    for name, matrix in found.measures.items():
        distances, here = maps.symmetric(matrix)
        if len(here) > 1 and len(np.flatnonzero(np.isfinite(matrix).any(axis=1))) > 1:
            yield name, distances, here


def map_plot(found: Similarity) -> plotly_data.Plot:
    """Sites on a plane, for each measure."""
    choices = []
    for name, distances, here in arranged(found):
        plane = maps.scaled(distances)
        names = [plotly_data.plain(found.sites[i]) for i in here]
        dots = {
            "type": "scatter",
            "mode": "markers+text",
            "x": plotly_data.tidy(plane.places[:, 0]),
            "y": plotly_data.tidy(plane.places[:, 1]),
            "text": names,
            "textposition": "top center",
            "marker": {
                "size": [float(f"{s:.3g}") for s in dot_sizes(found.rows[here])],
                "color": colours.COLOURS[0],
                "opacity": 0.75,
            },
            "customdata": [int(found.rows[i]) for i in here],
            "hovertemplate": "%{text}: %{customdata} rows<extra></extra>",
            "cliponaxis": False,
        }
        layout = {
            "xaxis": {"title": {"text": f"keeps {100 * plane.kept:.0f} % of squared distances"}},
            "yaxis": {"scaleanchor": "x"},
            "showlegend": False,
        }
        choices.append({"name": words.CALLED[name], "data": [dots], "layout": layout})
    return {"choices": choices, "height": 460}


def dot_sizes(rows: np.ndarray) -> np.ndarray:
    """Areas by rows."""
    return np.asarray(9 + 21 * np.sqrt(rows / max(1, rows.max())))


def tree_plot(found: Similarity) -> plotly_data.Plot:
    """A dendrogram for each measure, leaves on the left."""
    choices = []
    for name, distances, here in arranged(found):
        made = maps.tree(distances)
        line = {"color": colours.COLOURS[0], "width": 1.6}
        data = [
            {
                "type": "scatter",
                "mode": "lines",
                "x": plotly_data.tidy(heights),
                "y": places,
                "line": line,
                "showlegend": False,
                "hovertemplate": "%{x:.3g}<extra></extra>",
            }
            for places, heights in made.lines
        ]
        leaves = [plotly_data.plain(found.sites[here[i]]) for i in made.order]
        layout = {
            "xaxis": {"title": {"text": words.CALLED[name]}, "rangemode": "tozero"},
            "yaxis": {
                "tickvals": [5 + 10 * k for k in range(len(leaves))],
                "ticktext": leaves,
                "range": [0, 10 * len(leaves)],
                "showgrid": False,
            },
        }
        choices.append({"name": words.CALLED[name], "data": data, "layout": layout})
    return {"choices": choices, "height": min(900, 200 + 24 * len(found.sites))}


def columns_plot(found: Similarity) -> plotly_data.Plot:
    """The columns that differ most: over all pairs, and for each site that asks."""
    asking, choices = found.asking(), []
    views_of = [("all pairs", asking)] if len(asking) > 1 else []
    if len(asking) <= SIDE:
        views_of += [(found.sites[i], [i]) for i in asking]
    for name, rows in views_of:
        mean, chance = mean_terms(found, rows)
        order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:BARS]
        texts = plotly_data.ticks([found.columns[c] for c in order], 24)
        bars: dict[str, Any] = {
            "type": "bar",
            "orientation": "h",
            "x": plotly_data.tidy(mean[order]),
            "y": texts,
        }
        bars |= {"marker": {"color": colours.SCALE[2]}, "name": "difference"}
        marks: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "x": plotly_data.tidy(chance[order]),
            "y": texts,
        }
        marks |= {
            "marker": {"color": colours.ALONE, "symbol": "line-ns-open", "size": 12},
            "name": "by chance",
        }
        layout = {
            "xaxis": {"title": {"text": "deviations"}, "rangemode": "tozero"},
            "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "automargin": True},
            "bargap": 0.3,
        }
        called = name if name == "all pairs" else f"{plotly_data.one_line(name)} and each other"
        choices.append({"name": called, "data": [bars, marks], "layout": layout})
    return {"choices": choices, "height": 180 + 22 * min(BARS, len(found.columns))}


def mean_terms(found: Similarity, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """[column] differences and what chance makes of them, the mean over the pairs of some sites; NaN without
    any.
    """
    off = ~np.eye(len(found.sites), dtype=bool)[rows]
    means = []
    for some in (found.terms[rows], found.expected[rows]):
        known = off & np.isfinite(some).all(axis=2)
        means.append(some[known].mean(axis=0) if known.any() else np.full(some.shape[2], np.nan))
    return means[0], means[1]
