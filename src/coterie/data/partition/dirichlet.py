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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import (
    Counts,
    Shares,
    class_total,
    client_names,
    columns_to_shares,
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
        if self.minimum < 2:
            raise BadInput(
                f"split dirichlet: minimum={self.minimum} must be at least 2, "
                "one row to train and one to test: try 10"
            )

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        classes = class_total("dirichlet", data)
        n = how_many("dirichlet", data, clients, self.minimum)
        supply = tally(data.train.y, classes)
        plan, said = self.plan(supply, n, key.at("clients").numpy())
        shares = columns_to_shares(plan)
        counts = round_shares(tally(pool.y, classes), shares)
        owner, notes = deal_table(pool, counts, plan, 1, key.at("rows", len(pool)).numpy())
        return Deal(
            owner, client_names(n), one_class=True, notes=(said if pool is data.train else ()) + notes
        )

    def plan(self, supply: Counts, clients: int, rng: np.random.Generator) -> tuple[Counts, tuple[str, ...]]:
        """Training rows [client, class], each client with at least `minimum`."""
        tables = []
        for _ in range(TRIES):
            tables.append(draw(supply, clients, self.alpha, self.balance, rng))
            if tables[-1].sum(axis=1).min() >= self.minimum:
                return tables[-1], ()
        best = max(tables, key=lambda table: fulfilled(table, self.minimum))
        plan, whole, halves, singles = repair(best, self.minimum)
        return plan, (
            f"none of {TRIES} Dirichlet draws with alpha={self.alpha:g} gave each of {clients} clients "
            f"{self.minimum} training rows; the best was repaired: {whole} whole and {halves} half "
            f"holding(s) of a class and {singles} single row(s) went to clients that had too few",
        )


def log_gamma_draws(alpha: float, size: int, rng: np.random.Generator) -> Shares:
    """log G with G ~ Gamma(alpha), exact where G itself underflows: G = Gamma(alpha + 1) * U^(1 / alpha)."""
    return np.log(rng.standard_gamma(alpha + 1, size)) + np.log1p(-rng.random(size)) / alpha


def softmax(logs: Shares) -> Shares:
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
        shares = softmax(logs)
        counts[:, c] = round_column(int(rows), shares, carry)
        carry += rows * shares - counts[:, c]
    return counts


def fulfilled(counts: Counts, minimum: int) -> int:
    """How far a table is on the way to `minimum` rows for everyone."""
    return int(np.minimum(counts.sum(axis=1), minimum).sum())


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
