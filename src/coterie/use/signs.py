"""Signs that a whole column of new rows is not what training had: no value, few values, another unit.

A column's median is held against training's, in spreads s of training's rows (1.35 s lie between their
quartiles), on the scale of the logarithm where all values are above 0:

    apart      the distance d is large (d > 2), or the median lies outside of training's range
    a unit     and a conversion brings the medians together (below d / 3, and below 1.2 s)

Nothing is converted: a person decides. Of one or two rows nothing is said as a whole; each is held against
training's range by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.data.intake import Array
from coterie.data.quality.finding import number, percent
from coterie.data.quality.units import BETTER, CLOSE, FEWEST_ROWS, LOG, PLAIN, Scale, scale_of
from coterie.data.tables.units import Known
from coterie.use.bounds import Bounds, unit_word

APART = 2.0  # spreads between training's rows and new ones
BETWEEN_QUARTILES = 1.349  # spreads


class Sign(NamedTuple):
    """Of one column: what is said once, what each row with a value in it gets, and whether it is a unit."""

    says: str
    mark: str = ""
    of_unit: bool = False


def sign_of(bounds: Bounds, values: Array) -> Sign | None:
    """Of new values [row], NaN where missing."""
    known = values[np.isfinite(values)]
    if 2 * len(known) <= len(values):
        return sign_of_gaps(bounds, len(known), len(values))
    training = bounds.training
    if len(known) < FEWEST_ROWS or training is None or not training.quantiles:
        return None
    before = distance(bounds, known, PLAIN if min(known.min(), training.lowest) <= 0 else LOG)
    if before <= APART and training.lowest <= np.median(known) <= training.highest:
        return None
    return sign_of_unit(bounds, known) or sign_of_shift(bounds, known)


def sign_of_gaps(bounds: Bounds, known: int, rows: int) -> Sign | None:
    """Of a column with a value in no row, or in at most half of them, where training had more."""
    name, fill, training = bounds.column.name, bounds.part.fill, bounds.training
    taken = "" if fill is None else f": taken as {bounds.column.text(fill)}"
    if not known:
        where = "the row" if rows == 1 else f"any of {rows} rows"
        return Sign(f"{name} has no value in {where}{taken}")
    share = 1 - known / rows
    if training is None or training.missing > share / 2:
        return None
    usual = percent(training.missing)
    return Sign(f"{name} is missing in {rows - known} of {rows} rows, in training in {usual}{taken}")


def sign_of_unit(bounds: Bounds, known: Array) -> Sign | None:
    """Of a column that lies as training's did once it is converted from another unit."""
    tried = list[tuple[float, Known]]()
    for unit in bounds.units:
        scale, converted = scale_of(unit.by), unit.by.factor * known + unit.by.offset
        before, after = (distance(bounds, values, scale) for values in (known, converted))
        if after < CLOSE and after < BETTER * before:
            tried.append((after, unit))
    if not tried:
        return None
    _, unit = min(tried, key=lambda pair: pair[0])
    word, median = unit_word(unit.there), float(np.median(known))
    then = f"{unit.by(median):.4g} {unit.here}"
    return Sign(
        f"{against(bounds, median)}: in {word}? That would be {then}: if so, convert the column",
        f"{bounds.column.name} in {word}, by the whole column?",
        of_unit=True,
    )


def sign_of_shift(bounds: Bounds, known: Array) -> Sign:
    """Of a column that lies apart from training's, whatever the reason."""
    return Sign(
        f"{against(bounds, float(np.median(known)))}: another unit, or other patients?",
        f"{bounds.column.name} apart from training as a whole column",
    )


def against(bounds: Bounds, median: float) -> str:
    """A column's median and training's, and how many times as much it is."""
    training = bounds.training
    assert training is not None
    times = median / training.median if min(median, training.median) > 0 else 0.0
    ratio = f", {number(float(f'{times:.2g}'))} times as much" if times else ""
    return f"{bounds.column.name} has a median of {median:.4g}, training's is {training.median:.4g}{ratio}"


def distance(bounds: Bounds, values: Array, scale: Scale) -> float:
    """Of the median of values from training's, in spreads of the latter; infinite without a logarithm, and 0
    where half of training's values are one: then its range alone tells.
    """
    assert bounds.training is not None
    levels = np.array([*bounds.training.quantiles[1:4], np.median(values)])
    if scale is LOG and levels.min() <= 0:
        return float("inf")
    low, middle, high, median = scale.of(levels)
    spread, apart = float(high - low) / BETWEEN_QUARTILES, float(abs(median - middle))
    return apart / spread if spread else 0.0
