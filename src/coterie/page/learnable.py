"""Is there anything to learn here? The first sentence of a client's page, in its reader's language."""

from __future__ import annotations

from coterie.metrics.learnt import Learnt, Shown
from coterie.page.catalogue import Words
from coterie.page.view import View
from coterie.report import views
from coterie.report.nothing import learns
from coterie.report.words import in_percent


def sentence(view: View, say: Words) -> str:
    """By all methods of the client's study, and training alone elsewhere on the same rows."""
    runs = [r for some in view.study.groups().values() for r in some]
    more = [r for r in view.alone if r not in runs]
    found: Learnt = view.study.once(
        ("learnt", view.number, len(more)), lambda: learns([*runs, *more], view.number)
    )
    return in_words(found, views.baseline(views.groups([*runs, *more])) or "", say)


def in_words(found: Learnt, alone: str, say: Words) -> str:
    """The question and its answer; `alone` is the label of training alone."""
    by = found.by
    if by is None:
        return f"{say('learn.question')} {say('learn.unknown')}"
    blanks = {
        "way": way(by.way, alone, say),
        "metric": say.metric(by.metric),
        "value": figure(by, by.model, say),
        "same": say(f"learn.same.{by.metric}"),
        "level": figure(by, by.same, say),
    }
    no = "near" if by.better else "no"
    said = [say("learn.question"), say(f"learn.{no if found.verdict == 'no' else 'yes'}", **blanks)]
    if found.first is not None:
        said.append(say("learn.not_alone", value=figure(found.first, found.first.model, say)))
    if found.beside is not None:
        levels = {n: figure(found.beside, v, say) for n, v in zip(LEVELS, found.beside[2:4], strict=True)}
        said.append(say("learn.bold", metric=say.metric(found.beside.metric), **levels))
    return " ".join(said)


LEVELS = ("value", "level")


def way(label: str, alone: str, say: Words) -> str:
    return say("learn.alone") if label == alone else say("learn.with", method=label)


def figure(shown: Shown, value: float, say: Words) -> str:
    return say.percent(value, 1) if in_percent(shown.metric) else say.number(value)
