"""Labels to review: rows whose label a model that has not seen them finds unlikely.

Confident learning (Northcutt, Jiang, Chuang: Confident learning, estimating uncertainty in dataset labels.
Journal of Artificial Intelligence Research 70, 2021), as cleanlab has it, on chances from 5-fold
cross-validation of a logistic model within the site. A list to review and no verdict: most of it is cases
that are hard, not wrong (docs/results/quality.md has how many).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from coterie.data.quality.check import MOST_LINES, Check, Finding, Home, Seen, Suspect, register
from coterie.data.quality.site_rows import SiteRows
from coterie.data.quality.worth import out_of_sample
from coterie.show.words import Saying, Share, said

FOLDS = 5
FEWEST = 10  # rows of a class, two for each fold


class _Review(NamedTuple):
    """Suspects, those least likely to be right first, or why there are none."""

    suspects: tuple[Suspect, ...] = ()
    skipped: Saying | None = None


def review(rows: SiteRows, seed: int = 0) -> _Review:
    if why := _why_not(rows):
        return _Review(skipped=why)
    try:
        import cleanlab.filter
    except ImportError:
        return _Review(skipped=said("check.labels.cleanlab"))

    logging.getLogger("cleanlab").setLevel(logging.ERROR)
    present = np.unique(rows.y)
    given = np.searchsorted(present, rows.y)
    chances = out_of_sample(rows, FOLDS, seed)
    issues = cleanlab.filter.find_label_issues
    which = issues(given, chances, return_indices_ranked_by="self_confidence", n_jobs=1)
    likely = chances.argmax(axis=1)
    suspects = list[Suspect]()
    for i in which[likely[which] != given[which]]:
        here = rows.site, int(rows.lines[i]), rows.label(float(rows.y[i]))
        would_be = rows.label(float(present[likely[i]]))
        suspects.append(Suspect(*here, would_be, round(float(chances[i].max()), 3)))
    return _Review(tuple(suspects))


def _why_not(rows: SiteRows) -> Saying | None:
    """Why labels cannot be reviewed, if they cannot."""
    if rows.task != "classification":
        return said("check.labels.numbers", task=rows.task)
    counts = np.unique(rows.y, return_counts=True)[1]
    if len(counts) < 2:
        return said("check.labels.same")
    if counts.min() < FEWEST:
        return said("check.labels.few", count=int(counts.min()), fewest=FEWEST)
    return None


def _seen(home: Home) -> Seen:
    found, rows = review(home.rows, home.seed), len(home.rows)
    if not found.suspects:
        return Seen(notes=(found.skipped,) if found.skipped else ())
    many, share = len(found.suspects), len(found.suspects) / rows
    says = said("check.labels.found", many=many, rows=rows, share=Share(share))
    words = f"{many} labels", "what a model would say", says, said("check.labels.remedy")
    lines = tuple(s.line for s in found.suspects[:MOST_LINES])
    return Seen([Finding(home.rows.site, "", "labels", "look", many, share, *words, lines)], found.suspects)


register(Check(name="labels", place=90, at_home=_seen))
