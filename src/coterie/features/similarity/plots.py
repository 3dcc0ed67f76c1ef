"""Figures of similarity: heat-maps, a map, a tree, and the columns that differ; on a page, and on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.features.similarity.record import Similarity
from coterie.show import figures, plotly
from coterie.show import inks as colours
from coterie.show.blocks import Plot
from coterie.show.words import Figure as Number
from coterie.show.words import said

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 60  # sites that are drawn one by one
SPELLED = 12  # and up to which figures are written into the drawing
BARS = 15  # columns that are drawn
NEAR = colours.SCALE[::-1]  # dark is near
Choices = list[dict[str, Any]]


def plots(found: Similarity, key: str) -> list[Plot]:
    """Those that there is something to draw in, each with a choice for each measure, or site."""
    sites, columns = len(found.sites), min(BARS, len(found.columns))
    drawn: tuple[tuple[str, Choices, int, Callable[..., Figure]], ...] = (
        ("heat", _heat_choices(found), min(760, 260 + 30 * sites), _heats),
        ("map", _map_choices(found), 460, _planes),
        ("tree", _tree_choices(found), min(900, 200 + 24 * sites), _trees),
        ("columns", _column_choices(found), 180 + 22 * columns, _columns),
    )
    return [
        Plot(
            f"{key}-{name}",
            {"choices": choices, "height": height},
            said(f"similar.plot.{name}"),
            paper=partial(paper, found),
        )
        for name, choices, height, paper in drawn
        if choices
    ]


def _called(measure: str) -> str:
    return said(f"similar.called.{measure}")


# distances, two by two


def _heat_choices(found: Similarity) -> Choices:
    """A heat-map for each measure, and for size."""
    n = len(found.sites)
    if n > SIDE:
        return []
    sizes = np.where(np.eye(n, dtype=bool), np.nan, np.broadcast_to(found.rows.astype(float), (n, n)))
    choices = [
        _heat(found, _called(name), matrix, found.chance.get(name), NEAR)
        for name, matrix in found.measures.items()
    ]
    return [*choices, _heat(found, said("similar.plot.size"), sizes, None, colours.SCALE)]


def _heat(
    found: Similarity, name: str, matrix: np.ndarray, chance: np.ndarray | None, scale: Sequence[str]
) -> dict[str, Any]:
    names = plotly.ticks(found.sites)
    texts = [["" if not np.isfinite(v) else Number(f"{v:.3g}") for v in row] for row in matrix]
    hover: list[list[str]] = [[*row] for row in texts]
    if chance is not None:
        for i, j in zip(*np.nonzero(np.isfinite(matrix)), strict=True):
            by_chance = Number(f"{chance[i, j]:.3g}")
            hover[i][j] = said("similar.plot.hover", value=texts[i][j], chance=by_chance)
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [plotly.tidy(row) for row in matrix],
        "colorscale": plotly.ramp(scale),
        "customdata": hover,
        "hovertemplate": said("similar.plot.hover_pair"),
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 12, "outlinewidth": 0},
    }
    if len(names) <= SPELLED:
        heat |= {"text": texts, "texttemplate": "%{text}"}
    across = {"type": "category", "showgrid": False, "title": {"text": said("similar.plot.the_other")}}
    down = {"type": "category", "showgrid": False, "title": {"text": said("similar.column.site")}}
    layout = {"xaxis": across, "yaxis": down | {"autorange": "reversed"}}
    return {"name": name, "data": [heat], "layout": layout}


def _heats(found: Similarity) -> Figure:
    figure, row = _row(len(found.measures), 3.6, 3.2)
    for axes, (name, matrix) in zip(row, found.measures.items(), strict=True):
        image = axes.imshow(matrix, cmap=figures.ramp(NEAR).with_extremes(bad="#ECEFF2"))
        figures.ticks(axes, found.sites, "x")
        figures.ticks(axes, found.sites, "y")
        axes.set_title(_called(name), fontsize=8, loc="left")
        figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


# a map and a tree


def _arranged(found: Similarity) -> Iterator[tuple[str, np.ndarray, list[int]]]:
    """Measures by which sites can be laid out: distances between those that have all, and which these are.
    One site alone, as in its own part of a run, knows none between others.
    """
    for name, matrix in found.measures.items() if len(found.sites) <= SIDE else ():
        distances, here = symmetric(matrix)
        if len(here) > 1 and len(np.flatnonzero(np.isfinite(matrix).any(axis=1))) > 1:
            yield name, distances, here


def _map_choices(found: Similarity) -> Choices:
    """Sites on a plane, for each measure."""
    choices: Choices = []
    for name, distances, here in _arranged(found):
        plane = scaled(distances)
        dots = {
            "type": "scatter",
            "mode": "markers+text",
            "x": plotly.tidy(plane.places[:, 0]),
            "y": plotly.tidy(plane.places[:, 1]),
            "text": [plotly.plain(found.sites[i]) for i in here],
            "textposition": "top center",
            "marker": {
                "size": [float(f"{s:.3g}") for s in _dot_sizes(found.rows[here])],
                "color": colours.COLOURS[0],
                "opacity": 0.75,
            },
            "customdata": [int(found.rows[i]) for i in here],
            "hovertemplate": said("similar.plot.hover_rows"),
            "cliponaxis": False,
        }
        kept = said("similar.plot.kept", share=f"{100 * plane.kept:.0f}")
        layout = {"xaxis": {"title": {"text": kept}}, "yaxis": {"scaleanchor": "x"}, "showlegend": False}
        choices.append({"name": _called(name), "data": [dots], "layout": layout})
    return choices


def _dot_sizes(rows: np.ndarray) -> np.ndarray:
    """Areas by rows."""
    return np.asarray(9 + 21 * np.sqrt(rows / max(1, rows.max())))


def _planes(found: Similarity) -> Figure:
    laid = list(_arranged(found))
    figure, row = _row(len(laid), 2.9, 2.8)
    for axes, (name, distances, here) in zip(row, laid, strict=True):
        places = scaled(distances).places
        axes.scatter(*places.T, s=4 * _dot_sizes(found.rows[here]), color=colours.COLOURS[0], alpha=0.75)
        for i, place in zip(here, places, strict=True):
            label, beside = figures.plain(found.sites[i]), {"textcoords": "offset points", "ha": "center"}
            axes.annotate(label, place, (0, 6), fontsize=7, **beside)
        axes.margins(0.25)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(_called(name), fontsize=8, loc="left")
    return figure


def _tree_choices(found: Similarity) -> Choices:
    """A dendrogram for each measure, leaves on the left."""
    choices: Choices = []
    for name, distances, here in _arranged(found):
        made = tree(distances)
        drawn: dict[str, Any] = {"type": "scatter", "mode": "lines"}
        drawn |= {"line": {"color": colours.COLOURS[0], "width": 1.6}}
        drawn |= {"showlegend": False, "hovertemplate": "%{x:.3g}<extra></extra>"}
        data = [{**drawn, "x": plotly.tidy(heights), "y": places} for places, heights in made.lines]
        leaves = [plotly.plain(found.sites[here[i]]) for i in made.order]
        down = {"tickvals": [5 + 10 * k for k in range(len(leaves))], "ticktext": leaves}
        down |= {"range": [0, 10 * len(leaves)], "showgrid": False}
        layout = {"xaxis": {"title": {"text": _called(name)}, "rangemode": "tozero"}, "yaxis": down}
        choices.append({"name": _called(name), "data": data, "layout": layout})
    return choices


def _trees(found: Similarity) -> Figure:
    laid = list(_arranged(found))
    figure, row = _row(len(laid), 2.9, min(8.0, 1.2 + 0.22 * len(found.sites)))
    for axes, (name, distances, here) in zip(row, laid, strict=True):
        made = tree(distances)
        for places, heights in made.lines:
            axes.plot(heights, places, color=colours.COLOURS[0], linewidth=1.2)
        leaves = [figures.plain(found.sites[here[i]]) for i in made.order]
        axes.set_yticks([5 + 10 * k for k in range(len(leaves))], leaves, fontsize=7)
        axes.set_xlim(left=0)
        axes.set_xlabel(_called(name))
    return figure


# columns


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


def _largest(mean: np.ndarray) -> np.ndarray:
    return np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")[:BARS]


def _column_choices(found: Similarity) -> Choices:
    """The columns that differ most: over all pairs, and for each site that asks."""
    if not np.isfinite(found.terms).any():
        return []
    asking, choices = found.asking(), list[dict[str, Any]]()
    of_sites = [(said("similar.plot.all_pairs"), asking)] if len(asking) > 1 else []
    for i in asking if len(asking) <= SIDE else ():
        of_sites.append((said("similar.plot.and_each", site=plotly.one_line(found.sites[i])), [i]))
    for name, rows in of_sites:
        mean, chance = mean_terms(found, rows)
        order = _largest(mean)
        texts = plotly.ticks([found.columns[c] for c in order], 24)
        bars: dict[str, Any] = {"type": "bar", "orientation": "h", "x": plotly.tidy(mean[order]), "y": texts}
        bars |= {"marker": {"color": colours.SCALE[2]}, "name": said("similar.plot.difference")}
        marks: dict[str, Any] = {"type": "scatter", "mode": "markers", "x": plotly.tidy(chance[order])}
        look = {"color": colours.ALONE, "symbol": "line-ns-open", "size": 12}
        marks |= {"y": texts, "marker": look, "name": said("similar.column.by_chance")}
        down = {"type": "category", "autorange": "reversed", "showgrid": False, "automargin": True}
        across = {"title": {"text": said("similar.plot.deviations")}, "rangemode": "tozero"}
        layout = {"xaxis": across, "yaxis": down, "bargap": 0.3}
        choices.append({"name": name, "data": [bars, marks], "layout": layout})
    return choices


def _columns(found: Similarity) -> Figure:
    mean, chance = mean_terms(found, found.asking())
    order = _largest(mean)
    figure, axes = figures.sheet(4.5, 0.8 + 0.22 * len(order))
    places = np.arange(len(order))
    axes.barh(places, mean[order], color=colours.SCALE[2], label="difference, mean over pairs")
    axes.plot(chance[order], places, "|", color=colours.ALONE, markersize=9, label="by chance")
    axes.invert_yaxis()
    axes.set_yticks(places, [figures.plain(found.columns[c]) for c in order], fontsize=7)
    axes.set_xlabel("deviations")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=7)
    return figure


def _row(many: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    """A figure of so many panels beside each other."""
    figure, _ = figures.sheet(width * many, height, axes=False)
    return figure, list(figure.subplots(1, many, squeeze=False)[0])


# sites on a plane and in a tree, from how far they are apart


def symmetric(matrix: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Distances between the sites that have all of them, and which sites these are. Of two directions it is
    the mean; a measure that may lie below 0, as a difference of losses, is moved up until none does.
    """
    both = np.where(np.isnan(matrix), matrix.T, matrix)
    both = (both + np.where(np.isnan(both.T), both, both.T)) / 2
    np.fill_diagonal(both, np.nan)
    here = [i for i in range(len(both)) if np.isfinite(both[i]).any()]
    while here:  # the one with the most gaps goes first
        gaps = [int(np.isnan(both[np.ix_([i], here)]).sum()) - 1 for i in here]
        if max(gaps) == 0:
            break
        here.pop(int(np.argmax(gaps)))
    found = both[np.ix_(here, here)]
    found = found - min(0.0, float(np.nanmin(found, initial=0.0)))
    np.fill_diagonal(found, 0.0)
    return found, here


class _Plane(NamedTuple):
    """[site, 2] places, and how much of the squared distances they keep, from 0 to 1."""

    places: np.ndarray
    kept: float


def scaled(distances: np.ndarray) -> _Plane:
    """Classical multidimensional scaling (Torgerson 1952): B = -½ J D² J, J = 1 - 11ᵀ/n; the two largest
    eigenvalues and their vectors are the places.
    """
    n = len(distances)
    centring = np.eye(n) - 1 / max(n, 1)
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    largest = values[::-1][:2].clip(min=0)
    places = np.zeros((n, 2))
    places[:, : len(largest)] = vectors[:, ::-1][:, :2] * np.sqrt(largest)
    for axis in range(2):  # a sign that does not depend on the machine
        if n and places[np.argmax(np.abs(places[:, axis]).round(9)), axis] < 0:
            places[:, axis] *= -1
    total = float(values.clip(min=0).sum())
    return _Plane(places, float(largest.sum()) / total if total > 0 else 1.0)


class _Tree(NamedTuple):
    """Lines of a dendrogram, each through four points (x, height); leaves stand at x = 5, 15, ..."""

    lines: list[tuple[list[float], list[float]]]
    order: list[int]


def tree(distances: np.ndarray) -> _Tree:
    """By average linkage (Sokal and Michener 1958): the two nearest join, at the mean distance of members."""
    from scipy.cluster.hierarchy import dendrogram, linkage  # only here: it takes a while to import
    from scipy.spatial.distance import squareform

    if len(distances) < 2:
        return _Tree([], list(range(len(distances))))
    drawn = dendrogram(linkage(squareform(distances, checks=False), "average"), no_plot=True)
    lines = list(zip(drawn["icoord"], drawn["dcoord"], strict=True))
    return _Tree([([float(v) for v in x], [float(v) for v in y]) for x, y in lines], list(drawn["leaves"]))
