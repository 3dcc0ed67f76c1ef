"""Is there anything to learn here? The first sentence of every answer."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.methods.advised import ALONE
from coterie.metrics.learnt import Learnt
from coterie.report import views
from coterie.report.nothing import learns, nothing_in
from coterie.report.words import called, figure, in_percent, several
from coterie.runs.answers import Advice, Answer
from coterie.runs.record import Record

QUESTION = "Is there anything to learn here?"
SAME = {
    "nll": "always saying {whose} own rates",
    "accuracy": "always saying {whose} most frequent class",
    "auc": "an order by chance",
    "rmse": "always saying {whose} own mean",
    "concordance": "an order by chance",
}
"""What has learnt nothing, by measure."""
EACH, ONE = "each site's", "the site's"
UNTRIED = "Not known: always the same answer is all that was tried."
NOT_KNOWN = "Not known: what always the same answer would have cannot be told from these figures."


def first_sentence(records: Sequence[Record]) -> str:
    """Of runs."""
    by_label = views.groups(records)
    if list(by_label) == [nothing_in(by_label)]:
        return f"{QUESTION} {UNTRIED}"
    return f"{QUESTION} {in_words(learns(records), views.baseline(by_label) or '', EACH)}"


def of_answer(answer: Answer) -> str:
    """Of the trials for one client."""
    return f"{QUESTION} {in_words(answer.learnt)}"


def of_answers(advice: Advice) -> str:
    """Of all answers: for how many there is anything; of one all is said."""
    if len(advice.answers) == 1:
        return of_answer(advice.answers[0])
    known = [a.learnt.verdict for a in advice.answers if a.learnt.by is not None]
    some = sum(verdict != "no" for verdict in known)
    yes = "Yes" if some == len(known) else "For some" if some else "No"
    return f"{QUESTION} {yes}: for {some} of {several(len(known), 'client')}." if known else ""


def in_words(found: Learnt, alone: str = ALONE, whose: str = ONE) -> str:
    """The answer, for each site or for one; `alone` is what training alone is called."""
    by = found.by
    if by is None:
        return NOT_KNOWN
    same, metric = SAME[by.metric].format(whose=whose), measure(by.metric)
    name = "training alone" if by.way == alone else by.way
    if found.verdict == "no":
        has = f"{metric} {amount(by.same, by.metric)}"
        if by.better:
            near = f"{name} has {amount(by.model, by.metric)}"
            return f"No: no model beats {same} ({has}) by more than chance brings; {near}."
        near = f"the nearest, {name}, {amount(by.model, by.metric)}"
        return f"No: no model beats {same} ({has}; {near})."
    reached, against = (amount(value, by.metric) for value in (by.model, by.same))
    said = f"{'alone' if by.way == alone else f'with {name}'}, {metric} {reached} where {same} has {against}"
    if found.first is not None:
        said += f"; but not alone, with {amount(found.first.model, by.metric)}"
    if found.beside is None:
        return f"Yes: {said}."
    bold = " against ".join(amount(v, found.beside.metric) for v in (found.beside.model, found.beside.same))
    return f"Partly: {said}; its probabilities are no better than these rates: {measure('nll')} {bold}."


def measure(metric: str) -> str:
    return "log loss" if metric == "nll" else called(metric)


def amount(value: float, metric: str) -> str:
    return figure(value, metric) + (" %" if in_percent(metric) else "")
