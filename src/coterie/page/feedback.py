"""Feedback to a partner that was not chosen: which columns, and which weights of its model, differ most.

Grimberg (2020), on feedback after a ranking, has the others learn how they were ranked, whether they are in,
and which weights of their models are far from the requester's. Columns are compared by the sketches that
sites told, weights by models that were trained alone where there are any; only linear models have a weight
for each column. It is a text to download: whether it is sent, and to whom, people decide.
"""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass

import numpy as np

from coterie.page.similarity import columns_apart
from coterie.page.view import LEAST, View
from coterie.report.features import INTERCEPT, weighed
from coterie.show.words import Words

_BECAUSE = {
    **dict.fromkeys(("first", "helps", "better", "suits"), "well"),
    **dict.fromkeys(("guess", "even", "own"), "worse"),
    **dict.fromkeys(("harms", "threshold", "chance"), "average"),
    **{name: name for name in ("few", "later", "withdrew", "other")},
    "kept": "other",
}
"""Reasons of rankings, as one tells them to whom they are about."""
_MOST = 8  # columns, and weights, that are named
_WIDE = 88  # letters in a line
_MANY = 60  # partners


@dataclass(frozen=True)
class _Difference:
    """Of one column: (theirs, ours) for a weight, (difference, what chance would make of it) for rows."""

    name: str
    first: float
    second: float


@dataclass(frozen=True)
class Feedback:
    """
    columns   those that differ by more than twice what chance would make of it, the largest first; None if
              rows were not sketched
    weights   those that differ most; None if models are not linear, or are elsewhere
    alone     whether these models were trained alone
    """

    partner: str
    weight: float
    columns: tuple[_Difference, ...] | None
    weights: tuple[_Difference, ...] | None
    alone: bool


def feedback(view: View, partner: str) -> Feedback:
    j = view.names.index(partner)
    return Feedback(
        partner,
        float(view.last[view.number, j]),
        _columns_of(view, j),
        _weights_apart(view, partner),
        bool(view.alone),
    )


def _columns_of(view: View, j: int) -> tuple[_Difference, ...] | None:
    found = view.similarity
    order = columns_apart(found, view.number, j) if found is not None else []
    if found is None or not order:
        return None
    terms, chance = found.terms[view.number, j], found.expected[view.number, j]
    some = [c for c in order if terms[c] > 2 * chance[c]][:_MOST]
    return tuple(_Difference(found.columns[c], float(terms[c]), float(chance[c])) for c in some)


def _weights_apart(view: View, partner: str) -> tuple[_Difference, ...] | None:
    """(theirs, ours), the mean over seeds; of several classes, the output in which they differ most."""
    found = weighed({view.label: list(view.alone or view.runs)})
    if found is None or not {view.client, partner} <= set(found.clients):
        return None
    mean = np.nanmean(next(iter(found.values.values())), axis=0)
    mine, theirs = (mean[found.clients.index(name)] for name in (view.client, partner))
    output = int(np.abs(theirs - mine).sum(axis=1).argmax())
    apart = theirs[output] - mine[output]
    some = [f for f in np.argsort(-np.abs(apart), kind="stable") if found.features[f] != INTERCEPT][:_MOST]
    return tuple(
        _Difference(found.features[f], float(theirs[output, f]), float(mine[output, f]))
        for f in some
        if np.isfinite(apart[f]) and apart[f] != 0
    )


def partners(view: View) -> list[tuple[str, bool]]:
    """To whom there are letters, and whether they count in the client's model: those who do not, first."""
    if not view.rounds:
        return []
    counts = [(view.names[j], bool(view.last[view.number, j] >= LEAST)) for j in view.others]
    return sorted(counts, key=lambda one: one[1])[:_MANY]


def letter(view: View, partner: str, say: Words) -> str:
    """The letter."""
    found = feedback(view, partner)
    counted = say("letter.does_not")
    if found.weight >= LEAST:  # how much, where that is a share of a model; else that it did
        share = view.shares == "model"
        counted = say("letter.counts", weight=say.percent(found.weight)) if share else say("letter.took_part")
    parts = [
        say("letter.head", partner=partner, client=view.client),
        time.strftime("%Y-%m-%d"),
        say("letter.study", study=view.entry.name, method=view.label, rounds=say.whole(view.record.done)),
        counted,
    ]
    reason = view.reasons.get(view.names.index(partner))
    parts += [say(f"letter.because.{_BECAUSE[reason]}")] if reason else []
    parts.append(_columns_text(found, say))
    parts.append(_weights_text(found, say))
    parts += [say("letter.no_verdict"), say("letter.no_patient"), say("letter.regards", client=view.client)]
    folded = []
    for line in "\n\n".join(parts).splitlines():
        indent = "    " if line.startswith("  - ") else ""
        folded.append(textwrap.fill(line, _WIDE, subsequent_indent=indent, break_long_words=False))
    return "\n".join([*folded, ""])


def _columns_text(found: Feedback, say: Words) -> str:
    if found.columns is None:
        return say("letter.no_columns")
    if not found.columns:
        return say("letter.same_columns")
    lines = [
        say("letter.column", name=d.name, value=say.number(d.first, 2), chance=say.number(d.second, 2))
        for d in found.columns
    ]
    return "\n".join([say("letter.columns"), *(f"  - {line}" for line in lines)])


def _weights_text(found: Feedback, say: Words) -> str:
    if not found.weights:
        return say("letter.no_weights")
    lines = [
        say("letter.weight", name=d.name, theirs=say.number(d.first, 2), ours=say.number(d.second, 2))
        for d in found.weights
    ]
    head = say("letter.weights_alone" if found.alone else "letter.weights")
    return "\n".join([head, *(f"  - {line}" for line in lines)])
