"""What is missing, by site and column: more than elsewhere, or with the label.

At home: gaps go with the label where their share differs between classes by a tenth and more, and by chance
at fewer than one of a thousand sites (chi-squared, all columns of a site taken together by Bonferroni).
Across sites: a column that a site lacks and others have; one that it misses far more often than they.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.data.quality.check import Check, Finding, Seen, percent, register
from coterie.data.quality.site_rows import SiteRows, Sketch
from coterie.show.words import Share, said

MUCH = 0.1  # by which shares must differ between classes
CHANCE = 0.001
MORE = 0.2  # by which a site must miss more than the most of others do
FEWEST = 5  # rows of a class, to speak of a share


def check(rows: SiteRows) -> list[Finding]:
    """Gaps that go with the label."""
    if rows.task != "classification":
        return []
    gaps, found = np.isnan(rows.raw), list[Finding]()
    some = [i for i in range(len(rows.columns)) if 0 < gaps[:, i].sum() < len(rows)]
    classes = [c for c in np.unique(rows.y) if (rows.y == c).sum() >= FEWEST]  # enough rows for a share
    for i in some if len(classes) > 1 else ():
        gap = gaps[:, i]
        shares = sorted(((float(gap[rows.y == c].mean()), c) for c in classes), key=lambda pair: -pair[0])
        (most, high), *_, (least, low) = shares
        if most - least < MUCH or independence(gap, rows.y) * len(some) >= CHANCE:
            continue
        name, high, low = rows.columns[i].name, rows.label(high), rows.label(low)
        between = {"most": Share(most), "high": high, "least": Share(least), "low": low}
        says, remedy = said("check.missing.label", column=name, **between), said("check.missing.label_remedy")
        words = percent(most), percent(least), says, remedy
        found.append(Finding.of_rows(rows, gap, name, "missing", "look", words, len(rows)))
    return found


def independence(gap: np.ndarray, y: np.ndarray) -> float:
    """p of Pearson's chi-squared test on gaps by classes, with Yates' correction for two classes."""
    from scipy.stats import chi2_contingency

    table = np.array([[(gap[y == c]).sum(), (~gap[y == c]).sum()] for c in np.unique(y)])
    return float(chi2_contingency(table).pvalue)


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
            if share == 1 and (having := [s for s in shares if s != site and shares[s] < 1]):
                says = said("check.missing.absent", column=name, others=having)
                remedy = said("check.missing.absent_remedy")
            elif share - max(others) > MORE:
                says = said("check.missing.more", column=name, share=Share(share), usual=Share(usual))
                remedy = said("check.missing.more_remedy")
            else:
                continue
            words = percent(share), percent(usual), says, remedy
            found.append(Finding(site, name, "missing", "look", rows, share, *words))
    return found


register(
    Check(
        name="missing",
        place=50,
        at_home=lambda home: Seen(check(home.rows)),
        across=lambda sketches, ranges, found: across(sketches),
    )
)
