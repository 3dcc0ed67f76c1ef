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
from coterie.data.partition.base import SPLITS, Deal, cells_of, deal_equally
from coterie.data.partition.counts import Shares
from coterie.data.tabular import TabularPrepare


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
        if not isinstance(data.prepare, TabularPrepare):
            raise BadInput(
                f"split missingness takes values out of a table, but {data.name} has no rule for missing "
                "ones: use a table of files, heart-disease or tcga-brca"
            )
        names, x = [c.name for c in data.prepare.columns], cells_of("missingness", data, pool)
        for name in self.columns:
            if name not in names:
                raise UnknownName(f"column of {data.name}", name, names)
        rng = key.at("rows", len(pool)).numpy()
        deal = deal_equally("missingness", data, pool, clients, rng)
        rates = self.rates(len(deal.names), len(names), key.at("clients").numpy())
        rates *= np.array([not self.columns or name in self.columns for name in names])
        gone = rng.random(x.shape) < rates[deal.owner]
        known = int((~np.isnan(x)).sum())
        lost = int((gone & ~np.isnan(x)).sum())
        said = f"values made missing, at rates of each client's own: {lost} of {known}"
        return replace(deal, rows=replace(pool, x=np.where(gone, np.nan, x)), notes=(said, *deal.notes))

    def rates(self, clients: int, columns: int, rng: np.random.Generator) -> Shares:
        """r [client, column]; 1 where a client has no value."""
        some = rng.random((clients, columns)) * self.most
        return np.where(rng.random((clients, columns)) < self.whole, 1.0, some)
