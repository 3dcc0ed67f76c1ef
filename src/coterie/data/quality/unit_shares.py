"""Some rows of a site in another unit, by its quantiles and the other sites' alone.

Two units whose values overlap, such as kilograms and pounds, look within one site like a long tail. Other
sites show what tail there should be. With F their distribution of log x (of the medians of their quantiles,
normal between and beyond them), a share π in another unit makes it

    F_π(x) = (1 - π) F(x) + π F(x - log f)

and the site's distance d_π is the mean over its 19 quantiles of their distance from those of F_π, in spreads
s, levels aside (less its median). Some rows are in another unit where the best π takes 0.1 and more off d_0
and leaves less than 0.4 of it. Below 5 % of the rows no quantile moves, so that nothing can be found. Which
rows they are is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from coterie.data.quality.finding import Finding, number, percent
from coterie.data.quality.ranges import Ranges
from coterie.data.quality.sketch import AT, ColumnSketch, Sketch, by_column, spread_of
from coterie.data.quality.units import LOG, candidates, scale_of
from coterie.data.tables.units import Known

GAIN, LEFT = 0.1, 0.4
FINE = (np.arange(400) + 0.5) / 400
SHARES = np.arange(3, 50) / 100
Z_AT, Z_FINE = (np.array([NormalDist().inv_cdf(p) for p in some]) for some in (AT, FINE))


class Share(NamedTuple):
    """The best π, and the distances without and with it."""

    share: float
    before: float
    after: float

    @property
    def plain(self) -> bool:
        return self.before - self.after > GAIN and self.after < LEFT * self.before


def across(sketches: Sequence[Sketch], ranges: Ranges, besides: Collection[tuple[str, str]]) -> list[Finding]:
    """`besides` are sites and columns of which another unit is said already."""
    found = list[Finding]()
    for name, sites in by_column(sketches).items():
        for site, own in sites.items():
            others = [c for s, c in sites.items() if s != site]
            if len(others) < 2 or (site, name) in besides:
                continue
            tried = [(s, k) for k in candidates(own, ranges) if (s := share_of(own, others, k)) is not None]
            plain = [(s, k) for s, k in tried if s.plain]
            if plain:
                found.append(_finding(site, own, *min(plain, key=lambda pair: pair[0].after)))
    return found


def share_of(own: ColumnSketch, others: Sequence[ColumnSketch], known: Known) -> Share | None:
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
    return Share(float(SHARES[best]), before, distances[best])


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


def _finding(site: str, own: ColumnSketch, found: Share, known: Known) -> Finding:
    rows, there, here = round(found.share * own.known), known.there, known.here
    says = (
        f"values of {own.name} that look like {there} among {here}: about {rows} of {own.known} "
        f"({percent(found.share)}), by quantiles that the other sites' do not have"
    )
    remedy = f"look at the values furthest from the median: if so, convert these rows to {here} in the file"
    held = f"95 % below {number(own.quantiles[-1])}", f"a share of {percent(found.share)} converted"
    return Finding(site, own.name, "units", "likely", rows, found.share, *held, says, remedy)
