"""Rows of totals or means below a table: a target of classes that is something else in one row of a file.

A mean of 0 and 1 is a fraction, and one fraction makes numbers to predict of classes; a sum is one class
more. Neither is done without a word: such rows count as without a target, and are a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from coterie.data.tables.kinds import Found
from coterie.data.tables.match import Group
from coterie.data.tables.read import Table
from coterie.data.tables.texts import same, some
from coterie.data.targets import FEW

EACH = 2  # odd rows of a site: a total and a mean
EVEN_FEWER = 0.02  # ... or this share of all rows
ENOUGH = 10  # rows of each value on average, or numbers are no classes
BEYOND = 10.0  # times the greatest value: a sum


def odd_goals(looks: Mapping[str, Found]) -> set[float]:
    """Numbers of few rows that cannot be classes as all others are; empty where numbers are to predict."""
    counts = Counter[float]()
    for found in looks.values():
        read = found.read()
        if np.isnan(read).any():
            return set()
        for value, n in zip(read.tolist(), found.values.counts.tolist(), strict=True):
            counts[value] += n
    usual = {v: n for v, n in counts.items() if v % 1 == 0 and n > EACH}
    if not 2 <= len(usual) <= FEW or sum(usual.values()) < ENOUGH * len(usual):
        return set()
    top = max(map(abs, usual))
    odd = {v for v in counts if v % 1 or (v not in usual and abs(v) >= BEYOND * max(top, 1.0))}
    rows = sum(counts[v] for v in odd)
    return odd if rows <= max(EACH * len(looks), EVEN_FEWER * counts.total()) else set()


def without_totals(
    goal: Group, looks: Mapping[str, dict[str, Found]], tables: Mapping[str, Table]
) -> tuple[dict[str, dict[str, Found]], str]:
    """The same looks, with rows of totals without a target; and what is asked about them."""
    made, cells_of, where = dict(looks), dict[str, list[str]](), list[str]()
    odd = odd_goals({s: looks[s][h] for s, h in goal.headers.items()})
    for site, header in goal.headers.items() if odd else ():
        found = looks[site][header]
        out = np.isin(found.read(), list(odd))
        gone, left = set(found.values.kept(out)), found.values.kept(~out)
        cells_of[site] = sorted(map(same, gone))
        changed = replace(found, values=left, marks=(*found.marks, *cells_of[site]))
        made[site] = {**looks[site], header: changed}
        here = tables[site].columns[header].each(gone.__contains__)
        where += [tables[site].where(i) for i in np.flatnonzero(here).tolist()]
    if not where:
        return dict(looks), ""
    values = some(sorted({c for cells in cells_of.values() for c in cells}))
    return made, (
        f"{values} in {len(where)} row(s) ({some(where)}), where all others are few whole numbers: totals or "
        "means? They count as without a target. If so, take these rows out of the file and inspect again; if "
        'it is a number to predict, take them out of missing and write use = "number"'
    )
