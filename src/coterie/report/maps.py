"""Sites on a plane and in a tree, from how far they are apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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


class Plane(NamedTuple):
    """[site, 2] places, and how much of the squared distances they keep, from 0 to 1."""

    places: np.ndarray
    kept: float


def scaled(distances: np.ndarray) -> Plane:
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
    return Plane(places, float(largest.sum()) / total if total > 0 else 1.0)


class Tree(NamedTuple):
    """Lines of a dendrogram, each through four points (x, height); leaves stand at x = 5, 15, ..."""

    lines: list[tuple[list[float], list[float]]]
    order: list[int]


def tree(distances: np.ndarray) -> Tree:
    """By average linkage (Sokal and Michener 1958): the two nearest join, at the mean distance of members."""
    from scipy.cluster.hierarchy import dendrogram, linkage  # only here: it takes a while to import
    from scipy.spatial.distance import squareform

    if len(distances) < 2:
        return Tree([], list(range(len(distances))))
    drawn = dendrogram(linkage(squareform(distances, checks=False), "average"), no_plot=True)
    lines = list(zip(drawn["icoord"], drawn["dcoord"], strict=True))
    return Tree([([float(v) for v in x], [float(v) for v in y]) for x, y in lines], list(drawn["leaves"]))
