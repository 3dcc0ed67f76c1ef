"""Feature skew: clients by equal parts of one column's range, such as the youngest fifth to the oldest.

p(x) differs from client to client and what a row means does not. Of n clients, client k gets the rows between
the k/n and the (k + 1)/n quantile of the column, taken over all training rows. It is `bands` with edges that
give clients of about the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.bands import Bands, Unknown
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.columns import column_of
from coterie.data.partition.counts import how_many


@SPLITS.register("quantiles")
@dataclass(frozen=True)
class Quantiles:
    """Each client has one part of a column's range, all of about as many rows.

    column    the column to go by
    unknown   rows without a value: own (one more client, at the end) or drop (nobody's)
    """

    column: str = ""
    unknown: Unknown = "own"

    def __post_init__(self) -> None:
        Bands(unknown=self.unknown)

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if not self.column:
            raise BadInput("split quantiles needs a column of numbers to go by: for instance column=age")
        values = column_of("quantiles", data, data.train, self.column)
        missing = Bands(self.column).bands_of(values) > 0  # refuses what is no number
        own = bool(missing.any()) and self.unknown == "own"
        n = how_many("quantiles", data, clients, minimum=2, default=5 + own)
        if n < 2 + own:
            why = ", as rows without a value are a client of their own" if own else ""
            raise BadInput(
                f"split quantiles: clients={n} leaves {n - own} part(s) of {self.column}{why}: ask for at "
                f"least {2 + own}"
            )
        known = values[~missing].astype(np.float64)
        edges = np.quantile(known, np.arange(1, n - own) / (n - own), method="lower")
        if len(np.unique(edges)) < len(edges) or (len(edges) and edges[-1] >= known.max()):
            raise BadInput(
                f"split quantiles: {self.column} has too few different values for {n - own} parts: ask for "
                "fewer clients or choose another column"
            )
        bands = Bands(self.column, tuple(edges.tolist()), unknown=self.unknown)
        return bands.deal(data, pool, n, key)
