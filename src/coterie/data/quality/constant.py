"""Columns that say nothing at a site, as all rows have one value."""

from __future__ import annotations

import numpy as np

from coterie.data.quality.finding import Finding
from coterie.data.quality.ranges import known_of
from coterie.data.quality.rows import SiteRows

FEWEST = 10  # values, before one and the same is remarkable


def check(rows: SiteRows) -> list[Finding]:
    found = list[Finding]()
    for i, column in enumerate(rows.columns):
        known = known_of(rows, i)
        if len(known) < FEWEST or not (known == known[0]).all():
            continue
        value = column.text(float(known[0]))
        found.append(
            Finding(
                rows.site,
                column.name,
                "constant",
                "look",
                len(known),
                1.0,
                value,
                "more than one value",
                f"all {len(known)} known values of {column.name} are {value}: it tells no row from another",
                "was it really measured, or filled in? If filled in, blank it, so that it counts as missing",
            )
        )
    return found + _target(rows)


def _target(rows: SiteRows) -> list[Finding]:
    values = np.unique(rows.y)
    if len(values) != 1 or len(rows) < FEWEST:
        return []
    label = rows.label(float(values[0]))
    return [
        Finding(
            rows.site,
            "",
            "constant",
            "look",
            len(rows),
            1.0,
            label,
            "more than one value",
            f"all {len(rows)} rows have the target {label}: nothing can be learned or tested here",
            "is this how the rows were chosen? A model of this site alone can only say that",
        )
    ]
