"""Clients of different sizes, each with one favourite class.

Makni, "Deriving FL-SWAG as a one-shot method for the sake of calibration and privacy protection", 2022,
Algorithm 4 (noniid-datasets):

    size_m ~ P, sorted                                  for each client m
    interest_{m,c} = 1 if c = m mod n_classes else p    for each class c
    statistics_{m,c} = size_m interest_{m,c} / sum_m' size_m' interest_{m',c}
    each row of class c goes to client m with probability statistics_{m,c}

    P -> `sizes`;  p -> `p`;  statistics -> statistics(...) [client, class]

The paper's listing tests MOD(c, m) = 0; its text and its program have c = m mod n_classes, as here.
Deviation: a client with fewer than `minimum` training rows is given some of the largest clients' rows,
and a note says so; with the paper's ten clients on its data sets this does not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import (
    Shares,
    check_minimum,
    class_total,
    client_names,
    deal_table,
    how_many,
    tally,
)


@SPLITS.register("interests")
@dataclass(frozen=True)
class Interests:
    """One favourite class for each client, p times as much of every other, and sizes that differ.

    p         interest in the other classes: 1 is none the favourite, near 0 almost only the favourite
    sizes     what sizes are drawn from: uniform on [0, 1] (the paper's), exponential, or all equal
    minimum   training rows that every client has
    """

    p: float = 0.25
    sizes: Literal["uniform", "exponential", "equal"] = "uniform"
    minimum: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise BadInput(f"split interests: p={self.p} must lie above 0 and be at most 1: try 0.25")
        check_choice("sizes of split interests", self.sizes, ("uniform", "exponential", "equal"))
        check_minimum("interests", self.minimum)

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        classes = class_total("interests", data)
        n = how_many("interests", data, clients, self.minimum)
        shares = statistics(draw_sizes(self.sizes, n, key.at("clients").numpy()), classes, self.p)
        rng = key.at("rows", len(pool)).numpy()
        # as many rows as if each were drawn by itself; which ones is up to the shuffle
        counts = rng.multinomial(tally(pool.y, classes), shares.T).T
        owner, notes = deal_table(pool, counts, shares, self.minimum if pool is data.train else 1, rng)
        return Deal(owner, client_names(n), one_class=True, notes=notes)


def draw_sizes(kind: str, clients: int, rng: np.random.Generator) -> Shares:
    """Relative sizes [client], above 0 and sorted."""
    if kind == "equal":
        return np.ones(clients)
    above_zero = 1 - rng.random(clients)
    return np.sort(above_zero if kind == "uniform" else -np.log(above_zero) + 1e-12)


def statistics(sizes: Shares, classes: int, p: float) -> Shares:
    """size * interest with every class's column normalised: [client, class]."""
    interest = np.full((len(sizes), classes), float(p))
    interest[np.arange(len(sizes)), np.arange(len(sizes)) % classes] = 1.0
    weighted: Shares = sizes[:, None] * interest
    weighted /= weighted.sum(axis=0)
    return weighted
