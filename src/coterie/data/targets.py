"""Whether numbers to be predicted are classes or numbers, where nobody said so: one rule for every door.

    fractions                                        numbers
    up to 20 different whole numbers                 classes
    more, in a column of a table                     numbers
    more, as an array of integers:
        all from 0 on without a gap, twice or more   classes: labels, counted as people count them
        with gaps, twice or more on average          a person decides: some labels of many, or scores
        else                                         numbers

All sites' values are looked at together, wherever they are at hand together. Whoever gives a task, classes,
or a column of categories has said so, and nothing is decided here.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.core.errors import BadData, CoterieWarning, option
from coterie.data.tables.texts import plain

FEW = 20  # different whole numbers that are taken for classes
SEVERAL = 2  # rows of a value that stand for a label

FRACTIONS = "fractions"

Kind = Literal["classes", "numbers", "either"]


class Decision(NamedTuple):
    kind: Kind
    why: str


def kind_of_numbers(values: Collection[float], rows: int, labels: bool = False) -> Decision:
    """Of the different values that a target has in so many rows; `labels`: an array of integers, not a column
    of a table.
    """
    found = np.unique(np.asarray(list(values), dtype=np.float64))
    many = len(found)
    if not is_whole(found):
        return Decision("numbers", FRACTIONS)
    if many <= FEW:
        return Decision("classes", f"{many} different whole numbers")
    why = f"{many} different whole numbers in {rows} rows"
    if not labels or rows < SEVERAL * many or found[0] < 0:
        return Decision("numbers", why)
    if found[0] == 0 and found[-1] == many - 1:
        return Decision("classes", f"all whole numbers from 0 to {many - 1}")
    return Decision("either", f"{why}, from {found[0]:g} to {found[-1]:g} with gaps")


def is_whole(found: npt.NDArray[np.float64]) -> bool:
    return bool((found == np.round(found)).all() and (np.abs(found) < 2**53).all())


def said_of(what: str, decision: Decision) -> str:
    """What was decided, and how to say otherwise."""
    if decision.kind == "classes":
        return (
            f"{what} taken as classes ({decision.why}); pass {option('task', 'regression', 'table')} if "
            "they are numbers to predict"
        )
    return (
        f"{what} taken as numbers to predict, a regression ({decision.why}); pass "
        f"{option('task', 'classification', 'table')} if they are classes"
    )


def asked_of(what: str, decision: Decision) -> str:
    """What a person has to decide."""
    one, other = (option("task", task, "table") for task in ("classification", "regression"))
    return f"{what} may be classes or numbers ({decision.why}): pass {one} or {other}"


def refuse_spellings(names: Sequence[str]) -> None:
    """Classes that differ in case or blanks alone are one class, written in several ways."""
    same = dict[str, list[str]]()
    for name in names:
        same.setdefault(plain(name), []).append(name)
    twins = [written for written in same.values() if len(written) > 1]
    if twins:
        shown = "; ".join(" and ".join(map(repr, written)) for written in twins)
        raise BadData(f"classes that differ in case or blanks alone: {shown}: write each in one way")


def apart_in_classes(owner: npt.NDArray[Any], y: npt.NDArray[Any], names: Sequence[str]) -> tuple[str, ...]:
    """A note, and a warning, of tables that have no class in common with any other: other words, perhaps."""
    each = {str(name): set(np.unique(y[owner == name]).tolist()) for name in dict.fromkeys(owner.tolist())}
    lone = [
        name
        for name, mine in each.items()
        if len(mine) > 1 and not mine & set().union(*(some for other, some in each.items() if other != name))
    ]
    if not lone or len(each) < 2 or len(names) > FEW:
        return ()
    said = "; ".join(f"{name} has {', '.join(names[c] for c in sorted(each[name]))}" for name in lone[:5])
    note = f"no class in common with any other table: {said}: are they other words for the same?"
    warnings.warn(note, CoterieWarning, stacklevel=5)
    return (note,)
