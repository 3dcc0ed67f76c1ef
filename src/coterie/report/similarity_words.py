"""How alike sites are, in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.runs.alike import MEASURES, Similarity

NAMED = 3  # columns that a sentence names
CLEAR = 3.0  # times what chance makes: two samples of the same rows reach it in fewer than 1 of 300 columns
SMALL, LARGE = 0.05, 1.0  # deviations: what is none, and what rows must not miss to call columns alike
CALLED = {
    "quantiles": "quantile distance",
    "transport": "transport distance",
    "ndoye": "transfer loss",
}
MEANS = {
    "quantiles": "how far values of the same column lie apart, in deviations, mean over columns: sees other "
    "patients, not other labels",
    "transport": "how far rows of the same class lie apart, in deviations of a column: sees other patients, "
    "and other labels for them",
    "ndoye": "how much more a model of the other loses here than at home: sees what a model makes of it, and "
    "costs training",
    "size": "the other's rows, the control: what foretells gains no better than this has seen no similarity",
}
CONTROL = (
    "Near is not the same as useful. Tried where gains are known, all three measures foretold most of them "
    "among digits; between four hospitals the two distances foretold nothing and the transfer loss little; "
    "on Titanic by age the partner's number of rows did better than all three (docs/results/similarity.md). "
    "Try a circle before you trust it."
)


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def of_pair(found: Similarity, i: int, j: int) -> str:
    """One sentence on two sites: what they measure alike, and in what they differ most."""
    one, other, terms = found.sites[i], found.sites[j], found.terms[i, j]
    if not terms.size or not np.isfinite(terms).any():
        return f"{one} and {other}: no quantiles to compare columns by."
    order = np.argsort(-terms, kind="stable")
    clear = CLEAR * found.expected[i, j]
    differ = [c for c in order if terms[c] > max(clear[c], SMALL)]
    rest = [c for c in order[::-1] if terms[c] <= max(clear[c], SMALL)]
    same = [c for c in rest if clear[c] <= LARGE]
    most = [f"{found.columns[c]} ({terms[c]:.2f} deviations)" for c in differ[:NAMED]]
    if not most:
        if len(same) < len(rest):
            rows = " and ".join(f"{found.rows[k]:.0f}" for k in (i, j))
            return (
                f"{one} and {other}: these rows ({rows}) cannot tell them apart, as chance alone may make "
                f"{clear[rest].max():.2f} deviations between columns."
            )
        return f"{one} and {other} measure every column as alike as two samples of the same rows."
    if not rest:
        return f"{one} and {other} differ in every column, most in {listed(most)}."
    if not same:
        return (
            f"{one} and {other} differ most in {listed(most)}; in other columns these rows cannot tell them "
            "apart."
        )
    least = [found.columns[c] for c in same[:NAMED]]
    return f"{one} and {other} measure {listed(least)} alike; they differ most in {listed(most)}."


def nearest(found: Similarity, i: int, measure: str) -> str:
    """Who is nearest to a site, and who is farthest."""
    row = found.measures[measure][i]
    if not np.isfinite(row).any():
        return f"{found.sites[i]} did not answer, or nobody else did."
    near, far = int(np.nanargmin(row)), int(np.nanargmax(row))
    said = f"Nearest to {found.sites[i]} is {found.sites[near]} ({row[near]:.2f}"
    chance = found.chance.get(measure)
    if chance is not None:
        said += f"; by chance {chance[i, near]:.2f}"
        said += ": no more than two samples of the same rows" * bool(row[near] <= chance[i, near])
    return said + (f"), farthest is {found.sites[far]} ({row[far]:.2f})." if near != far else ").")


def leading(found: Similarity) -> str:
    """The measure that sentences go by."""
    return next(name for name in MEASURES if name in found.measures)


def warnings(found: Similarity) -> list[str]:
    """What to know before trusting a distance."""
    said = []
    for measure, sites in found.drowned.items():
        if sites:
            fewest = int(min(found.rows[found.sites.index(s)] for s in sites))
            said.append(
                f"noise drowns the {CALLED[measure]} of {listed(sites)} ({fewest} rows at the least, "
                f"epsilon={found.epsilon:g}): noise alone makes half of it or more: raise epsilon, ask for "
                "one measure instead of two, or take it for unknown"
            )
    if found.epsilon and found.fitted:
        said.append(
            f"epsilon={found.epsilon:g} takes for given how rows become inputs: means, deviations and "
            "medians of the rows, by which columns are scaled and gaps filled, are outside of it: in a "
            'recipe of your own, scale = "constants" does without'
        )
    if found.own_scales:
        said.append(
            "each site scales its columns by its own mean and deviation, so that a site whose patients are "
            'older throughout looks alike: in a recipe of your own, scale = "shared" shows such shifts'
        )
    return said


def sentences(found: Similarity, most: int = 12) -> list[str]:
    """For each site that asks who is near and far; for the nearest pair, and the farthest, by what."""
    measure = leading(found)
    asking = found.asking()
    said = [nearest(found, i, measure) for i in asking[:most]]
    return said + [of_pair(found, i, j) for i, j in extremes(found, measure)]


def extremes(found: Similarity, measure: str) -> list[tuple[int, int]]:
    """The nearest and the farthest pair of those who ask; one where they are the same."""
    asking = found.asking()
    some = found.measures[measure][asking]
    if not found.terms.shape[2] or not np.isfinite(some).any():
        return []
    places = {int(np.nanargmin(some)), int(np.nanargmax(some))}
    width = some.shape[1]
    return [(asking[p // width], p % width) for p in sorted(places, key=lambda p: some.flat[p])]


def pair_cells(found: Similarity, most: int = 0) -> tuple[list[str], list[list[str]]]:
    """A line for each pair of sites, nearest first; for one requester, of its own pairs. `most` are shown of
    each site, 0 shows all.
    """
    header = ["site", "other"]
    for name in found.measures:
        header += [CALLED[name]] + ["by chance"] * (name in found.chance)
    header += ["rows of the other", "differ most in"][: 1 + bool(found.terms.shape[2])]
    rows = []
    for i, j in pairs_of(found, most):
        row = [found.sites[i], found.sites[j]]
        for name, matrix in found.measures.items():
            row.append(figure(matrix[i, j], name == "ndoye"))
            if name in found.chance:
                row.append(figure(found.chance[name][i, j]))
        row.append(str(int(found.rows[j])))
        if found.terms.shape[2]:
            row.append(most_different(found, i, j))
        rows.append(row)
    return header, rows


def pairs_of(found: Similarity, most: int = 0) -> list[tuple[int, int]]:
    """Of those who ask, nearest first: each pair in both directions, as the transfer loss has two."""
    far, pairs = np.nan_to_num(found.measures[leading(found)], nan=np.inf), []
    for i in found.asking():
        others = [int(j) for j in np.argsort(far[i], kind="stable") if j != i]
        pairs += [(i, j) for j in others[: most or None]]
    return pairs


def most_different(found: Similarity, i: int, j: int, many: int = 2) -> str:
    terms = found.terms[i, j]
    if not np.isfinite(terms).any():
        return "did not answer"
    return ", ".join(f"{found.columns[c]} {terms[c]:.2f}" for c in np.argsort(-terms, kind="stable")[:many])


def figure(value: float, signed: bool = False) -> str:
    return "—" if not np.isfinite(value) else f"{value:+.3f}" if signed else f"{value:.3f}"


def column_cells(found: Similarity) -> tuple[list[str], list[list[str]]]:
    """Columns by how much they differ over all pairs of who asks: mean, chance, and the farthest pair."""
    header = ["column", "mean difference", "by chance", "largest", "between"]
    rows = []
    for c in column_order(found):
        terms = found.terms[found.asking(), :, c].copy()
        chance = found.expected[found.asking(), :, c].copy()
        for k, i in enumerate(found.asking()):
            terms[k, i] = chance[k, i] = np.nan
        if not np.isfinite(terms).any():
            continue
        first, second = np.unravel_index(np.nanargmax(terms), terms.shape)
        pair = f"{found.sites[found.asking()[int(first)]]} and {found.sites[int(second)]}"
        rows.append(
            [
                found.columns[c],
                figure(np.nanmean(terms)),
                figure(np.nanmean(chance)),
                figure(np.nanmax(terms)),
                pair,
            ]
        )
    return header, rows


def column_order(found: Similarity) -> list[int]:
    """Columns by their mean difference, the largest first."""
    if not found.terms.shape[2]:
        return []
    off = ~np.eye(len(found.sites), dtype=bool)[found.asking()]
    terms = found.terms[found.asking()]
    known = np.where(off[..., None] & np.isfinite(terms), terms, np.nan)
    if not np.isfinite(known).any():
        return []
    return [int(c) for c in np.argsort(-np.nanmean(known, axis=(0, 1)), kind="stable")]
