"""What is to be predicted: the column of the target and, where that is a time, of the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from coterie.core.errors import BadData, BadInput, Several, UnknownName
from coterie.data.tables.kinds import Found
from coterie.data.tables.match import Group
from coterie.data.tables.merged import Merged
from coterie.data.tables.read import Table
from coterie.data.tables.rules import Recipe
from coterie.data.tables.texts import plain, same, some
from coterie.data.targets import is_whole, kind_of_numbers

NOT_CLASSES = {"regression": "use task=classification", "survival": "name the column of times"}
REGRESSION = "a number to predict: a regression"
SAID = {"survival": "the time until the event, or until a row was last seen: a survival"}


def timed(target: str, event: str, task: str) -> str:
    """The task that the target is looked at by, where there is an event."""
    if not target:
        raise BadInput(f"event {event!r} without a time: name the column of times as the target too")
    if plain(target) == plain(event):
        raise BadInput(f"{event!r} is the target and the event: name the time and the event apart")
    if task != "auto":
        raise BadInput(f"task={task} and an event, which makes a survival: leave one out")
    return "survival"


def goal_of(
    groups: Sequence[Group], target: str, tables: Mapping[str, Table], what: str = "the target"
) -> Group | None:
    if not target:
        return None
    named = [
        g
        for g in groups
        if plain(g.name) == plain(target) or plain(target) in {plain(h) for h in g.headers.values()}
    ]
    if not named:
        raise UnknownName("column", target, sorted({g.name for g in groups}))
    lacking = [t.name for s, t in tables.items() if s not in named[0].headers]
    if lacking:
        raise Several(
            [f"{name}: column {named[0].name!r}, {what}, is missing: add or rename it" for name in lacking]
        )
    return named[0]


def check_goal(
    recipe: Recipe,
    pairs: Sequence[tuple[Group, Merged]],
    goal: Group,
    looks: Mapping[str, Mapping[str, Found]],
    tables: Mapping[str, Table],
    task: str,
) -> Recipe:
    """A target that can be learned; whether rows lack it."""
    merged = next(m for g, m in pairs if g is goal)
    where = ", ".join(t.name for t in tables.values())
    founds = [looks[s][h] for s, h in goal.headers.items()]
    values = {same(c) for f in founds for c in f.values}
    if not values or merged.kind in ("constant", "empty"):
        if len(values) > 1:
            different = some(sorted(values))
            raise BadData(
                f"{where}: target {goal.name!r} is the same in all rows of each site ({different}): nothing "
                "to learn within a site"
            )
        only = next(iter(values), "missing")
        raise BadData(f"{where}: target {goal.name!r} is {only} in every row: nothing to learn")
    if not merged.rule.read:
        raise BadData(
            f"{where}: target {goal.name!r} looks like {merged.kind} ({len(values)} different values): name "
            "a column of classes or numbers"
        )
    if task in NOT_CLASSES and merged.rule.use != "number":
        raise BadData(f"{where}: target {goal.name!r} is not a number: {NOT_CLASSES[task]}")
    why = reason_of(merged, founds, task)
    decimals = sorted({str(c) for f in founds for c in f.values if str(c).endswith(".0")})
    if merged.rule.values and decimals:
        merged.says.append(f"classes, though written as {some(decimals)}: not a regression")
    elif merged.rule.use == "number":
        merged.says.append(
            SAID.get(task, f"a number to predict: a regression ({why})" if why else REGRESSION)
        )
    elif why and len(merged.rule.values) > 2:
        merged.says.append(f'taken as classes ({why}); if they are numbers to predict, write use = "number"')
    return without_gaps(recipe, merged, goal, looks, "target")


def reason_of(merged: Merged, founds: Sequence[Found], task: str) -> str:
    """Why whole numbers were taken as they were, where nobody said what they are."""
    numbers = np.concatenate([f.values.numbers() for f in founds])
    if task != "auto" or np.isnan(numbers).any() or not is_whole(numbers):
        return ""
    return kind_of_numbers(numbers, sum(f.known for f in founds)).why


def check_event(
    recipe: Recipe,
    pairs: Sequence[tuple[Group, Merged]],
    event: Group,
    looks: Mapping[str, Mapping[str, Found]],
    tables: Mapping[str, Table],
) -> Recipe:
    """An event that was seen or not; whether rows lack it."""
    merged = next(m for g, m in pairs if g is event)
    if merged.rule.use != "flag":
        words = merged.rule.values
        if len(words) != 2:
            where = ", ".join(t.name for t in tables.values())
            raise BadData(
                f"{where}: event {event.name!r} looks like {merged.kind}: name a column of two values, one "
                "for rows whose event was seen"
            )
        merged.rule = replace(merged.rule, use="flag")
        merged.asks.append(
            f"is it {words[1]!r} where the event was seen, and {words[0]!r} else? Or exchange values"
        )
    merged.says.append(f"the event was seen where it is {merged.rule.values[1]!r}")
    return without_gaps(recipe, merged, event, looks, "event")


def without_gaps(
    recipe: Recipe, merged: Merged, goal: Group, looks: Mapping[str, Mapping[str, Found]], what: str
) -> Recipe:
    """Rows without a target are a question."""
    gaps = {s: looks[s][h].rows - looks[s][h].known for s, h in goal.headers.items()}
    if total := sum(gaps.values()):
        by_site = ", ".join(f"{s} {n}" for s, n in gaps.items() if n)
        merged.asks.append(
            f'the {what} is missing in {total} row(s) ({by_site}): they are left out, unlabelled = "drop"'
        )
        return replace(recipe, unlabelled="drop")
    return recipe
