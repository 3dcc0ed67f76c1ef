"""Rows that are there twice: exactly the same values in all columns, target and gaps included.

Tables of a few coarse columns have equal rows by chance. If columns were independent, two rows would agree
with probability Π_c Σ_v n_cv (n_cv - 1) / n (n - 1), with n_cv the rows that have value v in column c; as
columns are not, ten times as many pairs are allowed for. Rows are found where chance would hardly have given
so many (Poisson, below 1 %).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from coterie.data.quality.check import Check, Finding, Seen, Severity, register
from coterie.data.quality.site_rows import SiteRows
from coterie.show.words import Share, said

DEPENDENT = 10.0  # times as many pairs as independent columns would have
CHANCE = 0.01
COARSE = 0.001  # pairs expected, above which a table is so coarse that copies may be two patients


def check(rows: SiteRows) -> list[Finding]:
    groups = defaultdict[bytes, list[int]](list)
    for i, key in enumerate(_keys(rows)):
        groups[key].append(i)
    chance, pairs = expected(rows, rows), sum(math.comb(len(g), 2) for g in groups.values())
    if not pairs or not remarkable(pairs, chance):
        return []
    again = np.zeros(len(rows), dtype=bool)
    for _, *copies in groups.values():
        again[copies] = True
    many = int(again.sum())
    says = said("check.duplicates.within", many=many, rows=len(rows), share=Share(many / len(rows)))
    words = f"{many} copies", "each row once", says, said("check.duplicates.within_remedy")
    return [Finding.of_rows(rows, again, "", "duplicates", _severity(chance), words, len(rows))]


def across(sites: Sequence[SiteRows]) -> list[Finding]:
    """Between sites whose rows are all at hand; said of the later one."""
    found, known = list[Finding](), [(rows, _keys(rows)) for rows in sites]
    for i, (rows, mine) in enumerate(known):
        for other, theirs in known[:i]:
            there, chance = set(theirs), expected(rows, other)
            same = np.array([k in there for k in mine], dtype=bool)
            many, share = int(same.sum()), Share(same.mean())
            if many and remarkable(many, chance):
                says = said(
                    "check.duplicates.across", other=other.site, many=many, rows=len(rows), share=share
                )
                remedy = said("check.duplicates.across_remedy")
                words = f"{many} rows of both", "each row at one site", says, remedy
                severity = _severity(chance)
                found.append(Finding.of_rows(rows, same, "", "duplicates", severity, words, len(rows)))
    return found


def _severity(chance: float) -> Severity:
    return "likely" if chance < COARSE else "look"


def _keys(rows: SiteRows) -> list[bytes]:
    """Each row in one piece; all gaps are the same gap, and 0 is -0."""
    table = np.column_stack([rows.raw, np.asarray(rows.y, dtype=np.float64)]) + 0.0
    table = np.ascontiguousarray(np.where(np.isnan(table), np.nan, table))
    return [row.tobytes() for row in table]


def expected(mine: SiteRows, other: SiteRows) -> float:
    """Pairs of equal rows that independent columns would have."""
    within = mine is other
    pairs = len(mine) * (len(mine) - 1) / 2 if within else len(mine) * len(other)
    tables = [np.column_stack([rows.raw, np.asarray(rows.y, dtype=np.float64)]) for rows in (mine, other)]
    return pairs * math.prod(agreement(a, b, within) for a, b in zip(*(t.T for t in tables), strict=True))


def agreement(a: np.ndarray, b: np.ndarray, within: bool = False) -> float:
    """The chance that a value of one is a value of the other, or, within one, of another row; all gaps are
    alike.
    """
    mine, theirs = (Counter(None if v != v else v for v in values.tolist()) for values in (a, b))
    same = float(sum(n * theirs[value] for value, n in mine.items()))
    return (same - len(a)) / max(len(a) * (len(a) - 1), 1) if within else same / max(len(a) * len(b), 1)


def remarkable(pairs: int, chance: float) -> bool:
    """P(at least so many) under a Poisson law with the allowed mean."""
    mean = DEPENDENT * chance
    if not 0 < mean < 500:  # where the terms below underflow; far more than the mean is then remarkable
        return pairs > mean + 5 * math.sqrt(mean)
    below = sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(pairs))
    return 1 - below < CHANCE


register(
    Check(
        name="duplicates",
        place=40,
        at_home=lambda home: Seen(check(home.rows)),
        with_rows=lambda sites, seed: across(sites),
    )
)
