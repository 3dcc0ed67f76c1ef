"""Real silos: one client for each value of a column, such as the hospital that took the record."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadInput, option
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal, column_of, refuse_other_count
from coterie.data.partition.counts import check_minimum
from coterie.data.tables.texts import some

LEAST = 2  # one row to train and one to test
NATURAL = "hospital"  # the column that is a silo by itself in the bundled data


@SPLITS.register("silos")
@dataclass(frozen=True)
class Silos:
    """One client for each value of a column, called by that value; rows without a value are nobody's.

    column    the column to go by; if left out, the data's own, or `hospital` where there is one
    minimum   training rows that a silo needs
    small     a silo with fewer: refuse it, or drop its rows
    """

    column: str = ""
    minimum: int = 10
    small: Literal["refuse", "drop"] = "refuse"

    def __post_init__(self) -> None:
        check_minimum("silos", self.minimum)
        check_choice("rule for small silos", self.small, ("refuse", "drop"))

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        column, sizes = self.sizes(data)
        few = sorted((name, n) for name, n in sizes.items() if n < self.minimum)
        if few and self.small == "refuse":
            (first, rows), *others = few
            more = "".join(f", {name!r} {n}" for name, n in others)
            lower = f" to {least}" if (least := min(n for _, n in few)) >= LEAST else ""
            raise BadInput(
                f"split silos: {column} {first!r} has {rows} training rows{more}, at least "
                f"{self.minimum} are needed: set small=drop to leave such silos out, or lower minimum{lower}"
            )
        names = tuple(sorted((name for name, n in sizes.items() if n >= self.minimum), key=in_order))
        if not names:
            raise BadInput(
                f"split silos: no value of {column} has {self.minimum} training rows; the largest has "
                f"{max(sizes.values(), default=0)}: lower minimum or choose another column"
            )
        refuse_other_count("silos", clients, names)
        why = f"as {column} is missing or not among the clients"
        if few:
            small = some([f"{name} ({n})" for name, n in few])
            why += f"; left out for fewer than {self.minimum} training rows: {small}"
        return self.owned(data, pool, column, names, why)

    def deal_all(self, data: Dataset, pool: Arrays) -> Deal:
        """However small a silo is, for whoever looks at rows and trains nothing; who is too small is said."""
        column, sizes = self.sizes(data)
        names = tuple(sorted(sizes, key=in_order))
        deal = self.owned(data, pool, column, names, f"as {column} is missing")
        few = [f"{name} ({sizes[name]})" for name in names if sizes[name] < self.minimum]
        if not few:
            return deal
        drop = option("small", "drop", "silos")
        said = (
            f"fewer than {self.minimum} training rows: {', '.join(few)}; they are looked at here, but a run "
            f"refuses them: {drop} leaves them out"
        )
        return replace(deal, notes=(said, *deal.notes))

    def sizes(self, data: Dataset) -> tuple[str, Counter[str]]:
        """The column to go by, and the training rows of each of its values."""
        column = self.column or self.natural(data)
        trained = texts_of(column_of("silos", data, data.train, column))
        return column, Counter(text for text in trained if text is not None)

    def owned(self, data: Dataset, pool: Arrays, column: str, names: tuple[str, ...], why: str) -> Deal:
        """Each row goes to the silo of its value, if that has a name here."""
        places = {name: i for i, name in enumerate(names)}
        found = texts_of(column_of("silos", data, pool, column))
        owner = np.array([-1 if text is None else places.get(text, -1) for text in found], dtype=np.int64)
        return Deal(owner, names, notes=notes_on(owner, names, why))

    def natural(self, data: Dataset) -> str:
        if data.silos:
            return data.silos
        columns = list(data.train.columns or ())
        if data.recipe is not None:
            likely = f" (perhaps {NATURAL})" if NATURAL in columns else ""
            raise BadInput(
                f"{data.name} does not say whose its rows are: name the column with --table.site{likely}, or "
                "deal them to invented clients with --split iid --clients 10"
            )
        if columns and NATURAL not in columns:
            raise BadInput(
                f"split silos needs a column of {data.name} to go by: name one of {', '.join(columns)}"
            )
        return NATURAL


def texts_of(column: Array) -> list[str | None]:
    """Each value as a client's name: 3.0 is '3'; a missing one is None."""
    import pandas as pd

    if column.dtype == object and pd.api.types.infer_dtype(column) != "string":
        return [text_of(value) for value in column.tolist()]  # True and 1 are equal, and two names
    codes, found = pd.factorize(column)
    texts = [*map(text_of, found.tolist()), None]  # -1 is missing
    return [texts[code] for code in codes.tolist()]


def text_of(value: object) -> str | None:
    if isinstance(value, float):
        return None if math.isnan(value) else f"{value:g}"
    return None if value is None else str(value)


def in_order(name: str) -> tuple[float, str]:
    """Numbers by size, before words by letter."""
    try:
        return float(name), name
    except ValueError:
        return float("inf"), name
