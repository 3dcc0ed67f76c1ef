"""What ways of training are compared by, and what no model at all would have on the same rows.

Accuracy is blind where one class is common: of 27 rows with one ill, whoever always says "well" is right on
26, and so are all ways. From a share of COMMON on at any client that asks, ways are compared by the negative
log-likelihood instead (log loss): it is defined on every part, also without anybody ill in it, and sees how
probable each way finds what happened. All who ask have the same measure, so that answers can be compared.

How many rows are of which class is in the roster. A site that keeps that to itself is not judged by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from coterie.core.roster import Roster
from coterie.metrics import no_model
from coterie.metrics.table import headline
from coterie.runs.about import COMMON, SEEING, commonest, labels_of
from coterie.show.words import Figure, said


class Measure(NamedTuple):
    """Its name, and why it is that one, or can hardly tell; nothing where it is the usual one, and can."""

    name: str
    why: str = ""


class Outcome(NamedTuple):
    """Of a client's training rows: what most of them are, how many are not, and what these are.

    common   the class that most rows are of; empty for a survival
    rare     what the others are called, for people: "ill", "other than well", "with an event"
    """

    common: str
    rare: str
    counted: int
    rows: int

    @property
    def share(self) -> float:
        return 1 - self.counted / self.rows


def outcome_of(roster: Roster, client: int) -> Outcome | None:
    """None where rows have no classes, or nobody knows them."""
    counts = labels_of(roster.members[client])
    if not sum(counts):
        return None
    if roster.task == "survival":
        return Outcome("", "with an event", counts[1], sum(counts))
    names = roster.classes or tuple(f"class {c}" for c in range(len(counts)))
    most = commonest(counts)
    rare = names[1 - most] if len(counts) == 2 else f"other than {names[most]}"
    return Outcome(names[most], rare, sum(counts) - counts[most], sum(counts))


def parts_without(folds: Sequence[Roster], client: int) -> int | None:
    """In how many parts that folds hold out for testing there is no row of the rarer kind."""
    members = [roster.members[client].labels for roster in folds]
    if any(labels is None for labels in members):
        return None
    parts = [(labels[0], labels[2]) for labels in members if labels]
    if folds[0].task == "survival":
        return sum(not test[1] for _, test in parts)
    return sum(sum(test) <= test[commonest(train)] for train, test in parts)


def balanced_always_the_same(folds: Sequence[Roster], client: int) -> float:
    """The balanced accuracy of always saying the most frequent class, the mean over held-out parts of two
    classes or more: how many classes a part has may differ. NaN where that is not known.
    """
    members = [roster.members[client].labels for roster in folds]
    parts = [(labels[0], labels[2]) for labels in members if labels]
    found = [
        (test[commonest(train)] > 0) / classes
        for train, test in parts
        if (classes := sum(count > 0 for count in test)) > 1
    ]
    return sum(found) / len(found) if found else math.nan


def measure_of(asked: str, roster: Roster, asks: Sequence[int]) -> Measure:
    """What was asked for, else the usual figure of the task, unless it is blind for somebody who asks."""
    name = headline(roster.task) if asked == "auto" else asked
    if roster.task != "classification" or name != "accuracy":
        return Measure(name)
    known = [(found, roster.names[i]) for i in asks if (found := outcome_of(roster, i)) is not None]
    found, client = max(known, key=lambda pair: pair[0].share, default=(None, ""))
    if found is None or found.share < COMMON:
        return Measure(name)
    name = SEEING if asked == "auto" else name
    return Measure(name, why_measured(found, client, name))


def why_measured(found: Outcome, client: str, name: str) -> str:
    """That accuracy sees nothing at this client, and what ways are compared by instead, or could be."""
    return said(
        "trials.log_loss" if name == SEEING else "trials.blind",
        counted=found.rows - found.counted,
        rows=found.rows,
        client=client,
        name=found.common,
        share=Figure(f"{100 * found.share:.0f} %"),
    )


def no_model_at(
    metric: str,
    roster: Roster,
    client: int,
    own_loss: bool,
    scored: Sequence[tuple[float, float, int]],
    specificity: float,
) -> float:
    """What a client would have without any model: from its counts of classes and the specificity at which a
    sensitivity is read or, for numbers, from (RMSE, R², rows) of any model [fold]; NaN where that is not
    known.
    """
    if metric == "rmse":
        found = [no_model.of_figures(*fold) for fold in scored]
        known = [value for value in found if math.isfinite(value)]
        return sum(known) / len(known) if known else math.nan
    if metric == "loss" and roster.task == "classification" and not own_loss:
        metric = SEEING  # which it is, unless somebody brought another
    return no_model.of_labels(metric, labels_of(roster.members[client]), specificity)
