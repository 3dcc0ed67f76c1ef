"""Is a model worth acting on: net benefit by threshold probability, beside treating all and none.

Counts of all clients and seeds are added before anything is divided, as in `calibration.py`, whose charts
have the curve. A site that keeps to itself how many rows are of each class has no counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from coterie.metrics.calibration import THRESHOLDS, Calibration, Tally, taus
from coterie.metrics.operating import Counts, net_benefit, treating_all
from coterie.report import page_tables, views, words
from coterie.report.inks import Ink
from coterie.runs.record import Record

ALL, NONE = "treat all", "treat none"
AT = (0.05, 0.1, 0.2, 0.3, 0.5)  # of a table
CAPTION = (
    "Decision curve: who acts from a threshold probability of t on counts one false alarm as t / (1 − t) of "
    "a case that is found; net benefit is the cases found less the false alarms, so counted, by row (Vickers "
    "and Elkin, 2006). A model is of use at t where it lies above both treating all and treating none."
)


class Thresholds(NamedTuple):
    """All that are counted, and those that a curve shows, with their places among them."""

    all: np.ndarray
    shown: np.ndarray
    places: np.ndarray


def thresholds() -> Thresholds:
    """0, 0.01, ..., 1, of which a curve has those between: at 0 and 1 one acts on all or on nobody."""
    every, places = taus(THRESHOLDS).numpy(), np.arange(1, THRESHOLDS)
    return Thresholds(every, every[places], places)


def counts_of(positive: Tally) -> Counts | None:
    """By threshold, from samples called positive [threshold]; None where none were counted."""
    if not positive.samples.sum():
        return None
    called, found = positive.samples.numpy(), positive.right.numpy()
    ill, rows = found[0], called[0]
    wrongly = called - found
    return Counts(found, wrongly, rows - ill - wrongly, ill - found)


def cells(whole: Mapping[str, Calibration]) -> tuple[list[str], list[list[str]]]:
    """Net benefit at a few thresholds: header and rows as text, treating all last; no rows without counts."""
    counts = {label: counts_of(found.positive) for label, found in whole.items()}
    known = {label: c for label, c in counts.items() if c is not None}
    if not known:
        return [], []
    t = taus(THRESHOLDS).numpy()
    places = [round(at * THRESHOLDS) for at in AT]
    everybody = treating_all(next(iter(known.values())))
    rows = [
        [label, *(words.figure(float(v), "net_benefit") for v in net_benefit(c, t)[places])]
        for label, c in {**known, ALL: everybody}.items()
    ]
    return ["method", *(f"from {100 * at:.0f} % on" for at in AT)], rows


def part(by_label: views.Groups, whole: Mapping[str, Calibration], inks: Mapping[str, Ink]) -> str:
    """The table for a page, under its own heading; nothing where there are no counts."""
    header, rows = cells(whole)
    if not rows:
        return ""
    named = [
        [page_tables.swatch(label, inks) if label in inks else escape(label), *rest] for label, *rest in rows
    ]
    shown = page_tables.table(header, named, "figures")
    return f"<h3>Net benefit of acting from a probability on</h3>{shown}<p>{legend(by_label)}</p>"


def positive_name(records: Sequence[Record]) -> str:
    """The class that sensitivity, specificity and net benefit are of."""
    about = records[0].about
    return str(about["classes"][int(about.get("positive", 1))])


def legend(by_label: views.Groups) -> str:
    """Of which class the probability is, and what the figures are."""
    which = escape(positive_name(next(iter(by_label.values()))))
    return (
        f"From which probability of {which} on one would act. Cases found less false alarms, these by the "
        "odds of the threshold, by row, of all clients together; treating none has 0. More is better; a "
        "model below treating all, or below 0, is of no use at that threshold."
    )
