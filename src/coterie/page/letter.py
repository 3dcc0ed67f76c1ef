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
from html import escape

import numpy as np

from coterie.page.cards import why, with_whom
from coterie.page.catalogue import Words
from coterie.page.render import address
from coterie.page.view import View
from coterie.report.features import INTERCEPT, weighed

BECAUSE = {
    **dict.fromkeys(("first", "helps", "better", "suits"), "well"),
    **dict.fromkeys(("guess", "even", "own"), "worse"),
    **dict.fromkeys(("harms", "threshold", "chance"), "average"),
    **{name: name for name in ("few", "later", "withdrew", "other")},
    "kept": "other",
}
"""Reasons of rankings, as one tells them to whom they are about."""
MOST = 8  # columns, and weights, that are named
WIDE = 88  # letters in a line


@dataclass(frozen=True)
class Difference:
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
    columns: tuple[Difference, ...] | None
    weights: tuple[Difference, ...] | None
    alone: bool


def feedback(view: View, partner: str) -> Feedback:
    j = view.names.index(partner)
    return Feedback(
        partner,
        float(view.last[view.number, j]),
        columns_apart(view, j),
        weights_apart(view, partner),
        bool(view.alone),
    )


def columns_apart(view: View, j: int) -> tuple[Difference, ...] | None:
    found = view.similarity
    order = why.columns_apart(found, view.number, j) if found is not None else []
    if found is None or not order:
        return None
    terms, chance = found.terms[view.number, j], found.expected[view.number, j]
    some = [c for c in order if terms[c] > 2 * chance[c]][:MOST]
    return tuple(Difference(found.columns[c], float(terms[c]), float(chance[c])) for c in some)


def weights_apart(view: View, partner: str) -> tuple[Difference, ...] | None:
    """(theirs, ours), the mean over seeds; of several classes, the output in which they differ most."""
    found = weighed({view.label: list(view.alone or view.runs)})
    if found is None or not {view.client, partner} <= set(found.clients):
        return None
    mean = np.nanmean(next(iter(found.values.values())), axis=0)
    mine, theirs = (mean[found.clients.index(name)] for name in (view.client, partner))
    output = int(np.abs(theirs - mine).sum(axis=1).argmax())
    apart = theirs[output] - mine[output]
    some = [f for f in np.argsort(-np.abs(apart), kind="stable") if found.features[f] != INTERCEPT][:MOST]
    return tuple(
        Difference(found.features[f], float(theirs[output, f]), float(mine[output, f]))
        for f in some
        if np.isfinite(apart[f]) and apart[f] != 0
    )


def left_out(view: View) -> list[str]:
    """Partners who do not count in the client's model now."""
    return [view.names[j] for j in view.others if view.last[view.number, j] < with_whom.LEAST]


def section(view: View, say: Words) -> str:
    """Links to letters, to those who were not chosen first."""
    if not view.rounds:
        return ""
    out = left_out(view)
    names = [*out, *(view.names[j] for j in view.others if view.names[j] not in out)]
    where = ("run", view.entry.id, view.client, "letter")
    items = "".join(
        f'<li><a class="file" href="{escape(address(*where, name, label=view.label))}" '
        f"download>{escape(say('letter.to', name=name))}</a>"
        f"{' · ' + escape(say('letter.not_chosen')) if name in out else ''}</li>"
        for name in names[:60]
    )
    return f"""<section id="letters"><h2>{escape(say("letter.title"))}</h2>
<p>{escape(say("letter.about"))}</p><ul>{items}</ul></section>"""


def counting(view: View, weight: float, say: Words) -> str:
    """How much a partner counted, where that is a share of a model; else that it did."""
    if with_whom.summed_in(view) == "model":
        return say("letter.counts", weight=say.percent(weight))
    return say("letter.took_part")


def text(view: View, partner: str, say: Words) -> str:
    """The letter."""
    found = feedback(view, partner)
    counted = found.weight >= with_whom.LEAST
    parts = [
        say("letter.head", partner=partner, client=view.client),
        time.strftime("%Y-%m-%d"),
        say("letter.study", study=view.entry.name, method=view.label, rounds=say.whole(view.record.done)),
        counting(view, found.weight, say) if counted else say("letter.does_not"),
    ]
    reason = why.reasons(view).get(view.names.index(partner))
    parts += [say(f"letter.because.{BECAUSE[reason]}")] if reason else []
    parts.append(columns_text(found, say))
    parts.append(weights_text(found, say))
    parts += [say("letter.no_verdict"), say("letter.no_patient"), say("letter.regards", client=view.client)]
    return "\n\n".join(folded(part) for part in parts) + "\n"


def columns_text(found: Feedback, say: Words) -> str:
    if found.columns is None:
        return say("letter.no_columns")
    if not found.columns:
        return say("letter.same_columns")
    lines = [
        say("letter.column", name=d.name, value=say.number(d.first, 2), chance=say.number(d.second, 2))
        for d in found.columns
    ]
    return "\n".join([say("letter.columns"), *(f"  - {line}" for line in lines)])


def weights_text(found: Feedback, say: Words) -> str:
    if not found.weights:
        return say("letter.no_weights")
    lines = [
        say("letter.weight", name=d.name, theirs=say.number(d.first, 2), ours=say.number(d.second, 2))
        for d in found.weights
    ]
    head = say("letter.weights_alone" if found.alone else "letter.weights")
    return "\n".join([head, *(f"  - {line}" for line in lines)])


def folded(paragraph: str) -> str:
    return "\n".join(
        textwrap.fill(
            line, WIDE, subsequent_indent="    " if line.startswith("  - ") else "", break_long_words=False
        )
        for line in paragraph.splitlines()
    )
