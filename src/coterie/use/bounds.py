"""What new values of a column are held against: training's own rows, and what `coterie check` knows of it.

The bounds of `check` go by a column's name. They hold where training's own rows lie within them: a column
that is called weight may be a car's, or be standardised already. Where neither training's level nor the unit
is known they are not taken. Bounds of the user's own always hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.data.intake import Array
from coterie.data.preparation import Column, Part, TrainingRange
from coterie.data.quality.ranges import Match, Ranges, match, shipped
from coterie.data.quality.units import candidates, range_for, told_unit
from coterie.data.tables.names import Known, conversions_into

QUARTILE = 0.6745  # deviations of a normal distribution
MOST = 1e12  # that people write without a power of ten
WORDS = {"in": "inches", "fraction": "fractions"}  # that a unit is called in a sentence


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of one column that a model reads.

    body    what a body can have, in the column's unit; None where that is not known of it
    units   other units that values may be in by mistake
    """

    part: Part
    body: Match | None
    units: tuple[Known, ...]

    @property
    def column(self) -> Column:
        return self.part.column

    @property
    def training(self) -> TrainingRange | None:
        return self.part.training

    @property
    def span(self) -> tuple[float, float] | None:
        if self.training is not None and self.training.quantiles:
            return self.training.lowest, self.training.highest
        return None if self.body is None else self.body.range.plausible

    def written(self, value: float) -> str:
        """A value with its name, and its unit where somebody told it."""
        unit = told_unit(self.column)
        return f"{self.column.name} {value_text(self.column, value)}{f' {unit}' if unit else ''}"

    def limits(self, possible: bool) -> str:
        assert self.body is not None
        low, high = self.body.range.possible if possible else self.body.range.plausible
        return f"{_figure(low)} to {_figure(high)} {self.body.unit}".rstrip()

    def in_another_unit(self, value: float) -> str:
        """What a value would be, if another unit brings it to where values are expected; else nothing."""
        if self.span is None:
            return ""
        low, high = self.span
        if self.body is not None:
            low, high = max(low, self.body.range.possible[0]), min(high, self.body.range.possible[1])
        near = [k for k in self.units if low <= k.by(value) <= high]
        if not near:
            return ""
        best = min(near, key=lambda k: abs(k.by(value) - (low + high) / 2))
        return f", in {unit_word(best.there)} it would be {best.by(value):.4g} {best.here}"


def bounds_of(part: Part, ranges: Ranges) -> Bounds:
    column, usual = part.column, _usual_values(part)
    body = match(column, usual, ranges)
    own = range_for(column, ranges) is not range_for(column, shipped())
    if body is not None and not own and not _fits(body, part, usual):
        body = None
    if not column.quantity:
        return Bounds(part, None, ())
    unit = told_unit(column) if body is None else body.unit
    known = dict.fromkeys([*candidates(column, ranges), *conversions_into(unit)])
    return Bounds(part, body, tuple(k for k in known if k.here == unit or not unit))


def _fits(body: Match, part: Part, usual: Array) -> bool:
    """Whether a column is the one that bounds are for: training's rows lie within, but for a few that are far
    from the others; where nothing is known of them, its unit is told.
    """
    if not len(usual):
        return not body.guessed
    (lowest, highest), (low, high) = body.range.possible, (usual.min(), usual.max())
    if part.training is not None and part.training.quantiles:
        reach = high - low
        low = low if part.training.lowest >= lowest else low - reach
        high = high if part.training.highest <= highest else high + reach
    return bool(lowest <= low and high <= highest)


def _usual_values(part: Part) -> Array:
    """Training's quartiles; where they are not recorded, what else is known of training's level."""
    column, training = part.column, part.training
    if training is not None and training.quantiles:
        return np.array(training.quantiles[1:4])
    if (column.center, column.spread) != (0.0, 1.0):
        return column.center + column.spread * QUARTILE * np.array([-1.0, 0.0, 1.0])
    return np.array([] if part.fill is None else [part.fill])


def value_text(column: Column, value: float) -> str:
    """A raw value of a column without a list of values, as people write it."""
    return _figure(value) if column.scaled else column.text(value)


def _figure(value: float) -> str:
    """Six digits, and no power of ten for what people count: 1234567 platelets."""
    text = f"{value:.6g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < MOST else text


def unit_word(unit: str) -> str:
    return WORDS.get(unit, unit)
