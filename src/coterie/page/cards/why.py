"""Why: what was measured of the others before and while their models were taken, or not.

rankings    reasons of `report/choices.py`, one for each other
sketches    how far rows lie apart, all in all and column by column (`runs/alike.py`)
matrices    what the method itself looked at, round by round: distances, losses, what is left of a weight
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.page.cards.base import Card, Table
from coterie.page.cards.why_pictures import last_row, named, numbers, pictures, slug
from coterie.page.catalogue import Words
from coterie.page.view import View
from coterie.report.choices import IN, reason
from coterie.report.ranked import is_ranking, ranked
from coterie.runs.alike import Similarity

NAMED = 3  # columns, or reasons, of a sentence
LISTED = 12  # columns of each other that the table shows; its file has all
COLUMNS = ("partner", "measure", "value", "by_chance", "reason")


def card(view: View, say: Words) -> Card:
    order, said = leading(view), list[str]()
    found, near = view.similarity, ""
    if found is not None:
        near, more = nearest(view, found, say)
        said += more
    measured = by_matrix(view, say, order) if order else ""
    answers = [text for text in (chosen(view, say), measured, near) if text]
    said = [*answers[1:], *said]
    if not answers:
        answers = [in_words(view, say)]
    return Card(
        "why",
        answers[0],
        said,
        pictures(view, say),
        table(view, say),
        COLUMNS,
        how(view, say),
    )


def in_words(view: View, say: Words) -> str:
    """How the method says that it chooses; nothing of one that does not say it."""
    chooses = view.partners
    if chooses is None:
        return ""
    return chooses.said(say.language) or ("" if chooses.by else say("why.nothing"))


def how(view: View, say: Words) -> list[str]:
    said = view.partners.said(say.language) if view.partners is not None else ""
    lines = [said or say("why.how_method", method=view.method)]
    lines += [say.of(f"matrix.{slug(name)}.how", "") for name in named(view)]
    if view.similarity is not None:
        lines.append(say("why.how_sketches"))
        lines += [] if view.same else [say("why.other_rows")]
    else:
        lines.append(say("why.no_sketches"))
    return [line for line in lines if line]


def leading(view: View) -> str:
    """The first number that the method goes by, by which others can be told apart."""
    for name in (name for name in named(view) if name in numbers(view)):
        row = last_row(view, name)[view.others]
        known = row[np.isfinite(row)]
        if len(known) == 1 or np.ptp(known) > 0:
            return name
    return ""


def by_matrix(view: View, say: Words, name: str) -> str:
    """Who fits best and who least, by what the method went by."""
    row = last_row(view, name)
    known = [j for j in view.others if np.isfinite(row[j])]
    if not known:
        return ""
    order = sorted(known, key=lambda j: -row[j] if numbers(view)[name] == "high" else row[j])
    best, worst = order[0], order[-1]
    what = say.of(f"matrix.{slug(name)}.name", name)
    one = say("why.best", name=view.names[best], value=say.number(row[best]), measure=what)
    if worst == best:
        return one
    return say("why.best_worst", one=one.rstrip("."), name=view.names[worst], value=say.number(row[worst]))


def reasons(view: View) -> dict[int, str]:
    """By other, the best first: the name of why it is in a ranking's circle or not."""
    if not is_ranking(view.record):
        return {}
    found = ranked(view.record)
    if view.number not in found.requesters:
        return {}
    return {j: reason(found, view.number, j) for j in found.order(view.number)}


def chosen(view: View, say: Words) -> str:
    """The answer of a ranking: who is in, for which reason."""
    by_other = reasons(view)
    if not by_other:
        return ""
    picked = [j for j, name in by_other.items() if name in IN]
    if not picked:  # the same reason for all is said once, as where there are too few rows to tell
        said = dict.fromkeys(say(f"reason.{key}", name=view.names[j]) for j, key in by_other.items())
        return say("why.nobody", reason="; ".join(text.rstrip(".") for text in list(said)[:NAMED]))
    first = say(f"reason.{by_other[picked[0]]}", name=view.names[picked[0]])
    return say("why.picked", names=say.listed([view.names[j] for j in picked]), reason=first)


def nearest(view: View, found: Similarity, say: Words) -> tuple[str, list[str]]:
    """Whose rows look most like one's own, and in which columns the farthest differ."""
    measure = next(iter(found.measures))
    row = found.measures[measure][view.number]
    known = [j for j in view.others if np.isfinite(row[j])]
    if not known:
        return "", []
    order = sorted(known, key=lambda j: float(row[j]))
    near, far = order[0], order[-1]
    answer = say("why.near", name=view.names[near], value=say.number(row[near], 2))
    if near == far:
        return answer, columns_of(view, found, say, near)
    both = say("why.far", one=answer.rstrip("."), name=view.names[far], value=say.number(row[far], 2))
    return both, columns_of(view, found, say, far)


def columns_of(view: View, found: Similarity, say: Words, j: int) -> list[str]:
    """The columns in which another differs by more than chance would."""
    known = columns_apart(found, view.number, j)
    if not known:
        return []
    terms, chance = found.terms[view.number, j], found.expected[view.number, j]
    order = [c for c in known if terms[c] > 2 * chance[c]]
    if not order:
        return [say("why.no_column", name=view.names[j])]
    listed = say.listed([f"{found.columns[c]} ({say.number(terms[c], 2)})" for c in order[:NAMED]], NAMED)
    return [say("why.columns", name=view.names[j], columns=listed)]


def columns_apart(found: Similarity, i: int, j: int) -> list[int]:
    """Columns of two sites, those that differ most first; none where they were not told."""
    terms = found.terms[i, j]
    order = np.argsort(-np.nan_to_num(terms, nan=-1.0), kind="stable").tolist()
    return [c for c in order if np.isfinite(terms[c])]


def table(view: View, say: Words) -> Table:
    """Every figure of every other."""
    rows, raw = list[list[str]](), list[list[Any]]()

    because = {j: say(f"reason.{key}", name=view.names[j]) for j, key in reasons(view).items()}

    def add(
        j: int, measure: str, called: str, value: float, chance: float = np.nan, seen: bool = True
    ) -> None:
        why = because.get(j, "")
        raw.append([view.names[j], measure, number_or_none(value), number_or_none(chance), why])
        rows.extend([[view.names[j], called, say.number(value), say.number(chance), why]] if seen else [])

    found = view.similarity
    for j in view.others:
        for name in named(view):
            value = last_row(view, name)[j]
            if np.isfinite(value):
                add(j, name, say.of(f"matrix.{slug(name)}.name", name), value)
        for measure, matrix in found.measures.items() if found is not None else ():
            chance = found.chance.get(measure) if found is not None else None
            by_chance = np.nan if chance is None else chance[view.number, j]
            if np.isfinite(matrix[view.number, j]):
                called = say.of(f"measure.{measure}", measure)
                add(j, measure, called, matrix[view.number, j], by_chance)
        for place, c in enumerate(columns_apart(found, view.number, j) if found is not None else ()):
            assert found is not None
            name, terms, chance = (
                found.columns[c],
                found.terms[view.number, j],
                found.expected[view.number, j],
            )
            add(j, f"column {name}", say("why.one_column", name=name), terms[c], chance[c], place < LISTED)
    return Table([say(f"why.column.{name}") for name in COLUMNS], rows, raw)


def number_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
