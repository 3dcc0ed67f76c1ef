"""What is missing, by site and column: more than elsewhere, or with the label.

At home: gaps go with the label where their share differs between classes by a tenth and more, and by chance
at fewer than one of a thousand sites (chi-squared, all columns of a site taken together by Bonferroni).
Across sites: a column that a site lacks and others have; one that it misses far more often than they.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.data.quality.finding import Finding, percent
from coterie.data.quality.ranges import MOST_LINES
from coterie.data.quality.rows import SiteRows
from coterie.data.quality.sketch import Sketch

MUCH = 0.1  # by which shares must differ between classes
CHANCE = 0.001
MORE = 0.2  # by which a site must miss more than the most of others do
FEWEST = 5  # rows of a class, to speak of a share


def check(rows: SiteRows) -> list[Finding]:
    """Gaps that go with the label."""
    if rows.task != "classification":
        return []
    gaps = np.isnan(rows.raw)
    some = [i for i in range(len(rows.columns)) if 0 < gaps[:, i].sum() < len(rows)]
    found = list[Finding]()
    for i in some:
        shares = class_shares(gaps[:, i], rows.y)
        if len(shares) < 2 or max(shares.values()) - min(shares.values()) < MUCH:
            continue
        if independence(gaps[:, i], rows.y) * len(some) < CHANCE:
            found.append(_with_label(rows, i, gaps[:, i], shares))
    return found


def class_shares(gap: np.ndarray, y: np.ndarray) -> dict[float, float]:
    """{class: share of its rows with a gap}, of classes with enough rows."""
    return {float(c): float(gap[y == c].mean()) for c in np.unique(y) if (y == c).sum() >= FEWEST}


def independence(gap: np.ndarray, y: np.ndarray) -> float:
    """p of Pearson's chi-squared test on gaps by classes, with Yates' correction for two classes."""
    from scipy.stats import chi2_contingency

    table = np.array([[(gap[y == c]).sum(), (~gap[y == c]).sum()] for c in np.unique(y)])
    return float(chi2_contingency(table).pvalue)


def _with_label(rows: SiteRows, i: int, gap: np.ndarray, shares: dict[float, float]) -> Finding:
    name, many = rows.columns[i].name, int(gap.sum())
    (high, most), *_, (low, least) = sorted(shares.items(), key=lambda pair: -pair[1])
    says = (
        f"{name} is missing in {percent(most)} of {rows.label(high)} rows and in {percent(least)} of "
        f"{rows.label(low)} ones: a gap tells the label"
    )
    return Finding(
        rows.site,
        name,
        "missing",
        "look",
        many,
        many / len(rows),
        percent(most),
        percent(least),
        says,
        "why was it not measured? A model may learn who was measured: if that is the label, leave it out",
        rows.lines_of(gap)[:MOST_LINES],
    )


def across(sketches: Sequence[Sketch]) -> list[Finding]:
    found = list[Finding]()
    for name in dict.fromkeys(c.name for s in sketches for c in s.columns):
        here = {s.site: c for s in sketches if (c := s.column(name)) is not None and s.rows}
        shares = {site: c.missing / max(c.rows, 1) for site, c in here.items()}
        for site, share in shares.items():
            others = [s for other, s in shares.items() if other != site]
            if not others:
                continue
            usual, rows = float(np.median(others)), here[site].missing
            having = [other for other, s in shares.items() if other != site and s < 1]
            if share == 1 and having:
                says = f"{name} is not recorded here, and is at {', '.join(having)}"
                remedy = (
                    "say absent = true in the recipe, and see coterie check --worth for what it would bring"
                )
            elif share - max(others) > MORE:
                says = (
                    f"{name} is missing in {percent(share)} of rows, at the other sites in {percent(usual)}"
                )
                remedy = "is it read under the right name and with the right marks for missing values?"
            else:
                continue
            found.append(
                Finding(
                    site, name, "missing", "look", rows, share, percent(share), percent(usual), says, remedy
                )
            )
    return found
