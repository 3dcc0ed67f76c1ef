"""What a column looked like in one client's own training rows: what new rows are held against later.

It holds single values of rows (the lowest, the highest). So it stays with the client's own model, in its run
and in its exported folder, and is in nothing that is sent to others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from coterie.data.intake import Array
    from coterie.data.preparation import Column

AT = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class TrainingRange:
    """Of the values that training rows had in a column.

    quantiles   of a number: lowest, quartiles and highest; none where no value was known
    codes       of a column with a list of values, the raw numbers of those that were there
    missing     the share of rows without a value
    """

    quantiles: tuple[float, ...] = ()
    codes: tuple[float, ...] = ()
    missing: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for what no rows can have been."""
        ordered = all(a <= b for a, b in zip(self.quantiles, self.quantiles[1:], strict=False))
        finite = all(map(math.isfinite, (*self.quantiles, *self.codes, self.missing)))
        if not finite or not ordered or len(self.quantiles) not in (0, len(AT)) or not 0 <= self.missing <= 1:
            raise ValueError("a range of training rows is none")

    @property
    def lowest(self) -> float:
        return self.quantiles[0]

    @property
    def median(self) -> float:
        return self.quantiles[2]

    @property
    def highest(self) -> float:
        return self.quantiles[-1]


def training_range(column: Column, values: Array) -> TrainingRange:
    """Of raw numbers [row], NaN where missing."""
    known = values[~np.isnan(values)]
    missing = 1 - len(known) / len(values) if len(values) else 0.0
    if column.kind != "number" or column.values:
        return TrainingRange(codes=tuple(float(c) for c in np.unique(known)), missing=missing)
    quantiles = np.quantile(known, AT, method="nearest") if len(known) else ()  # never beyond finite numbers
    return TrainingRange(tuple(map(float, quantiles)), missing=missing)


def training_range_of(entry: Mapping[str, Any] | None) -> TrainingRange | None:
    """From a file; None where it says nothing, as files of earlier versions."""
    if entry is None:
        return None
    codes, quantiles = (tuple(map(float, entry[key])) for key in ("codes", "quantiles"))
    return TrainingRange(quantiles, codes, float(entry["missing"]))
