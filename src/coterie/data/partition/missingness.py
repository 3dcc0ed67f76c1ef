"""Missingness skew: values that are missing at random, at each client and in each column at another rate.

    r_kj ~ U(0, most),     a value of column j at client k is missing with probability r_kj

and with probability `whole`, client k has no value of column j at all. Training and test rows of a client
lose values alike. What becomes of missing values is the data's own rule (refuse, drop or median, and for
whole columns `absent`): nothing is filled in here, and each client's notes say what was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal, cells_of, columns_in, deal_equally, empty_note
from coterie.data.partition.counts import Shares, client_names, how_many


@SPLITS.register("missingness")
@dataclass(frozen=True)
class Missingness:
    """Rows dealt as in iid; values go missing at rates of each client's own.

    most      the highest rate of a column at a client; each is drawn between 0 and this
    whole     how probable it is that a client has no value of a column at all
    columns   which columns lose values; all, if left out
    """

    most: float = 0.5
    whole: float = 0.0
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option in ("most", "whole"):
            if not 0 <= getattr(self, option) < 1:
                raise BadInput(
                    f"split missingness: {option}={getattr(self, option)} must lie in [0, 1): try 0.3"
                )
        if not self.most and not self.whole:
            raise BadInput("split missingness: most=0 and whole=0 leave nothing out: set one, or take iid")

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        names, x = columns_in("missingness", data), cells_of("missingness", data, pool)
        for name in self.columns:
            if name not in names:
                raise UnknownName(f"column of {data.name}", name, names)
        n = how_many("missingness", data, clients, minimum=2)
        rng = key.at("rows", len(pool)).numpy()
        owner = deal_equally(len(pool), n, rng)
        rates = self.rates(n, len(names), key.at("clients").numpy())
        rates *= np.array([not self.columns or name in self.columns for name in names])
        gone = rng.random(x.shape) < rates[owner]
        known = int((~np.isnan(x)).sum())
        lost = int((gone & ~np.isnan(x)).sum())
        said = f"values made missing, at rates of each client's own: {lost} of {known}"
        rows = replace(pool, x=np.where(gone, np.nan, x))
        return Deal(owner, client_names(n), rows=rows, notes=(said, *empty_note(len(pool), n)))

    def rates(self, clients: int, columns: int, rng: np.random.Generator) -> Shares:
        """r [client, column]; 1 where a client has no value."""
        some = rng.random((clients, columns)) * self.most
        return np.where(rng.random((clients, columns)) < self.whole, 1.0, some)
