"""Quantity skew: clients of very different sizes, whose labels are alike.

Li, Diao, Chen and He, "Federated learning on non-IID data silos: an experimental study", 2022, section IV-D:

    q ~ Dir(alpha, ..., alpha),     client k gets the share q_k of the rows          law=dirichlet
    q_k ∝ (k + 1)^(-alpha)          the k-th client by size, from 0                  law=power

Every class is dealt in these shares. A client whose share is below `minimum` rows gets that many, and the
others share the rest as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import (
    Shares,
    class_total,
    client_names,
    deal_rows,
    how_many,
    round_shares,
    tally,
)
from coterie.data.partition.dirichlet import log_gamma_draws, softmax

Law = Literal["dirichlet", "power"]


@SPLITS.register("quantity")
@dataclass(frozen=True)
class Quantity:
    """Sizes drawn from Dir(alpha), or falling as a power law; labels alike.

    alpha     dirichlet: 0.5 is strong skew, 100 nearly none; power: 0 is none, 2 is strong
    law       how sizes come about: dirichlet or power
    minimum   training rows that every client has
    """

    alpha: float = 0.5
    law: Law = "dirichlet"
    minimum: int = 10

    def __post_init__(self) -> None:
        if self.law not in get_args(Law):
            raise UnknownName("law of sizes", self.law, get_args(Law))
        least = 1e-8 if self.law == "dirichlet" else 0.0
        if not least <= self.alpha <= 1e6:
            raise BadInput(
                f"split quantity: alpha={self.alpha} must lie between {least:g} and 1e+06: try 0.5"
            )
        if self.minimum < 2:
            raise BadInput(
                f"split quantity: minimum={self.minimum} must be at least 2, "
                "one row to train and one to test: try 10"
            )

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        n = how_many("quantity", data, clients, self.minimum)
        drawn = self.shares(n, key.at("clients").numpy())
        shares, raised = at_least(drawn, self.minimum / len(data.train))
        # targets that are no classes are dealt as if they were one
        labelled = data.task == "classification"
        y = pool.y if labelled else np.zeros(len(pool), dtype=np.int64)
        supply = tally(y, class_total("quantity", data) if labelled else 1)
        counts = round_shares(supply, np.repeat(shares[:, None], len(supply), axis=1))
        owner = deal_rows(y, counts, key.at("rows", len(pool)).numpy())
        said = (f"clients that were given more rows than drawn, to have {self.minimum}: {raised} of {n}",)
        names = client_names(n)
        notes = notes_on(owner, names, "")
        return Deal(owner, names, notes=(*(said if raised and pool is data.train else ()), *notes))

    def shares(self, clients: int, rng: np.random.Generator) -> Shares:
        """q [client], adding up to 1."""
        if self.law == "dirichlet":
            return softmax(log_gamma_draws(self.alpha, clients, rng))
        return softmax(-self.alpha * np.log(np.arange(1, clients + 1, dtype=np.float64)))


def at_least(shares: Shares, least: float) -> tuple[Shares, int]:
    """Shares of which none is below `least`, the others as they were to each other; and how many were."""
    low = np.zeros(len(shares), dtype=bool)
    while True:
        rest = np.where(low, 0.0, shares)
        found: Shares = np.where(low, least, rest / max(rest.sum(), 1e-300) * (1 - low.sum() * least))
        now = low | (found < least)
        if (now == low).all() or now.all():
            return found, int(low.sum())
        low = now
