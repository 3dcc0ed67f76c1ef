"""What new values of a column are held against: training's own rows, and what `coterie check` knows of it.

The bounds of `check` go by a column's name. They hold where training's own rows lie within them: a column
that is called weight may be a car's, or be standardised already. Where neither training's level nor the unit
is known they are not taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.data.intake import Array
from coterie.data.preparation import Column, Part
from coterie.data.quality.ranges import Match, Ranges, match
from coterie.data.quality.units import candidates, told_unit
from coterie.data.tables.units import Known, conversions_into
from coterie.data.training_range import TrainingRange

QUARTILE = 0.6745  # deviations of a normal distribution
WORDS = {"in": "inches"}  # that a unit is called in a sentence


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
        """Where values are expected."""
        if self.training is not None and self.training.quantiles:
            return self.training.lowest, self.training.highest
        return None if self.body is None else self.body.range.plausible

    def written(self, value: float) -> str:
        """A value with its name, and its unit where somebody told it."""
        unit = told_unit(self.column)
        return f"{self.column.name} {self.column.text(value)}{f' {unit}' if unit else ''}"

    def limits(self, possible: bool) -> str:
        """The bounds of a body, as people write them."""
        assert self.body is not None
        low, high = self.body.range.possible if possible else self.body.range.plausible
        return f"{low:.6g} to {high:.6g} {self.body.unit}".rstrip()

    def in_another_unit(self, value: float) -> str:
        """What a value would be, if another unit brings it to where values are expected; else nothing."""
        if self.span is None:
            return ""
        low, high = self.span
        middle = (low + high) / 2
        fits = [k for k in self.units if low <= k.by(value) <= high]
        if not fits:
            return ""
        best = min(fits, key=lambda k: abs(k.by(value) - middle))
        return f", in {unit_word(best.there)} it would be {best.by(value):.4g} {best.here}"


def bounds_of(part: Part, ranges: Ranges) -> Bounds:
    column, usual = part.column, usual_values(part)
    body = match(column, usual, ranges)
    if body is not None and not fits(body, usual):
        body = None
    if column.kind != "number" or column.values:
        return Bounds(part, None, ())
    unit = told_unit(column) if body is None else body.unit
    known = dict.fromkeys([*candidates(column, ranges), *conversions_into(unit)])
    return Bounds(part, body, tuple(k for k in known if k.here == unit or not unit))


def fits(body: Match, usual: Array) -> bool:
    """Whether a column is the one that bounds are for: training's rows lie within, or its unit is told."""
    if not len(usual):
        return not body.guessed
    lowest, highest = body.range.possible
    return bool(lowest <= usual.min() and usual.max() <= highest)


def usual_values(part: Part) -> Array:
    """Training's quartiles; where they are not recorded, what else is known of training's level."""
    column, training = part.column, part.training
    if training is not None and training.quantiles:
        return np.array(training.quantiles[1:4])
    if (column.center, column.spread) != (0.0, 1.0):
        return column.center + column.spread * QUARTILE * np.array([-1.0, 0.0, 1.0])
    return np.array([] if part.fill is None else [part.fill])


def unit_word(unit: str) -> str:
    return WORDS.get(unit, unit)
