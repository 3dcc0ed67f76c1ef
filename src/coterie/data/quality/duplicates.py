"""Rows that are there twice: exactly the same values in all columns, target and gaps included.

Tables of a few coarse columns have equal rows by chance. If columns were independent, two rows would agree
with probability Π_c Σ_v n_cv (n_cv - 1) / n (n - 1), with n_cv the rows that have value v in column c; as
columns are not, ten times as many pairs are allowed for. Rows are found where chance would hardly have given
so many (Poisson, below 1 %).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from coterie.data.quality.finding import Finding, percent
from coterie.data.quality.ranges import MOST_LINES
from coterie.data.quality.rows import SiteRows

DEPENDENT = 10.0  # times as many pairs as independent columns would have
CHANCE = 0.01
COARSE = 0.001  # pairs expected, above which a table is so coarse that copies may be two patients


def check(rows: SiteRows) -> list[Finding]:
    """Within one site."""
    groups = [g for g in groups_of(keys(rows)) if len(g) > 1]
    pairs = sum(len(g) * (len(g) - 1) // 2 for g in groups)
    if not pairs or not remarkable(pairs, expected(rows, rows)):
        return []
    sure = expected(rows, rows) < COARSE
    again = np.zeros(len(rows), dtype=bool)
    for group in groups:
        again[group[1:]] = True
    many = int(again.sum())
    return [
        Finding(
            rows.site,
            "",
            "duplicates",
            "likely" if sure else "look",
            many,
            many / len(rows),
            f"{many} copies",
            "each row once",
            f"rows that copy an earlier one in every column and the target: {many} of {len(rows)} "
            f"({percent(many / len(rows))})",
            "remove them, or name the patient column in the recipe: a copy may be trained and tested on",
            rows.lines_of(again)[:MOST_LINES],
        )
    ]


def across(sites: Sequence[SiteRows]) -> list[Finding]:
    """Between sites whose rows are all at hand; said of the later one."""
    found, known = list[Finding](), [(rows, set(keys(rows))) for rows in sites]
    for i, (rows, _) in enumerate(known):
        mine = keys(rows)
        for other, theirs in known[:i]:
            same = np.array([k in theirs for k in mine], dtype=bool)
            many = int(same.sum())
            if not many or not remarkable(many, expected(rows, other)):
                continue
            found.append(
                Finding(
                    rows.site,
                    "",
                    "duplicates",
                    "likely" if expected(rows, other) < COARSE else "look",
                    many,
                    many / len(rows),
                    f"{many} rows of both",
                    "each row at one site",
                    f"rows that are also at {other.site}, in every column and the target: {many} of "
                    f"{len(rows)} ({percent(many / len(rows))})",
                    "the same patients at both? Then one site tests on what the other trains on",
                    rows.lines_of(same)[:MOST_LINES],
                )
            )
    return found


def keys(rows: SiteRows) -> list[bytes]:
    """Each row in one piece; all gaps are the same gap, and 0 is -0."""
    table = np.column_stack([rows.raw, np.asarray(rows.y, dtype=np.float64)]) + 0.0
    table = np.ascontiguousarray(np.where(np.isnan(table), np.nan, table))
    return [row.tobytes() for row in table]


def groups_of(marks: Sequence[bytes]) -> list[list[int]]:
    groups = defaultdict(list)
    for i, mark in enumerate(marks):
        groups[mark].append(i)
    return list(groups.values())


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
    counts = []
    for values in (a, b):
        kinds, many = np.unique(values[~np.isnan(values)], return_counts=True)
        counts.append(
            dict(zip([*kinds.tolist(), None], [*many.tolist(), int(np.isnan(values).sum())], strict=True))
        )
    same = float(sum(n * counts[1].get(value, 0) for value, n in counts[0].items()))
    return (same - len(a)) / max(len(a) * (len(a) - 1), 1) if within else same / max(len(a) * len(b), 1)


def remarkable(pairs: int, chance: float) -> bool:
    """P(at least so many) under a Poisson law with the allowed mean."""
    mean = DEPENDENT * chance
    if not 0 < mean < 500:  # where the terms below underflow; far more than the mean is then remarkable
        return pairs > mean + 5 * math.sqrt(mean)
    below = sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(pairs))
    return 1 - below < CHANCE
