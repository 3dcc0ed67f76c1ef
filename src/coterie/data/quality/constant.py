"""Columns that say nothing at a site, as all rows have one value."""

from __future__ import annotations

import numpy as np

from coterie.data.quality.check import Check, Finding, Seen, register
from coterie.data.quality.site_rows import SiteRows
from coterie.show.words import said

FEWEST = 10  # values, before one and the same is remarkable


def check(rows: SiteRows) -> list[Finding]:
    found = list[tuple[str, int, str]]()
    for column, values in zip(rows.columns, rows.raw.T, strict=True):
        known = values[~np.isnan(values)]
        if len(known) >= FEWEST and (known == known[0]).all():
            found.append((column.name, len(known), column.text(float(known[0]))))
    labels = np.unique(rows.y)
    if len(labels) == 1 and len(rows) >= FEWEST:
        found.append(("", len(rows), rows.label(float(labels[0]))))
    findings = list[Finding]()
    for name, many, value in found:
        key = "check.constant.column" if name else "check.constant.target"
        says = said(key, **{"many": many, **({"column": name} if name else {}), "value": value})
        words = value, "more than one value", says, said(f"{key}_remedy")
        findings.append(Finding(rows.site, name, "constant", "look", many, 1.0, *words))
    return findings


register(Check(name="constant", place=30, at_home=lambda home: Seen(check(home.rows))))
