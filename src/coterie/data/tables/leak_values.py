"""How well one column tells a target by itself, from its values and no scale, unit or order of codes.

Two ways are tried, and the better one counts; the first, which is exact, where they are as good:

    in order      AUC of the values as they are, over all rows, ties counting half, whichever way they point;
                  of numbers to predict, the squared rank correlation
    neighbours    each row is guessed by the rows of the other half whose values are the same, or nearest: so
                  that a range in the middle, or codes in any order, tell what they tell

There are no bins, which would merge a zero with what is just above it. Half of the rows are guessed by the
other: what is told of a row is never made of its own target. A score is remarkable only where one that is
strong and honest would hardly reach it by chance with so many rows (`luck`).

Single values may give the target away where scores do not: most rows hold one that stands for empty (0,
"none"), and what the others hold is seen in one class alone; or a column's values are cuts of a number. A
sign may be honest and strong. So it is held against one that is ten times as common in a class as outside of
it, which is what strong means of a diagnostic test: such a one must hardly do as well by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from coterie.data.intake import Array
from coterie.show.words import Saying, said

Measure = Literal["AUC", "R²"]
MOST_ROWS = 5000  # that are looked at: more tell the same, later
FEWEST = 40  # rows that are known
ENOUGH = 10  # rows that share a value, before half of them may guess the other half
NEAREST = 5  # rows that guess one, where none share its value
AS_GOOD = 0.005  # two scores
HOPELESS = 0.9  # a score that no further rows make remarkable
DRAWS = (500, 10_000)  # of honest columns: a few show what is common, and only many what is rare
COMMON = 0.02
PAIRS = 6400  # of rows of two classes, in a draw


@dataclass(frozen=True, eq=False)
class Goal:
    """What a column may tell of some rows.

    rows      [n] which of them are looked at
    y         [n, thing] 0 or 1 for a class or an event; or a number and its rank
    things    what each is called
    half      [n] which half of the rows each is in, with as many of each class in both
    """

    measure: Measure
    rows: Array
    y: Array
    things: tuple[Saying, ...]
    half: Array

    @classmethod
    def of_classes(cls, y: Array, names: Sequence[str], most: int = MOST_ROWS) -> Goal:
        """Classes [row], each against all others; of two, the second. Many rows of a class are thinned out,
        which changes no AUC but by chance, so that a rare class keeps its rows.
        """
        draw = np.random.default_rng(0)
        each, whole = max(most // max(len(names), 1), 2 * FEWEST), np.arange(len(y))
        some = [draw.permutation(whole[y == label])[:each] for label in range(len(names))]
        rows = np.sort(np.concatenate(some)) if some else whole
        labels = range(len(names)) if len(names) > 2 else [1]
        hits = np.column_stack([y[rows] == label for label in labels]).astype(np.float64)
        things = [said("check.leaks.target")]
        if len(names) > 2:
            things = [said("check.leaks.that_target", label=names[label]) for label in labels]
        return cls("AUC", rows, hits, tuple(things), _halves(y[rows], draw))

    @classmethod
    def of_numbers(cls, y: Array, most: int = MOST_ROWS) -> Goal:
        """Numbers [row], and their ranks, of which a copy on another scale says as much."""
        draw = np.random.default_rng(0)
        rows = np.sort(draw.permutation(len(y))[:most])
        both = np.column_stack([y[rows], ranks(y[rows])])
        return cls("R²", rows, both, (said("check.leaks.target"),) * 2, _halves(y[rows], draw))

    def within(self, which: Array) -> Goal:
        """Of these rows alone, which are marked [row]."""
        if which.all():
            return self
        kept = which[self.rows]
        return replace(self, rows=self.rows[kept], y=self.y[kept], half=self.half[kept])


@dataclass(frozen=True)
class Score:
    """How well a thing is told, and by how many rows; for an AUC, how many rows it is true of.

    enough    what is too good of it
    where     which rows it is of, if not all
    """

    measure: Measure
    value: float
    thing: Saying
    rows: int
    hits: int = 0
    enough: float = math.inf
    where: Saying | Literal[""] = ""

    def luck(self, honest: float) -> float:
        """The chance that a column whose true score is `honest` reaches this one with so many rows: of an AUC
        by drawing such columns, two normal distributions as far apart; of R² by Fisher's z of its root.
        """
        if self.measure == "AUC":
            few, many = sorted((self.hits, self.rows - self.hits))
            if few < 2:
                return 1.0
            level, few = min(math.ceil(100 * honest) / 100, 0.99), _rounded_down(min(few, math.isqrt(PAIRS)))
            share, many = 1.0, _rounded_down(min(many, PAIRS // few))
            for draws in DRAWS:
                share = float(np.mean(_honest_aucs(level, few, many, draws) >= self.value))
                if share > COMMON:
                    break
            return share
        reached = min(max(self.value, 0.0), 1 - 1e-9)
        apart = math.atanh(math.sqrt(reached)) - math.atanh(math.sqrt(honest))
        z = apart * math.sqrt(max(self.rows - 3, 0))
        return 1 - NormalDist().cdf(z)


def _halves(y: Array, draw: np.random.Generator) -> Array:
    """[row] of which half it is: every other one of rows in the order of y."""
    half = np.zeros(len(y), dtype=bool)
    half[np.lexsort((draw.random(len(y)), y))[::2]] = True
    return half


def scores(x: Array, goal: Goal, category: bool = False) -> list[Score]:
    """[thing] by a column [row], NaN where it is not known; NaN scores where known rows are too few.

    A column that is known in some rows only is looked at there; and in all rows, with its gaps as a value.
    """
    x = x[goal.rows]
    known = ~np.isnan(x)
    found = _scores(x[known], goal, known, category)
    if known.all():
        return found
    with_gaps = _scores(np.where(known, x, -np.inf), goal, np.ones(len(x), dtype=bool), category)
    pairs = zip(found, with_gaps, strict=True)
    return [b if math.isnan(a.value) or b.value > a.value else a for a, b in pairs]


def _scores(x: Array, goal: Goal, where: Array, category: bool) -> list[Score]:
    """Of values without gaps, at the rows that have them."""
    y, half = goal.y[where], goal.half[where]
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    told = np.full(y.shape[1], math.nan)
    if len(x) >= FEWEST and len(values) > 1:
        if not category:  # a value of few rows may be one patient's, and would tell its other rows
            half = np.where(counts[inverse] < ENOUGH, half[first][inverse], half)
        told = _by_neighbours(inverse, y, half, category, _aucs if goal.measure == "AUC" else _explained)
        if not category:
            exact = _in_order((np.cumsum(counts) - (counts - 1) / 2)[inverse], y, goal.measure)
            told = np.where(told > exact + AS_GOOD, told, exact)
    hits = y.sum(axis=0).astype(int) if goal.measure == "AUC" else np.zeros(y.shape[1], dtype=int)
    each = zip(told.tolist(), goal.things, hits.tolist(), strict=True)
    return [Score(goal.measure, value, thing, len(x), many) for value, thing, many in each]


def _in_order(place: Array, y: Array, measure: Measure) -> Array:
    """[thing] by the ranks of values [row] alone, whichever way they point."""
    if measure == "AUC":
        told = _auc_of_ranks(place, y)
        return np.asarray(np.maximum(told, 1 - told))
    columns = [(column, ranks(column)) for column in y.T]
    return np.array([np.corrcoef(place, r)[0, 1] ** 2 if np.ptp(column) else 0.0 for column, r in columns])


def _by_neighbours(
    x: Array, y: Array, half: Array, category: bool, figure: Callable[[Array, Array], Array]
) -> Array:
    """[thing] how well each half of the rows is guessed by the other; where the first half is not guessed
    well, the second would not change that.
    """
    guess = _neighbours(x, y, half, category)
    told = figure(guess, y[half])
    if not np.any(told > HOPELESS):
        return told
    both = np.empty_like(y)
    both[half], both[~half] = guess, _neighbours(x, y, ~half, category)
    return figure(both, y)


def _neighbours(x: Array, y: Array, here: Array, category: bool) -> Array:
    """[row of here, thing] the mean of y over the other rows with the same value, drawn a little to that of
    all; where these are few and values have an order, over the nearest rows too.
    """
    order = np.argsort(x[~here], kind="stable")
    sums = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y[~here][order], axis=0)])
    known = x[~here][order]
    low, high = (np.searchsorted(known, x[here], side) for side in ("left", "right"))
    if not category:
        more = np.maximum(NEAREST - (high - low) + 1, 0) // 2
        low, high = np.maximum(low - more, 0), np.minimum(high + more, len(known))
    return np.asarray((sums[high] - sums[low] + y[~here].mean(axis=0)) / (high - low + 1)[:, None])


def ranks(values: Array) -> Array:
    """[row] from 1; those that tie share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def auc(score: Array, hit: Array) -> float:
    """The chance that a hit scores above one that is none, ties counting half."""
    return float(_auc_of_ranks(ranks(score), hit[:, None].astype(np.float64))[0])


def _aucs(score: Array, hits: Array) -> Array:
    """[thing] of scores and hits [row, thing]."""
    return np.array([_auc_of_ranks(ranks(s), h[:, None])[0] for s, h in zip(score.T, hits.T, strict=True)])


def _auc_of_ranks(place: Array, hits: Array) -> Array:
    """[thing] by ranks [row] and hits [row, thing]; NaN where all or none are hits."""
    many = hits.sum(axis=0)
    pairs = many * (len(hits) - many)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(pairs > 0, (place @ hits - many * (many + 1) / 2) / pairs, math.nan))


def _explained(guess: Array, y: Array) -> Array:
    """[thing] the share of the variance of y [row, thing]; 0 where there is none."""
    whole = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    left = ((y - guess) ** 2).sum(axis=0)
    return np.where(whole > 0, 1 - left / np.where(whole > 0, whole, 1.0), 0.0)


def _rounded_down(rows: int) -> int:
    """To 30 and less, or to two digits: fewer rows leave more to luck, and draws serve several columns."""
    step = 10 ** max(len(str(rows)) - 2, 0) if rows >= 100 else 10
    return rows if rows <= 30 else rows // step * step


@lru_cache(maxsize=64)
def _honest_aucs(honest: float, few: int, many: int, draws: int) -> Array:
    """[draw] AUCs of columns whose true one is `honest`, with so many rows of each class."""
    draw = np.random.default_rng(0)
    apart = math.sqrt(2) * NormalDist().inv_cdf(honest)
    hits = draw.normal(apart, size=(draws, few, 1)).astype(np.float32)
    others = draw.normal(size=(draws, 1, many)).astype(np.float32)
    step = max(10**7 // (few * many), 1)
    parts = [(hits[i : i + step] > others[i : i + step]).mean(axis=(1, 2)) for i in range(0, draws, step)]
    return np.concatenate(parts)


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
) -> Iterator[tuple[str, bool, int, int]]:
    """Values that rows of one class hold alone: the value, whether all others are meant, the class, how many
    rows.

    Of numbers only the common value and all others count: the far ends of an honest measure are often one
    class's.
    """
    common, groups = common_value(x), dict[tuple[str, bool], Array]()
    if common is not None:
        groups[text(common), True] = differing(x, common)
        groups[text(common), False] = x == common
    if category:
        values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        groups |= {(text(v), False): x == v for v in values[counts >= FEW_OF_A_VALUE]}
    for (value, others), group in groups.items():
        label = filled_for_one_class(group, y, most / 10)
        if label is not None and _strong_sign_luck(group, y == label) * len(groups) <= most:
            yield value, others, label, int(group.sum())


def _strong_sign_luck(sign: Array, hit: Array) -> float:
    """The chance that a strong and honest sign [row] is as rarely wrong as this one; 1 for few rows."""
    many, usual = int(sign.sum()), float(hit.mean())
    if many < FEW_OF_A_VALUE:
        return 1.0
    right = STRONG * usual / (STRONG * usual + 1 - usual)
    n = min(many, MOST_DRAWN)
    wrong = round(n * float((~hit[sign]).mean()))
    return math.fsum(math.comb(n, k) * (1 - right) ** k * right ** (n - k) for k in range(wrong + 1))


def ranges_of_a_number(x: Array, goal: Goal, text: Text, most: float) -> Saying | None:
    """How a column's values, or its gaps, are cuts of a number that is to be predicted, behind "it"; nothing
    where they are not.
    """
    x, y = x[goal.rows], goal.y[:, 0]
    known, common = ~np.isnan(x), common_value(x)
    values, codes = np.unique(np.where(known, x, -np.inf), return_inverse=True)
    if len(values) <= MOST_VALUES and _cuts(codes, y, most):
        return said("check.leaks.ranges")
    if common is not None:
        other = differing(x, common)
        if _cuts(other.astype(int), y, most):
            return said("check.leaks.ranges_other", value=text(common))
        by_chance = all(s.value < ANYWHERE for s in scores(y, Goal.of_classes(other.astype(int), ("", ""))))
        if by_chance and len(values) <= MOST_VALUES and _cuts(codes[other & known], y[other & known], most):
            return said("check.leaks.ranges_values", value=text(common))
    return said("check.leaks.ranges_filled") if _cuts(known.astype(int), y, most) else None


def _cuts(codes: Array, y: Array, most: float) -> bool:
    """Whether a number tells each value, as rows of one are together in its order. Values of a few rows are
    passed over, where they are few rows altogether.
    """
    counts = np.bincount(codes)
    often = counts >= ENOUGH
    if often.sum() < 2 or counts[often].sum() < 0.95 * len(codes):
        return False
    kept = often[codes]
    labels = np.cumsum(often)[codes[kept]] - 1
    told = scores(y[kept], Goal.of_classes(labels, tuple(map(str, range(int(often.sum()))))))
    return all(s.value >= HARDLY_OVERLAP for s in told) and min(s.luck(HONEST_CUT) for s in told) <= most
