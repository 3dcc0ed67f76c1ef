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
    a share      two units whose values overlap, such as kilograms and pounds, look within one site like a
                 long tail. Other sites show what tail there should be. With F their distribution of log x
                 (of the medians of their quantiles, normal between and beyond them), a share π in another
                 unit makes it

                     F_π(x) = (1 - π) F(x) + π F(x - log f)

                 and the site's distance d_π is the mean over its 19 quantiles of their distance from those
                 of F_π, in spreads s, levels aside (less its median). Some rows are in another unit where
                 the best π takes 0.1 and more off d_0 and leaves less than 0.4 of it. Below 5 % of the rows
                 no quantile moves, so that nothing can be found. Which rows they are is not known here

Nothing is converted: a person decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from coterie.data.preparation import Column
from coterie.data.quality.check import (
    Check,
    Finding,
    Seen,
    in_other_units,
    number,
    percent,
    register,
)
from coterie.data.quality.ranges import Range, Ranges, inside
from coterie.data.quality.site_rows import AT, ColumnSketch, SiteRows, Sketch, by_column, spread_of
from coterie.data.tables.names import Conversion, Known, conversions_for, name_and_unit, unit_of
from coterie.data.tables.texts import loose
from coterie.show.words import Share, said

FAR, NEAR = 4.0, 3.0  # spreads from the centre
APART = 2.5  # spreads between a site and the others, from which units are thought of
TOO_NEAR = 3.5  # spreads between two units
SHALLOW = 0.6  # of the values at the other end, halfway to it
BETTER, CLOSE = 1 / 3, 1.2  # what a conversion must leave of that, and how many spreads at most
FEWEST_ROWS = 3  # a single odd value is the ranges' matter
ROUNDS = 10

GAIN, LEFT = 0.1, 0.4
FINE = (np.arange(400) + 0.5) / 400
SHARES = np.arange(3, 50) / 100
Z_AT, Z_FINE = (np.array([NormalDist().inv_cdf(p) for p in some]) for some in (AT, FINE))
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


class _Mixture(NamedTuple):
    """Which rows are in the other unit, and how well that fits."""

    which: np.ndarray
    by: Known
    spread: float


def check(rows: SiteRows, ranges: Ranges) -> list[Finding]:
    found = list[Finding]()
    for i, column in enumerate(rows.columns):
        tried = [mixture(rows.raw[:, i], k) for k in candidates(column, ranges)] if column.quantity else []
        if best := min((m for m in tried if m is not None), key=lambda m: m.spread, default=None):
            found.append(_mixed(rows, column, rows.raw[:, i], best))
    return found


def mixture(values: Values, known: Known) -> _Mixture | None:
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
        centre, spread = _robust(taken)
        now = np.abs(there - centre) < np.abs(here - centre)
        if now.mean() > 0.5 or (now == other).all():
            break
        other = now
    taken = np.where(other, there, here)
    centre, spread = _robust(taken)
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
    return _Mixture(which, known, spread / shift)


def valley(distances: Values, shift: float) -> bool:
    """Whether values are fewer halfway than at that distance from the centre, unlike in a tail."""
    halfway, there = (int((np.abs(distances - d) < 0.5).sum()) for d in (shift / 2, shift))
    return there >= FEWEST_ROWS and halfway <= SHALLOW * there


def _robust(values: Values) -> tuple[float, float]:
    """Median, and the deviation of a normal distribution with that distance between its quartiles."""
    low, centre, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(centre), float(high - low) / 1.349


def _mixed(rows: SiteRows, column: Column, values: Values, found: _Mixture) -> Finding:
    many, known = int(found.which.sum()), int((~np.isnan(values)).sum())
    odd, rest = np.median(values[found.which]), np.median(values[~found.which & ~np.isnan(values)])
    units = {"there": found.by.there, "here": found.by.here}
    counts = {"many": many, "known": known, "share": Share(many / known)}
    medians = {"odd": float(odd), "rest": float(rest)}
    says = said("check.units.some", column=column.name, **units, **counts, **medians)
    remedy = said("check.units.some_remedy", here=found.by.here)
    words = f"median {number(odd)}", f"median {number(rest)} of the others", says, remedy
    return Finding.of_rows(rows, found.which, column.name, "units", "likely", words, known)


# all rows of a site


def across(sketches: Sequence[Sketch], ranges: Ranges) -> list[Finding]:
    found = list[Finding]()
    for name, sites in by_column(sketches).items():
        odd = dict[str, tuple[_Fit, Known]]()
        for site, own in sites.items():
            others, unit = [c for s, c in sites.items() if s != site], told_unit(own)
            known = [k for k in candidates(own, ranges) if unit in ("", k.here)]
            if fits := [(f, k) for k in known if (f := _fit_of(own, others, k, ranges)) is not None]:
                odd[site] = min(fits, key=lambda pair: pair[0].after)
        if len(odd) == len(sites) == 2:
            odd = {s: pair for s, pair in odd.items() if pair[0].implausible} or odd
        unsure = len(odd) == len(sites) == 2
        found += [_whole(s, name, sites[s], *pair, len(sites) - 1, unsure) for s, pair in odd.items()]
    return found


class _Fit(NamedTuple):
    """Spreads between a site and what it is held against, as it is and converted; whether plausible bounds
    say too that it is the odd one.
    """

    before: float
    after: float
    centre: float
    implausible: bool


def _fit_of(own: ColumnSketch, others: Sequence[ColumnSketch], known: Known, ranges: Ranges) -> _Fit | None:
    """How a site lies to the others, or to plausible bounds; None unless it fits much better converted."""
    scale, quantiles = scale_of(known.by), np.array(own.quantiles)
    table = np.array([c.quantiles for c in others])
    if scale is LOG and ((quantiles <= 0).any() or (table <= 0).any()):
        return None
    converted = known.by.factor * quantiles + known.by.offset
    implausible = _implausible(own, known.here, ranges, quantiles, converted)
    if not others:  # and a unit that nobody told cannot be wrong
        return _Fit(1.0, 0.0, float("nan"), True) if implausible and told_unit(own) else None
    told = scale.of(table)
    centre, spread = np.median(told, axis=0), float(np.median([spread_of(row) for row in told]))
    if not spread:
        return None
    before, after = (float(np.abs(scale.of(q) - centre).mean()) / spread for q in (quantiles, converted))
    if before > APART and after < BETTER * before and after < CLOSE:
        return _Fit(before, after, float(np.median(table[:, 9])), implausible)
    return None


def _implausible(
    column: ColumnSketch, unit: str, ranges: Ranges, quantiles: Values, converted: Values
) -> bool:
    """Whether most values are implausible as they are, and nearly all plausible once converted; by bounds in
    this unit, if it is the column's own, or the bounds' where nobody told its own.
    """
    found = range_for(column, ranges)
    if found is None or unit != (told_unit(column) or found.unit) or unit not in found.units:
        return False
    bounds = found.within(found.units[unit]).plausible
    return inside(quantiles, bounds) < 0.5 and inside(converted, bounds) > 0.9


def _whole(
    site: str, name: str, own: ColumnSketch, best: _Fit, known: Known, others: int, unsure: bool
) -> Finding:
    middle, against = own.quantiles[9], said("check.units.plausible")
    if others:
        against = said(f"check.units.{'others' if others > 1 else 'other'}", centre=best.centre)
    medians = {"middle": float(middle), "after": float(known.by(middle)), "against": against}
    wonder = said("check.units.unsure") if unsure else ""
    units = {"there": known.there, "here": known.here}
    says = said("check.units.all", column=name, **units, **medians, unsure=wonder)
    words = f"median {number(middle)}", against, says, said("check.units.all_remedy", there=known.there)
    return Finding(site, name, "units", "likely", own.known, 1.0, *words)


# a share of them, by quantiles alone


class _ShareFit(NamedTuple):
    """The best π, and the distances without and with it."""

    share: float
    before: float
    after: float

    @property
    def plain(self) -> bool:
        return self.before - self.after > GAIN and self.after < LEFT * self.before


def shares_across(
    sketches: Sequence[Sketch], ranges: Ranges, besides: Collection[tuple[str, str]]
) -> list[Finding]:
    """`besides` are sites and columns of which another unit is said already."""
    found = list[Finding]()
    for name, sites in by_column(sketches).items():
        for site, own in sites.items():
            others = [c for s, c in sites.items() if s != site]
            if len(others) < 2 or (site, name) in besides:
                continue
            tried = ((_share_of(own, others, k), k) for k in candidates(own, ranges))
            if plain := [(s, k) for s, k in tried if s is not None and s.plain]:
                found.append(_share(site, own, *min(plain, key=lambda pair: pair[0].after)))
    return found


def _share_of(own: ColumnSketch, others: Sequence[ColumnSketch], known: Known) -> _ShareFit | None:
    """How large a share of a site's values is best taken for `known.there`; None where logarithms fail, or
    there is too little to explain.
    """
    mine, theirs = np.array(own.quantiles), np.array([c.quantiles for c in others])
    if scale_of(known.by) is not LOG or (mine <= 0).any() or (theirs <= 0).any():
        return None
    mine, theirs = np.log(mine), np.log(theirs)
    centre, spread = np.median(theirs, axis=0), float(np.median([spread_of(row) for row in theirs]))
    before = distance(mine, centre) / spread if spread else 0.0
    if before <= GAIN:
        return None
    values, shift = filled(centre), -float(np.log(known.by.factor))
    distances = [distance(mine, row) / spread for row in mixed(values, shift, SHARES.tolist())]
    best = int(np.argmin(distances))
    return _ShareFit(float(SHARES[best]), before, distances[best])


def filled(quantiles: np.ndarray) -> np.ndarray:
    """400 values with these quantiles: normal between them, and beyond as the outer fifths go."""
    made = np.interp(Z_FINE, Z_AT, quantiles)
    for side, (inner, outer) in ((Z_AT[0] > Z_FINE, (4, 0)), (Z_AT[-1] < Z_FINE, (-5, -1))):
        slope = (quantiles[inner] - quantiles[outer]) / (Z_AT[inner] - Z_AT[outer])
        made[side] = quantiles[outer] + slope * (Z_FINE[side] - Z_AT[outer])
    return np.asarray(made)


def mixed(values: np.ndarray, shift: float, shares: Sequence[float]) -> list[np.ndarray]:
    """Quantiles of values of which each of these shares is shifted."""
    both, moved = np.concatenate([values, values + shift]), np.repeat([False, True], len(values))
    order = np.argsort(both)
    made = []
    for share in shares:
        weights = np.where(moved[order], share, 1 - share) / len(values)
        made.append(np.interp(AT, np.cumsum(weights) - weights / 2, both[order]))
    return made


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Mean distance of quantiles, levels aside."""
    return float(np.abs(a - b - np.median(a - b)).mean())


def _share(site: str, own: ColumnSketch, found: _ShareFit, known: Known) -> Finding:
    rows, share = round(found.share * own.known), found.share
    units = {"there": known.there, "here": known.here}
    counts = {"many": rows, "known": own.known, "share": Share(share)}
    says = said("check.units.share", column=own.name, **units, **counts)
    words = f"95 % below {number(own.quantiles[-1])}", f"a share of {percent(share)} converted", says
    remedy = said("check.units.share_remedy", here=known.here)
    return Finding(site, own.name, "units", "likely", rows, share, *words, remedy)


def _across(sketches: Sequence[Sketch], ranges: Ranges, found: Sequence[Finding]) -> list[Finding]:
    whole = across(sketches, ranges)
    return whole + shares_across(sketches, ranges, in_other_units([*found, *whole]))


register(
    Check(name="units", place=20, at_home=lambda home: Seen(check(home.rows, home.ranges)), across=_across)
)
