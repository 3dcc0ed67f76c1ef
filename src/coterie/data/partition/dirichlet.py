"""Label skew of any strength: each class is shared out by a Dirichlet draw.

Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", 2019, arXiv:1909.06335, in the form of FedML's partition that Yang and Elkoushy,
"Guiding federated learning with low rank metrics", 2023, used with four clients and alpha 0.3 and 0.0001.

    q_c ~ Dir(alpha, ..., alpha)            for each class c, over the clients
    client k gets the share q_c[k] of the rows of class c

    alpha -> `alpha`   (small: one client holds a whole class; large: everyone the same)
    q     -> shares    [client, class]

Deviations. q is drawn as normalised gammas in log space, log G = log Gamma(alpha + 1) + log(U) / alpha,
because for alpha near 0 all gammas underflow to 0 and their ratio to NaN. FedML redraws for ever until
every client has 10 rows; here `TRIES` draws are made and the best of them is then repaired: clients
with too few rows get a whole class of a client that has several, else half of the largest one.
FedML always withholds further classes from clients that have their n/N rows; here with `balance`.
A published test set is dealt in the proportions of the training rows.

Quantity skew (`quantity`): clients of very different sizes, whose labels are alike. Li, Diao, Chen and He,
"Federated learning on non-IID data silos: an experimental study", 2022, section IV-D:

    q ~ Dir(alpha, ..., alpha),     client k gets the share q_k of the rows          law=dirichlet
    q_k ∝ (k + 1)^(-alpha)          the k-th client by size, from 0                  law=power

Every class is dealt in these shares. A client whose share is below `minimum` rows gets that many, and the
others share the rest as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import (
    Counts,
    Shares,
    check_minimum,
    class_total,
    client_names,
    columns_to_shares,
    deal_rows,
    deal_table,
    how_many,
    round_column,
    round_shares,
    tally,
)

TRIES = 50
LEAST_ALPHA, MOST_ALPHA = 1e-8, 1e12


@SPLITS.register("dirichlet")
@dataclass(frozen=True)
class Dirichlet:
    """Each class shared out by Dir(alpha).

    alpha     concentration: 0.1 is strong skew, 100 nearly none
    minimum   training rows that every client has; 10 (FedML's) leave 7 to learn from and 3 to test on
    balance   clients that have an equal part of all rows get nothing of the classes still to come
    """

    alpha: float = 0.3
    minimum: int = 10
    balance: bool = False

    def __post_init__(self) -> None:
        if not LEAST_ALPHA <= self.alpha <= MOST_ALPHA:
            raise BadInput(
                f"split dirichlet: alpha={self.alpha} must lie between {LEAST_ALPHA:g} and {MOST_ALPHA:g}: "
                "try 0.3, or the split iid for no skew at all"
            )
        check_minimum("dirichlet", self.minimum)

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        classes = class_total("dirichlet", data)
        n = how_many("dirichlet", data, clients, self.minimum)
        supply = tally(data.train.y, classes)
        plan, said = self.plan(supply, n, key.at("clients").numpy())
        shares = columns_to_shares(plan)
        counts = round_shares(tally(pool.y, classes), shares)
        owner, notes = deal_table(pool, counts, plan, 1, key.at("rows", len(pool)).numpy())
        notes = (said if pool is data.train else ()) + notes
        return Deal(owner, client_names(n), one_class=True, notes=notes)

    def plan(self, supply: Counts, clients: int, rng: np.random.Generator) -> tuple[Counts, tuple[str, ...]]:
        """Training rows [client, class], each client with at least `minimum`."""
        tables = []
        for _ in range(TRIES):
            tables.append(draw(supply, clients, self.alpha, self.balance, rng))
            if tables[-1].sum(axis=1).min() >= self.minimum:
                return tables[-1], ()
        best = max(tables, key=lambda table: int(np.minimum(table.sum(axis=1), self.minimum).sum()))
        plan, whole, halves, singles = repair(best, self.minimum)
        return plan, (
            f"none of {TRIES} Dirichlet draws with alpha={self.alpha:g} gave each of {clients} clients "
            f"{self.minimum} training rows; the best was repaired: {whole} whole and {halves} half "
            f"holding(s) of a class and {singles} single row(s) went to clients that had too few",
        )


def log_gamma_draws(alpha: float, size: int, rng: np.random.Generator) -> Shares:
    """log G with G ~ Gamma(alpha), exact where G itself underflows: G = Gamma(alpha + 1) * U^(1 / alpha)."""
    return np.log(rng.standard_gamma(alpha + 1, size)) + np.log1p(-rng.random(size)) / alpha


def _softmax(logs: Shares) -> Shares:
    powers: Shares = np.exp(logs - logs.max())
    powers /= powers.sum()
    return powers


def draw(supply: Counts, clients: int, alpha: float, balance: bool, rng: np.random.Generator) -> Counts:
    """One draw, as whole rows [client, class]."""
    counts = np.zeros((clients, len(supply)), dtype=np.int64)
    carry = np.zeros(clients)
    for c, rows in enumerate(supply):
        logs = log_gamma_draws(alpha, clients, rng)
        has_its_part = counts.sum(axis=1) >= supply.sum() / clients
        if balance and not has_its_part.all():
            logs[has_its_part] = -np.inf
        shares = _softmax(logs)
        counts[:, c] = round_column(int(rows), shares, carry)
        carry += rows * shares - counts[:, c]
    return counts


def repair(counts: Counts, minimum: int) -> tuple[Counts, int, int, int]:
    """Everyone gets `minimum` rows by one of three moves, the first that will do: the smallest holding that
    its owner can do without, half of the largest holding, or a single row. A holding is what one client has
    of one class. Returns the table and how often each move was made: at most `minimum` times for each client
    in need.
    """
    counts = counts.copy()
    moves = [0, 0, 0]
    for k in np.flatnonzero(counts.sum(axis=1) < minimum):
        while (missing := minimum - int(counts[k].sum())) > 0:
            sizes = counts.sum(axis=1)
            spare = (counts >= missing) & (sizes[:, None] - counts >= minimum)
            largest = int(np.argmax(np.where(sizes[:, None] > minimum, counts, 0)))
            half = int(counts.flat[largest]) // 2
            if spare.any():
                cell = int(np.argmin(np.where(spare, counts, counts.sum() + 1)))
                rows, move = int(counts.flat[cell]), 0
            elif half >= missing and sizes[largest // counts.shape[1]] - half >= minimum:
                cell, rows, move = largest, half, 1
            else:
                cell, rows, move = largest, 1, 2
            donor, c = divmod(cell, counts.shape[1])
            counts[donor, c] -= rows
            counts[k, c] += rows
            moves[move] += 1
    return counts, moves[0], moves[1], moves[2]


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
        check_choice("law of sizes", self.law, get_args(Law))
        least = 1e-8 if self.law == "dirichlet" else 0.0
        if not least <= self.alpha <= 1e6:
            raise BadInput(
                f"split quantity: alpha={self.alpha} must lie between {least:g} and 1e+06: try 0.5"
            )
        check_minimum("quantity", self.minimum)

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
            return _softmax(log_gamma_draws(self.alpha, clients, rng))
        return _softmax(-self.alpha * np.log(np.arange(1, clients + 1, dtype=np.float64)))


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
