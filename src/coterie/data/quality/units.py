"""Values that are in another unit than the rest: some rows of a site, or all of them.

A conversion x -> f · x is a shift by log f of log x, whatever the level; °C to °F is tested as it is.
Distances are in spreads s: 1.35 s lie between the quartiles.

    some rows    three rows and more lie far from the site's centre (|z| > 4) and, converted, near it
                 (|z'| < 3). With π their share, the rows that are listed are those more likely converted than
                 not: log π / (1 - π) + (z² - z'²) / 2 > 0. Converted they must lie about the centre as the
                 others do, their median within 1.2 s of it. Where |log f| < 8 s a long tail could reach that
                 far: there must be a valley between the two, with at most 0.6 times as many values halfway
                 as at the other end, within half an s. Below 3.5 s nothing is said
    all rows     the distance between a site's 19 quantiles and the median of the other sites', d, is large
                 (d > 2.5 s), and small after a conversion (below d / 3 and below 1.2 s). Without other sites
                 plausible bounds take their place. Of two sites whose unit nobody told, these bounds decide
                 which is the odd one, or it is said that they do not

Nothing is converted: a person decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from coterie.data.preparation import Column
from coterie.data.quality.finding import Finding, number, percent
from coterie.data.quality.ranges import MOST_LINES, Range, Ranges, units_for
from coterie.data.quality.rows import SiteRows
from coterie.data.quality.sketch import ColumnSketch, Sketch, by_column, spread_of
from coterie.data.tables.texts import loose
from coterie.data.tables.units import Conversion, Known, conversions_for, name_and_unit, unit_of

FAR, NEAR = 4.0, 3.0  # spreads from the centre
APART = 2.5  # spreads between a site and the others, from which units are thought of
TOO_NEAR = 3.5  # spreads between two units
SHALLOW = 0.6  # of the values at the other end, halfway to it
BETTER, CLOSE = 1 / 3, 1.2  # what a conversion must leave of that, and how many spreads at most
FEWEST_ROWS = 3  # a single odd value is the ranges' matter
ROUNDS = 10

Values = np.ndarray


class Scale(NamedTuple):
    """What values are compared on: their logarithm, or as they are where a conversion has an offset."""

    of: Callable[[Values], Values]


LOG, PLAIN = Scale(np.log), Scale(lambda x: x)


def scale_of(by: Conversion) -> Scale:
    return PLAIN if by.offset else LOG


def candidates(column: Column | ColumnSketch, ranges: Ranges) -> list[Known]:
    """Conversions that may be meant for a column, each way round."""
    found = range_for(column, ranges)
    return conversions_for(column.name if found is None else found.name)


def range_for(column: Column | ColumnSketch, ranges: Ranges) -> Range | None:
    return ranges.get(loose(column.name)) or ranges.get(loose(name_and_unit(column.name)[0]))


def told_unit(column: Column | ColumnSketch) -> str:
    return unit_of(column.unit or name_and_unit(column.name)[1])


# some rows of a site


class Mixture(NamedTuple):
    """Which rows are in the other unit, and how well that fits."""

    which: np.ndarray
    by: Known
    spread: float


def check(rows: SiteRows, ranges: Ranges) -> list[Finding]:
    found = list[Finding]()
    for i, column in enumerate(rows.columns):
        if column.kind != "number" or column.values:
            continue
        tried = (mixture(rows.raw[:, i], k) for k in candidates(column, ranges))
        best = max((m for m in tried if m is not None), key=lambda m: -m.spread, default=None)
        if best is not None:
            found.append(_mixed(rows, column, rows.raw[:, i], best))
    return found


def mixture(values: Values, known: Known) -> Mixture | None:
    """The rows that are in `known.there` among rows in `known.here`, if that is what the values look like.

    Centre and spread are robust and those of the rows as they are taken at present; whoever is nearer to the
    centre once converted is taken converted, until nobody changes.
    """
    scale, by = scale_of(known.by), known.by
    usable = ~np.isnan(values) & ((values > 0) | (scale is PLAIN))
    if usable.sum() < 4 * FEWEST_ROWS:
        return None
    here, there = scale.of(values[usable]), scale.of(by.factor * values[usable] + by.offset)
    other = np.zeros(len(here), dtype=bool)
    for _ in range(ROUNDS):
        taken = np.where(other, there, here)
        centre, spread = robust(taken)
        now = np.abs(there - centre) < np.abs(here - centre)
        if now.mean() > 0.5 or (now == other).all():
            break
        other = now
    taken = np.where(other, there, here)
    centre, spread = robust(taken)
    if not spread or other.mean() > 0.5:
        return None
    z_here, z_there = np.abs(here - centre) / spread, np.abs(there - centre) / spread
    sure = other & (z_here > FAR) & (z_there < NEAR)
    shift, share = abs(float(np.median(there - here))), float(sure.mean())
    if sure.sum() < FEWEST_ROWS or shift < TOO_NEAR * spread:
        return None
    odds = math.log(share / (1 - share)) + (z_here**2 - z_there**2) / 2
    listed = (odds > 0) & (z_there < FAR + 1)
    if abs(np.median(there[listed]) - np.median(here[~listed])) > CLOSE * spread:
        return None
    way = np.sign(np.median(here - there))
    if shift < 2 * FAR * spread and not valley(way * (here - centre) / spread, shift / spread):
        return None
    which = np.zeros(len(values), dtype=bool)
    which[np.flatnonzero(usable)[listed]] = True
    return Mixture(which, known, spread / shift)


def valley(distances: Values, shift: float) -> bool:
    """Whether values are fewer halfway than at that distance from the centre, unlike in a tail."""
    halfway, there = (int((np.abs(distances - d) < 0.5).sum()) for d in (shift / 2, shift))
    return there >= FEWEST_ROWS and halfway <= SHALLOW * there


def robust(values: Values) -> tuple[float, float]:
    """Median, and the deviation of a normal distribution with that distance between its quartiles."""
    low, centre, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(centre), float(high - low) / 1.349


def _mixed(rows: SiteRows, column: Column, values: Values, found: Mixture) -> Finding:
    many, known = int(found.which.sum()), int((~np.isnan(values)).sum())
    odd, rest = values[found.which], values[~found.which & ~np.isnan(values)]
    there, here, share = found.by.there, found.by.here, many / known
    says = (
        f"values of {column.name} that look like {there} among {here}: {many} of {known} ({percent(share)}), "
        f"with a median of {number(np.median(odd))} against {number(np.median(rest))}"
    )
    return Finding(
        rows.site,
        column.name,
        "units",
        "likely",
        many,
        share,
        f"median {number(np.median(odd))}",
        f"median {number(np.median(rest))} of the others",
        says,
        f"if so, convert these rows to {here} in the file; a recipe converts a whole site alone",
        rows.lines_of(found.which)[:MOST_LINES],
    )


# all rows of a site


def across(sketches: Sequence[Sketch], ranges: Ranges) -> list[Finding]:
    found = list[Finding]()
    for name, sites in by_column(sketches).items():
        odd = dict[str, tuple[Fit, Known]]()
        for site, own in sites.items():
            others, unit = [c for s, c in sites.items() if s != site], told_unit(own)
            tried = [
                (fit(own, others, k, ranges), k) for k in candidates(own, ranges) if unit in ("", k.here)
            ]
            fits = [(f, k) for f, k in tried if f is not None]
            if fits:
                odd[site] = min(fits, key=lambda pair: pair[0].after)
        if len(odd) == len(sites) == 2:
            odd = {s: pair for s, pair in odd.items() if pair[0].implausible} or odd
        unsure = len(odd) == len(sites) == 2
        found += [_whole(s, name, sites[s], *pair, len(sites) - 1, unsure) for s, pair in odd.items()]
    return found


class Fit(NamedTuple):
    """Spreads between a site and what it is held against, as it is and converted; whether plausible bounds
    say too that it is the odd one.
    """

    before: float
    after: float
    centre: float
    implausible: bool


def fit(own: ColumnSketch, others: Sequence[ColumnSketch], known: Known, ranges: Ranges) -> Fit | None:
    """How a site lies to the others, or to plausible bounds; None unless it fits much better converted."""
    scale, quantiles, table = (
        scale_of(known.by),
        np.array(own.quantiles),
        np.array([c.quantiles for c in others]),
    )
    if scale is LOG and ((quantiles <= 0).any() or (table <= 0).any()):
        return None
    converted = known.by.factor * quantiles + known.by.offset
    bounds = bounds_of(own, known.here, ranges)
    implausible = bounds is not None and odd_one(quantiles, converted, bounds)
    if not others:  # and a unit that nobody told cannot be wrong
        return Fit(1.0, 0.0, float("nan"), True) if implausible and told_unit(own) else None
    told = scale.of(table)
    centre, spread = np.median(told, axis=0), float(np.median([spread_of(row) for row in told]))
    if not spread:
        return None
    before, after = (float(np.abs(scale.of(q) - centre).mean()) / spread for q in (quantiles, converted))
    if before > APART and after < BETTER * before and after < CLOSE:
        return Fit(before, after, float(np.median(table[:, 9])), implausible)
    return None


def bounds_of(column: ColumnSketch, unit: str, ranges: Ranges) -> Range | None:
    """Plausible bounds of a column, if that unit is its own, or the bounds' where nobody told its own."""
    found = range_for(column, ranges)
    if found is None or unit != (told_unit(column) or found.unit) or unit not in units_for(found):
        return None
    return found.within(units_for(found)[unit])


def odd_one(quantiles: Values, converted: Values, bounds: Range) -> bool:
    """Whether most values are implausible as they are, and nearly all plausible once converted."""
    low, high = bounds.plausible
    as_is, then = (((q >= low) & (q <= high)).mean() for q in (quantiles, converted))
    return bool(as_is < 0.5 and then > 0.9)


def _whole(
    site: str, name: str, own: ColumnSketch, best: Fit, known: Known, others: int, unsure: bool
) -> Finding:
    middle, after = own.quantiles[9], known.by(own.quantiles[9])
    where = "the other sites" if others > 1 else "the other site"
    against = f"{number(best.centre)} at {where}" if others else "what is plausible"
    says = (
        f"all values of {name} look like {known.there}, not {known.here}: their median is {number(middle)}, "
        f"which would be {number(after)} {known.here}, against {against}"
    )
    if unsure:
        says += "; with two sites it may be the other that is odd"
    remedy = f"if so, write unit = {known.there!r} for this site into the recipe, which then converts it"
    value = f"median {number(middle)}"
    return Finding(site, name, "units", "likely", own.known, 1.0, value, against, says, remedy)
