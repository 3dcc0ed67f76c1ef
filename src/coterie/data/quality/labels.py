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

from coterie.core.errors import BadInput
from coterie.data.quality.finding import Finding, Suspect, percent
from coterie.data.quality.models import out_of_sample
from coterie.data.quality.ranges import MOST_LINES
from coterie.data.quality.rows import SiteRows

FOLDS = 5
FEWEST = 10  # rows of a class, two for each fold


class Review(NamedTuple):
    """Suspects, those least likely to be right first, or why there are none."""

    suspects: tuple[Suspect, ...] = ()
    skipped: str = ""


def need_cleanlab() -> None:
    try:
        import cleanlab  # noqa: F401
    except ImportError:
        raise BadInput("label suspects need cleanlab: pip install 'coterie[quality]'") from None


def review(rows: SiteRows, seed: int = 0) -> Review:
    why = why_not(rows)
    if why:
        return Review(skipped=why)
    try:
        need_cleanlab()
    except BadInput as error:
        return Review(skipped=str(error))
    from cleanlab.filter import find_label_issues

    logging.getLogger("cleanlab").setLevel(logging.ERROR)
    present = np.unique(rows.y)
    given = np.searchsorted(present, rows.y)
    chances = out_of_sample(rows, FOLDS, seed)
    which = find_label_issues(given, chances, return_indices_ranked_by="self_confidence", n_jobs=1)
    likely = chances.argmax(axis=1)
    suspects = (
        Suspect(
            rows.site,
            int(rows.lines[i]),
            rows.label(float(rows.y[i])),
            rows.label(float(present[likely[i]])),
            round(float(chances[i].max()), 3),
        )
        for i in which
        if likely[i] != given[i]
    )
    return Review(tuple(suspects))


def why_not(rows: SiteRows) -> str:
    """Why labels cannot be reviewed; nothing if they can."""
    if rows.task != "classification":
        return f"what a {rows.task} predicts are numbers, which are not reviewed"
    counts = np.unique(rows.y, return_counts=True)[1]
    if len(counts) < 2:
        return "labels are not reviewed where all are the same"
    if counts.min() < FEWEST:
        return f"labels are not reviewed where a class has {counts.min()} rows, below {FEWEST}"
    return ""


def finding(site: str, rows: int, suspects: tuple[Suspect, ...]) -> list[Finding]:
    if not suspects:
        return []
    many = len(suspects)
    return [
        Finding(
            site,
            "",
            "labels",
            "look",
            many,
            many / rows,
            f"{many} labels",
            "what a model would say",
            f"labels to review: {many} of {rows} ({percent(many / rows)}), which a model that has not seen "
            "the rows finds unlikely; most of them are hard cases, not mistakes",
            "look them up where they come from, and correct none by the model's word",
            tuple(s.line for s in suspects[:MOST_LINES]),
        )
    ]
