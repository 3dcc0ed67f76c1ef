"""Columns that tell the target without predicting it: known only afterwards, or too good to be true.

Whoever has rows looks with `leak_of`: `coterie table inspect` at tables, `coterie check` at what was read, a
run at its training rows. A column is looked at over the rows of all sites, and at each site by itself, as
what leaks at one is lost among the others' rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coterie.core.client import EVENTS, Task
from coterie.data.intake import Array
from coterie.data.tables.leak_values import (
    FEWEST,
    MOST_ROWS,
    MOST_VALUES,
    Goal,
    Score,
    Text,
    auc,
    common_value,
    counted_values,
    differing,
    filled_for_one_class,
    ranges_of_a_number,
    scores,
    values_of_one_class,
)
from coterie.data.tables.texts import loose
from coterie.show.words import Figure, Saying, said

__all__ = ["Leak", "Target", "alone", "auc", "filled_for_one_class", "known_afterwards", "leak_of", "places"]

AFTERWARDS = {
    "discharge", "discharged", "outcome", "death", "died", "dead", "deceased", "mortality", "survival",
    "survived", "autopsy", "readmission", "readmitted", "followup", "relapse", "recurrence", "los", "icd",
    "entlassung", "verstorben",
}  # fmt: skip
AFTERWARDS_PHRASES = (
    "length of stay", "follow up", "time to", "days to", "cause of", "final diagnosis", "vital status",
)  # fmt: skip
TOO_WELL = {"AUC": 0.98, "R²": 0.97}
TOO_WELL_OF_FEW = 0.95  # AUC of a flag or category: a copy of the outcome with a few mistakes
FEW_VALUES = 3  # of a column that is no category, at most, or as many as there are classes
HONEST = 0.9  # AUC or R² of a column that is good, and no leak
GAPS_TOO_WELL, HONEST_GAPS = 0.9, 0.75  # AUC of whether a column is filled in
LUCK = 0.01  # the chance, at most, that an honest column does as well
LUCK_OF_A_SITE = 1e-3  # at one of many sites
MOST_HONEST = 0.999  # of a site, where all rows tell as much
LOOKS = 1000  # columns by sites: the largest sites are looked at by themselves


def known_afterwards(name: str) -> str:
    """The word in a column's name that says so, if any."""
    text = loose(name)
    found = [w for w in text.split() if w in AFTERWARDS] or [
        p for p in AFTERWARDS_PHRASES if f" {p} " in f" {text} "
    ]
    return found[0] if found else ""


@dataclass(frozen=True)
class Leak:
    """A column that tells the target, how, and on which rows that was seen.

    how        a phrase behind "it"
    thing      what it tells: the target, a class, the event
    measure    AUC or R², of `score`; nothing where it is filled in, or empty, for one class alone
    rows       how many were looked at
    site       whose; nothing for all
    """

    column: str
    how: Saying
    thing: Saying
    measure: str
    score: float
    rows: int
    site: str = ""

    @property
    def figure(self) -> str:
        return f"{self.measure} {shown_score(self.score)}" if self.measure else ""

    @property
    def says(self) -> str:
        return self.sentence.replace(self.column, "it", 1)

    @property
    def sentence(self) -> Saying:
        """The same of the column by its name."""
        rows = said("check.leaks.rows", n=thousands(self.rows))
        if self.site:
            rows = said("check.leaks.rows_of", n=thousands(self.rows), site=self.site)
        nearly = 0.9995 <= self.score < 1
        score = said("check.leaks.nearly_all") if nearly else Figure(shown_score(self.score))
        figure = said("check.leaks.figure", measure=self.measure, score=score) if self.measure else ""
        return said("check.leaks.tells", column=self.column, how=self.how, figure=figure, rows=rows)


def shown_score(score: float) -> str:
    """Three digits; 1 is all, and no rounding."""
    return "1" if score == 1 else f"{score:.3f}" if score < 0.9995 else "above 0.999"


def thousands(many: int) -> str:
    return f"{many:,}".replace(",", "\u202f")


@dataclass(frozen=True, eq=False)
class Target:
    """What is predicted of all rows: classes, numbers, or times (`numbers`) and whether the event was seen
    (`labels`).
    """

    labels: Array | None = None
    names: tuple[str, ...] = ()
    numbers: Array | None = None

    @classmethod
    def of(cls, task: Task, y: Array, classes: Sequence[str] = ()) -> Target:
        """Targets as clients have them: labels, numbers, or times that are negative without an event."""
        if task == "survival":
            return cls((y > 0).astype(int), EVENTS, np.abs(y))
        if task == "regression":
            return cls(numbers=y)
        labels = y.astype(int)
        return cls(labels, tuple(classes) or tuple(map(str, range(int(labels.max(initial=0)) + 1))))

    def goals(self, rows: Array, most: int) -> tuple[Goal, ...]:
        made = list[Goal]()
        if self.labels is not None:
            goal = Goal.of_classes(self.labels[rows], self.names, most)
            made.append(goal if self.numbers is None else replace(goal, things=(said("check.leaks.event"),)))
        if self.numbers is not None:
            made.append(Goal.of_numbers(self.numbers[rows], most))
        if self.numbers is not None and self.labels is not None:
            seen = np.flatnonzero(self.labels[rows] == 1)
            goal = Goal.of_numbers(self.numbers[rows][seen], most)
            made.append(replace(goal, rows=seen[goal.rows]))
        return tuple(made)


@dataclass(frozen=True, eq=False)
class _Place:
    """Rows that are looked at together: those of all sites, or of one; with what there is to tell of them."""

    site: str
    rows: Array
    goals: tuple[Goal, ...]
    labels: Array | None
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Places:
    """All rows, and the rows of sites by themselves; `whose` [row] says which site's each is."""

    everywhere: _Place
    sites: tuple[_Place, ...]
    whose: Array

    def having(self, filled: Array) -> Array:
        """[row] whether its site has any value of a column, which is filled in at [row]."""
        return np.asarray(np.bincount(self.whose, weights=filled)[self.whose] > 0)

    def varying(self, x: Array) -> Array:
        """[row] whether its site has several values of a column: the only one tells sites apart, and stands
        for empty nowhere.
        """
        low, high = np.full((2, int(self.whose.max(initial=0)) + 1), np.nan)
        np.fmin.at(low, self.whose, x)
        np.fmax.at(high, self.whose, x)
        return np.asarray((low < high)[self.whose])


def places(
    target: Target, whose: Array, sites: Sequence[str], columns: int, people: Array | None = None
) -> _Places:
    """Rows that `whose` gives to sites by their number. Where there are several, those with rows enough are
    looked at by themselves; of many, the largest. `people` [row] tells who each is about: rows
    that repeat a person, which say no more, are left out.
    """
    own_rows = np.arange(len(whose))
    if people is not None:  # a row each, drawn by chance, and one of each class that a person is of
        draw, labels = np.random.default_rng(0).permutation(len(people)), target.labels
        keys = people if labels is None else people * (int(labels.max(initial=0)) + 1) + labels
        own_rows = np.sort(draw[np.unique(keys[draw], return_index=True)[1]])
    most = 1_000_000 // (max(columns, 1) * max(len(target.names), 1))
    most = min(max(most, 10 * FEWEST), MOST_ROWS)

    def place(site: str, rows: Array) -> _Place:
        labels = None if target.labels is None else target.labels[rows]
        return _Place(site, rows, target.goals(rows, most), labels, target.names)

    own = [(name, own_rows[whose[own_rows] == i]) for i, name in enumerate(sites)] if len(sites) > 1 else []
    own = sorted((o for o in own if len(o[1]) >= FEWEST), key=lambda o: -len(o[1]))
    by_site = tuple(place(*o) for o in own[: max(LOOKS // max(columns, 1), 1)])
    return _Places(place("", own_rows), by_site, whose)


def by_site(people: Sequence[Array]) -> Array:
    """[row of all sites] who it is about, of each site's [row], counted from 0: a number is another person's
    at another site.
    """
    begins = np.cumsum([0, *(len(mine) for mine in people)])
    return np.concatenate([mine + begin for mine, begin in zip(people, begins, strict=False)])


def number_text(value: float) -> str:
    return f"{value:.6g}"


def leak_of(
    name: str,
    x: Array | None,
    filled: Array,
    found: _Places,
    category: bool = False,
    text: Text = number_text,
) -> Leak | None:
    """Whether a column leaks, and how that is seen best: over all rows, else at the site where it tells most.

    `x` [row] its numbers, NaN where unknown, each of which `text` names; None for one that has none, of which
    it is only known where it is filled in [row]. Rows of sites without any value of it tell sites apart, and
    are left out. A site's own score must be more than luck for a column that is as good as this one over all
    rows. Single values are looked at where no score says anything.
    """
    has, honest = found.having(filled), dict[tuple[str, str, str], float]()
    varied = None if x is None else found.varying(x)
    for group, most in (((found.everywhere,), LUCK), (found.sites, LUCK_OF_A_SITE)):
        leaks = list[Leak]()
        for place in group:
            told = list[Score]()
            if x is not None and varied is not None:
                told = _column_scores(x, has, varied, place, category, text)
            leaks += _gap_leaks(name, filled, has, place, most)
            for s in told:
                usual = honest.get((s.measure, s.thing, s.where), HONEST)
                if s.value >= s.enough and s.luck(usual) <= most:
                    how = said("check.leaks.predicts", thing=s.thing, where=s.where)
                    thing = said("list.joined", one=s.thing, other=s.where) if s.where else s.thing
                    leaks.append(Leak(name, how, thing, s.measure, s.value, s.rows, place.site))
            for s in told if place is found.everywhere else ():
                of = s.measure, s.thing, s.where  # NaN is no more than any
                honest[of] = float(min(np.fmax(honest.get(of, HONEST), s.value), MOST_HONEST))
        if x is not None and not leaks:
            leaks = [leak for p in group for leak in _value_leaks(name, x, has, p, category, text, most)]
        if leaks:
            return max(leaks, key=lambda leak: (not leak.measure, leak.score, leak.rows))
    return None


def _column_scores(
    x: Array, has: Array, varied: Array, place: _Place, category: bool, text: Text = number_text
) -> list[Score]:
    """Of everything that there is to tell at a place, by the rows that may; and, of columns with many values
    or words, by those apart from a common value, which may stand for empty. Each with what is too good of it.
    """
    x, has = x[place.rows], has[place.rows]
    many = len(counted_values(x)[0])
    few = category or many <= max(FEW_VALUES, len(place.names))
    common, told = common_value(x[varied[place.rows]]), list[Score]()
    for goal in place.goals:
        enough = TOO_WELL_OF_FEW if few and goal.measure == "AUC" else TOO_WELL[goal.measure]
        told += [replace(s, enough=enough) for s in scores(x, goal.within(has), category)]
        if many <= MOST_VALUES and not (category and goal.measure == "AUC"):
            continue  # without the middle of a few honest steps, the others tell more
        where: Saying | Literal[""] = ""
        if common is not None:
            where = said("check.leaks.other_than", value=text(common))
        others = scores(x, goal.within(has & differing(x, common)), category)
        told += [replace(s, enough=TOO_WELL[goal.measure], where=where) for s in others]
    return told


def _value_leaks(
    name: str, x: Array, has: Array, place: _Place, category: bool, text: Text, most: float
) -> list[Leak]:
    """Values that rows of one class hold alone, or that are cuts of a number."""
    here = has[place.rows]
    x, leaks = x[place.rows], list[Leak]()
    if place.labels is not None:
        alone = values_of_one_class(x[here], place.labels[here], category, text, most)
        for value, others, label, rows in alone:
            key = "check.leaks.value_other" if others else "check.leaks.value"
            how = said(key, value=value, label=place.names[label])
            leaks.append(Leak(name, how, said("check.leaks.target"), "", 1.0, rows, place.site))
    for goal in (goal.within(here) for goal in place.goals if goal.measure == "R²"):
        if cut := ranges_of_a_number(x, goal, text, most):
            leaks.append(Leak(name, cut, said("check.leaks.target"), "", 1.0, len(goal.rows), place.site))
    return leaks[:1]


def _gap_leaks(name: str, filled: Array, has: Array, place: _Place, most: float) -> list[Leak]:
    """Whether it is filled in tells the class, or the event: in rows of one alone it is, or is not; or nearly
    so in all rows.
    """
    rows = place.rows[has[place.rows]]
    if place.labels is None or filled[rows].all() or not filled[rows].any():
        return []
    here, y = filled[rows], place.labels[has[place.rows]]
    leaks = list[Leak]()
    for group, key in ((here, "check.leaks.filled"), (~here, "check.leaks.empty")):
        if (label := filled_for_one_class(group, y, most / 10)) is not None:
            how, thing = said(key, label=place.names[label]), said("check.leaks.target")
            leaks.append(Leak(name, how, thing, "", 1.0, int(group.sum()), place.site))
    if leaks:
        return leaks[:1]
    goal = place.goals[0].within(has[place.rows])
    for score in scores(filled[place.rows].astype(np.float64), goal):
        if score.value >= GAPS_TOO_WELL and score.luck(HONEST_GAPS) <= most:
            how = said("check.leaks.gaps", thing=score.thing)
            leaks.append(Leak(name, how, score.thing, score.measure, score.value, score.rows, place.site))
    return leaks


def alone(x: Array, y: Array, classes: int) -> float:
    """How well a column predicts the target by itself: the AUC of the class that it tells best, or R² of
    numbers; NaN where rows are too few.
    """
    target = Target(y.astype(int), tuple(map(str, range(classes)))) if classes else Target(numbers=y)
    rows = places(target, np.zeros(len(x), dtype=int), [""], 1).everywhere
    every = np.ones(len(x), dtype=bool)
    told = _column_scores(x, every, every, rows, False)
    return float(np.fmax.reduce([s.value for s in told if not s.where]))
