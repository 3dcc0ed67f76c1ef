"""Columns that tell the outcome by themselves, so well that they may be known only after it.

A site of a federation looks at its own rows. Where the rows of all are at hand, a column is looked at over
all of them, and then at each site, which must tell more than luck gives a column that is as good as that
everywhere. What is measured, and what a score must reach (`data/tables/leaks.py`), is the same as when a
recipe is proposed: a recipe may be edited, or made without.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.data.intake import Array
from coterie.data.quality.finding import ALL_SITES, Finding
from coterie.data.quality.rows import SiteRows
from coterie.data.tables.leaks import Leak, Target, by_site, known_afterwards, leak_of, number_text, places

KNOWN = 'is it known before the outcome? If not, forbid it (--forbid), or set use = "leave-out" in the recipe'


def check(rows: SiteRows) -> list[Finding]:
    """At one site that is by itself."""
    return across([rows])


def across(sites: Sequence[SiteRows], _seed: int = 0) -> list[Finding]:
    """Of columns that become inputs; where values say nothing, a name may."""
    first, raw = sites[0], np.concatenate([rows.raw for rows in sites])
    if not len(raw):
        return []
    target = Target.of(first.task, np.concatenate([rows.y for rows in sites]), first.classes)
    whose = np.repeat(np.arange(len(sites)), [len(rows) for rows in sites])
    where = places(target, whose, [rows.site for rows in sites], len(first.columns), people_of(sites))
    sizes = {rows.site: len(rows) for rows in sites} | {ALL_SITES: len(raw)}
    alone = sites[0].site if len(sites) == 1 else ALL_SITES
    found = list[Finding]()
    for i, column in enumerate(first.columns):
        if column.name in first.unused:
            continue
        text = column.text if column.values else number_text
        leak = leak_of(column.name, raw[:, i], ~np.isnan(raw[:, i]), where, column.kind == "category", text)
        if leak is not None:
            site = leak.site or alone
            found.append(_finding(leak, site, sizes[site]))
        elif word := known_afterwards(column.name):
            found.append(_named(alone, len(raw), column.name, word))
    return found


def people_of(sites: Sequence[SiteRows]) -> Array | None:
    """[row of all sites] who it is about; None where no site knows."""
    if all(rows.people is None for rows in sites):
        return None
    return by_site([np.arange(len(rows)) if rows.people is None else rows.people for rows in sites])


def _finding(leak: Leak, site: str, rows: int) -> Finding:
    return Finding(
        site,
        leak.column,
        "leaks",
        "likely",
        leak.rows,
        leak.rows / rows,
        leak.figure or f"{leak.rows} rows",
        "what an honest column reaches",
        f"{leak.column} {leak.says.removeprefix('it ')}",
        KNOWN,
    )


def _named(site: str, rows: int, name: str, word: str) -> Finding:
    says = f"{name} is called like something known only afterwards ({word})"
    return Finding(site, name, "leaks", "look", rows, 1.0, word, "known before", says, KNOWN)
