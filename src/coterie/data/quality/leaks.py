"""Columns that tell the outcome by themselves, so well that they may be known only after it.

A site of a federation looks at its own rows. Where the rows of all are at hand, a column is looked at over
all of them, and then at each site, which must tell more than luck gives a column that is as good as that
everywhere. What is measured, and what a score must reach (`data/tables/leaks.py`), is the same as when a
recipe is proposed: a recipe may be edited, or made without.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.data.quality.check import ALL_SITES, Check, Finding, Seen, register
from coterie.data.quality.site_rows import SiteRows
from coterie.data.tables.leaks import Target, by_site, known_afterwards, leak_of, number_text, places
from coterie.show.words import said


def across(sites: Sequence[SiteRows], _seed: int = 0) -> list[Finding]:
    """Of columns that become inputs; where values say nothing, a name may."""
    first, raw = sites[0], np.concatenate([rows.raw for rows in sites])
    if not len(raw):
        return []
    target = Target.of(first.task, np.concatenate([rows.y for rows in sites]), first.classes)
    whose, people = np.repeat(np.arange(len(sites)), [len(rows) for rows in sites]), None
    if any(rows.people is not None for rows in sites):
        people = by_site([np.arange(len(rows)) if rows.people is None else rows.people for rows in sites])
    where = places(target, whose, [rows.site for rows in sites], len(first.columns), people)
    sizes = {rows.site: len(rows) for rows in sites} | {ALL_SITES: len(raw)}
    alone = first.site if len(sites) == 1 else ALL_SITES
    found, remedy = list[Finding](), said("check.leaks.known")
    for i, column in enumerate(first.columns):
        if column.name in first.unused:
            continue
        text = column.text if column.values else number_text
        leak = leak_of(column.name, raw[:, i], ~np.isnan(raw[:, i]), where, not column.of.ranked, text)
        if leak is not None:
            site, many = leak.site or alone, leak.rows
            words = leak.figure or f"{many} rows", "what an honest column reaches", leak.sentence, remedy
            found.append(Finding(site, column.name, "leaks", "likely", many, many / sizes[site], *words))
        elif word := known_afterwards(column.name):
            says = said("check.leaks.named", column=column.name, word=word)
            words = word, "known before", says, remedy
            found.append(Finding(alone, column.name, "leaks", "look", len(raw), 1.0, *words))
    return found


register(
    Check(
        name="leaks", place=60, at_home=lambda home: Seen(across([home.rows])), with_rows=across, at_each=True
    )
)
