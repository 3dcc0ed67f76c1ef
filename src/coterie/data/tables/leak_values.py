"""Values of a column that give the target away where its scores do not: most rows hold one that stands for
empty (0, "none"), and what the others hold is seen in one class alone; or its values are cuts of a number.

A sign may be honest and strong. So it is held against one that is ten times as common in a class as outside
of it, which is what strong means of a diagnostic test: such a one must hardly do as well by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from coterie.data.intake import Array
from coterie.data.tables.alone import ENOUGH, Goal, class_goal, luck, scores

Text = Callable[[float], str]
FEW = 5  # rows, filled in for one class alone
FEW_OF_A_VALUE = 10  # rows that hold it
COMMON_SHARE = 0.2  # of known rows, which hold the value that may stand for empty
STRONG = 10.0  # how much more common an honest sign is in its class than outside of it
MOST_DRAWN = 1000  # rows: more make nothing likelier
MOST_VALUES = 20  # of a column that may be cuts of a number
SORTED = 50_000  # rows of a column, below: its values are sorted to be counted
HARDLY_OVERLAP = 0.99  # AUC of each value, told by the number: 1 % of pairs overlap
HONEST_CUT = 0.95
ANYWHERE = 0.7  # AUC of a value that stands for empty, told by the number: it is no step between others


def counted_values(x: Array) -> tuple[Array, Array]:
    """The known values in a column [row], and how many rows hold each: sorted where that takes less time than
    loading pandas, which counts many rows without sorting them.
    """
    known = x[~np.isnan(x)]
    if len(known) < SORTED:
        return np.unique(known, return_counts=True)
    import pandas as pd

    codes, values = pd.factorize(known)
    return values, np.bincount(codes, minlength=len(values))


def common_value(x: Array) -> float | None:
    """The value that most known rows hold, where it may stand for empty."""
    values, counts = counted_values(x)
    if len(values) < 2 or counts.max() < max(COMMON_SHARE * counts.sum(), ENOUGH):
        return None
    return float(values[counts == counts.max()].min())


def differing(x: Array, common: float | None) -> Array:
    """[row] where it is known, and other than that."""
    return np.zeros(len(x), dtype=bool) if common is None else ~np.isnan(x) & (x != common)


def filled_for_one_class(filled: Array, y: Array, most: float = 1e-3) -> int | None:
    """The class in whose rows alone a column is filled in, if it is one; `filled`, `y` [row]. It must not be
    most rows' class anyhow, and so many rows of it hardly luck: a chance of `most`.
    """
    many = int(filled.sum())
    if not FEW <= many < len(y):
        return None
    counts = np.bincount(y[filled], minlength=int(y.max()) + 1)
    label = int(counts.argmax())
    usual = float(np.mean(y == label))
    enough = counts[label] >= 0.98 * many and usual**many <= most
    return label if enough and usual < 0.85 else None


def values_of_one_class(
    x: Array, y: Array, category: bool, text: Text, most: float
) -> Iterator[tuple[str, int, int]]:
    """Values that rows of one class hold alone: a phrase behind "it is", the class, how many rows.

    Of numbers only the common value and all others count: the far ends of an honest measure are often one
    class's.
    """
    common, groups = common_value(x), dict[str, Array]()
    if common is not None:
        groups[f"other than {text(common)}"] = differing(x, common)
        groups[text(common)] = x == common
    if category:
        values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        groups |= {text(v): x == v for v in values[counts >= FEW_OF_A_VALUE]}
    for words, group in groups.items():
        label = filled_for_one_class(group, y, most / 10)
        if label is not None and strong_sign_luck(group, y == label) * len(groups) <= most:
            yield words, label, int(group.sum())


def strong_sign_luck(sign: Array, hit: Array) -> float:
    """The chance that a strong and honest sign [row] is as rarely wrong as this one; 1 for few rows."""
    many, usual = int(sign.sum()), float(hit.mean())
    if many < FEW_OF_A_VALUE:
        return 1.0
    right = STRONG * usual / (STRONG * usual + 1 - usual)
    n = min(many, MOST_DRAWN)
    wrong = round(n * float((~hit[sign]).mean()))
    return math.fsum(math.comb(n, k) * (1 - right) ** k * right ** (n - k) for k in range(wrong + 1))


def ranges_of_a_number(x: Array, goal: Goal, text: Text, most: float) -> str:
    """How a column's values, or its gaps, are cuts of a number that is to be predicted, behind "it"; nothing
    where they are not.
    """
    x, y = x[goal.rows], goal.y[:, 0]
    known, common = ~np.isnan(x), common_value(x)
    values, codes = np.unique(np.where(known, x, -np.inf), return_inverse=True)
    if len(values) <= MOST_VALUES and cuts(codes, y, most):
        return "has values that are ranges of the target"
    if common is not None:
        other = differing(x, common)
        if cuts(other.astype(int), y, most):
            return f"is other than {text(common)} only in a range of the target"
        by_chance = all(s.value < ANYWHERE for s in scores(y, class_goal(other.astype(int), ("", ""))))
        if by_chance and len(values) <= MOST_VALUES and cuts(codes[other & known], y[other & known], most):
            return f"has values other than {text(common)} that are ranges of the target"
    return "is filled in only in a range of the target" if cuts(known.astype(int), y, most) else ""


def cuts(codes: Array, y: Array, most: float) -> bool:
    """Whether a number tells each value, as rows of one are together in its order. Values of a few rows are
    passed over, where they are few rows altogether.
    """
    counts = np.bincount(codes)
    often = counts >= ENOUGH
    if often.sum() < 2 or counts[often].sum() < 0.95 * len(codes):
        return False
    kept = often[codes]
    labels = np.cumsum(often)[codes[kept]] - 1
    told = scores(y[kept], class_goal(labels, tuple(map(str, range(int(often.sum()))))))
    return all(s.value >= HARDLY_OVERLAP for s in told) and min(luck(s, HONEST_CUT) for s in told) <= most
