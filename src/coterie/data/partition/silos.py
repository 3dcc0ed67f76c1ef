"""Real silos: one client for each value of a column, such as the hospital that took the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.columns import column_of, refuse_other_count
from coterie.data.partition.counts import some

NATURAL = "hospital"  # the column that is a silo by itself in the bundled data


@SPLITS.register("silos")
@dataclass(frozen=True)
class Silos:
    """One client for each value of a column, called by that value; rows without a value are nobody's.

    column    the column to go by; if left out, `hospital` where there is one
    minimum   training rows that a silo needs
    small     a silo with fewer: refuse it, or drop its rows
    """

    column: str = ""
    minimum: int = 10
    small: Literal["refuse", "drop"] = "refuse"

    def __post_init__(self) -> None:
        if self.minimum < 2:
            raise BadInput(
                f"split silos: minimum={self.minimum} must be at least 2, "
                "one row to train and one to test: try 10"
            )
        if self.small not in ("refuse", "drop"):
            raise UnknownName("rule for small silos", self.small, ("refuse", "drop"))

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        column = self.column or self.natural(data)
        sizes = column_of("silos", data, data.train, column).map(text_of).value_counts()
        if (few := sizes[sizes < self.minimum].sort_index()).size and self.small == "refuse":
            raise BadInput(
                f"split silos: {column} {few.index[0]!r} has {few.iloc[0]} training rows, at least "
                f"{self.minimum} are needed: set small=drop to leave such silos out, or lower minimum"
            )
        names = tuple(sorted(sizes[sizes >= self.minimum].index, key=in_order))
        if not names:
            raise BadInput(
                f"split silos: no value of {column} has {self.minimum} training rows; the largest has "
                f"{sizes.max() if len(sizes) else 0}: lower minimum or choose another column"
            )
        refuse_other_count("silos", clients, names)
        found = column_of("silos", data, pool, column).map(text_of)
        owner = found.map({name: i for i, name in enumerate(names)}).fillna(-1).to_numpy(dtype=np.int64)
        why = f"{column} is missing or not among the clients"
        if few.size:
            small = some([f"{name} ({n})" for name, n in few.items()])
            why += f"; left out for fewer than {self.minimum} training rows: {small}"
        return Deal(owner, names, notes=notes_on(owner, names, why))

    def natural(self, data: Dataset) -> str:
        columns = [] if data.train.frame is None else [str(c) for c in data.train.frame.columns]
        if columns and NATURAL not in columns:
            raise BadInput(
                f"split silos needs a column of {data.name} to go by: name one of {', '.join(columns)}"
            )
        return NATURAL


def text_of(value: object) -> str | None:
    """A value as a client's name: 3.0 is '3'; a missing one is None."""
    if pd.isna(value):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_order(name: str) -> tuple[float, str]:
    """Numbers by size, before words by letter."""
    try:
        return float(name), name
    except ValueError:
        return float("inf"), name
