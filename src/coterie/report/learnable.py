"""Is there anything to learn here? The first sentence of every answer."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.methods.advised import ALONE
from coterie.metrics.learnt import Learnt, Shown
from coterie.report import views
from coterie.report.nothing import learns, nothing_in
from coterie.report.words import PERCENT, called, figure
from coterie.runs.record import Record

QUESTION = "Is there anything to learn here?"
SAME = {
    "nll": "always saying each site's own rates",
    "accuracy": "always saying each site's most frequent class",
    "auc": "an order by chance",
    "rmse": "always saying each site's own mean",
    "concordance": "an order by chance",
}
"""What has learnt nothing, by measure."""
UNTRIED = "Not known: always the same answer is all that was tried."
NOT_KNOWN = "Not known: what always the same answer would have cannot be told from these figures."


def first_sentence(records: Sequence[Record]) -> str:
    """Of runs."""
    by_label = views.groups(records)
    if list(by_label) == [nothing_in(by_label)]:
        return f"{QUESTION} {UNTRIED}"
    return f"{QUESTION} {in_words(learns(records), views.baseline(by_label) or '')}"


def in_words(found: Learnt, alone: str = ALONE) -> str:
    """The answer; `alone` is what training alone is called."""
    by = found.by
    if by is None:
        return NOT_KNOWN
    same, metric = SAME[by.metric], measure(by.metric)
    if found.verdict == "no":
        has = f"{metric} {amount(by.same, by.metric)}"
        if by.better:
            near = f"{way(by, alone)} has {amount(by.model, by.metric)}"
            return f"No: no model beats {same} ({has}) by more than chance brings; {near}."
        near = f"the nearest, {way(by, alone)}, {amount(by.model, by.metric)}"
        return f"No: no model beats {same} ({has}; {near})."
    reached, against = (amount(value, by.metric) for value in (by.model, by.same))
    said = f"{way(by, alone)}, {metric} {reached} where {same} has {against}"
    if found.first is not None:
        said += f"; but not alone, with {amount(found.first.model, by.metric)}"
    if found.beside is None:
        return f"Yes: {said}."
    bold = " against ".join(amount(v, found.beside.metric) for v in (found.beside.model, found.beside.same))
    return f"Partly: {said}; its probabilities are no better than these rates: {measure('nll')} {bold}."


def way(shown: Shown, alone: str) -> str:
    return "alone" if shown.way == alone else f"with {shown.way}"


def measure(metric: str) -> str:
    return "log loss" if metric == "nll" else called(metric)


def amount(value: float, metric: str) -> str:
    return figure(value, metric) + (" %" if metric in PERCENT else "")
