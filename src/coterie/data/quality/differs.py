"""Sites whose quantiles differ from the others': "differs", not "wrong", as true populations differ too.

For a site and a column, z_p = (q_p - m_p) / σ_p at p = 5, 10, ..., 95 %, with m_p the median of the other
sites' quantiles and

    σ_p² = max(MAD, 0.2 s)² + e_p² (1/n + π / 2N)

MAD    1.4826 times the median distance of the others from m_p, averaged over p: how far sites usually differ.
       Of three or four sites it is fragile, so that 0.2 s, a fifth of the usual spread within a site, is the
       least
e_p    s √(p (1 - p)) / φ(Φ⁻¹(p)), the standard error of a quantile of one value; n are the site's, N all the
       others' values, and π / 2 is what a median costs

The level differs where the median of z_p over p is beyond 3.5 (Iglewicz and Hoaglin: How to detect and handle
outliers, 1993); the spread, where the logarithm of the site's is as far from the others'.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist

import numpy as np

from coterie.data.quality.check import Check, Finding, in_other_units, number, register
from coterie.data.quality.site_rows import AT, ColumnSketch, Sketch, by_column, spread_of
from coterie.show.words import Figure, said

BEYOND = 3.5
FLOOR = 0.2  # of the spread within a site
SPREAD_FLOOR = 0.15  # of the logarithm of a spread
TO_DEVIATION = 1.4826
NORMAL = NormalDist()
ERRORS = np.array([math.sqrt(p * (1 - p)) / NORMAL.pdf(NORMAL.inv_cdf(p)) for p in AT])
SPREAD_ERROR = 1.166  # of a logarithm of the distance between quartiles, times √n


def across(sketches: Sequence[Sketch], besides: Collection[tuple[str, str]] = ()) -> list[Finding]:
    """`besides` are sites and columns of which something plainer is said already, such as another unit: they
    are neither judged nor judged by.
    """
    found = list[Finding]()
    for name, sites in by_column(sketches).items():
        here = {site: c for site, c in sites.items() if (site, name) not in besides}
        for site, own in here.items():
            others = [c for s, c in here.items() if s != site]
            if len(others) < 2:
                continue
            unit, remedy = f" {own.unit}" if own.unit else "", said("check.differs.remedy")
            for what, z, (value, *theirs) in (
                ("level", level(own, others), [c.quantiles[9] for c in (own, *others)]),
                ("spread", spread(own, others), [spread_of(c.quantiles) for c in (own, *others)]),
            ):
                if abs(z) > BEYOND:
                    bound, word = float(np.median(theirs)), "median" if what == "level" else what
                    figures = {"value": float(value), "bound": bound, "z": Figure(f"{z:.1f}")}
                    says = said(f"check.differs.{what}", column=name, unit=unit, **figures)
                    words = f"{word} {number(value)}", number(bound), says, remedy
                    found.append(Finding(site, name, "differs", "look", None, None, *words))
    return found


def level(own: ColumnSketch, others: Sequence[ColumnSketch]) -> float:
    """The median over p of z_p; 0 where the others do not vary."""
    table = np.array([c.quantiles for c in others])
    centre, s = np.median(table, axis=0), float(np.median([spread_of(row) for row in table]))
    if not s:
        return 0.0
    mad = TO_DEVIATION * float(np.median(np.abs(table - centre), axis=0).mean())
    sampling = ERRORS**2 * s**2 * (1 / own.known + math.pi / 2 / sum(c.known for c in others))
    return float(np.median((np.array(own.quantiles) - centre) / np.sqrt(max(mad, FLOOR * s) ** 2 + sampling)))


def spread(own: ColumnSketch, others: Sequence[ColumnSketch]) -> float:
    """The same of log s; 0 where a site does not vary."""
    mine, theirs = spread_of(own.quantiles), np.array([spread_of(c.quantiles) for c in others])
    if not mine or not theirs.all():
        return 0.0
    logs = np.log(theirs)
    mad = TO_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))
    sampling = SPREAD_ERROR**2 * (1 / own.known + math.pi / 2 / sum(c.known for c in others))
    return float((math.log(mine) - np.median(logs)) / math.sqrt(max(mad, SPREAD_FLOOR) ** 2 + sampling))


register(
    Check(
        name="differs",
        place=70,
        across=lambda sketches, ranges, found: across(sketches, in_other_units(found)),
    )
)
