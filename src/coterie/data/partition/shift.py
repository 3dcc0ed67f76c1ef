"""Shifted label distributions A to G.

Gengler, Beaussart and Yuan, "Personalized federated image classification using weight erosion", 2020,
section "Distribution" and its table: agent 0 has the shares of the table; "for each subsequent agent, we
shift the distribution to the left, and put the distribution of the digit 0 as the digit 9".

    share of digit d for agent k:   s_k(d) = s_0((d + k) mod 10)
    agent k gets the part           s_k(d) / m   of the rows of digit d,   m = max_d sum_k s_k(d)

    s_0 -> `DISTRIBUTIONS[distribution]` or `shares`;  s -> shifted(...) [client, class]

With 10, 20, 50 or 100 agents each digit is wanted m times by all agents together, so every row has one
owner and sizes are equal up to the digits' own frequencies, as in the paper. With other numbers some
digits are wanted less than others: their surplus is nobody's (a note counts it), for dealing it out
would change the agents' distributions.

Deviations. The paper's program deals chunks of 1/100 of a digit in file order, some of them twice;
here every row is dealt at most once and shuffled, unless order="file". The paper's example for B
(5, 6, 7, then 6, 7, 8) contradicts its table and its rule; this follows the table. For other than ten
classes the table is read as a step density over [0, 1) and integrated over as many equal bins.
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
    class_total,
    client_names,
    deal_table,
    how_many,
    round_shares,
    tally,
)

DISTRIBUTIONS: dict[str, tuple[float, ...]] = {
    "A": (0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1),
    "B": (0.0, 0.0, 0.0, 0.0, 0.2, 0.6, 0.2, 0.0, 0.0, 0.0),
    "C": (0.25, 0.25, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "D": (0.0, 0.0, 0.0, 0.4, 0.1, 0.0, 0.1, 0.4, 0.0, 0.0),
    "E": (0.0, 0.0, 0.0, 0.1, 0.2, 0.4, 0.2, 0.1, 0.0, 0.0),
    "F": (0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.0),
    "G": (0.91, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01),
}


@SPLITS.register("shift")
@dataclass(frozen=True)
class Shift:
    """Agent k has agent 0's label distribution, shifted left by k classes.

    distribution   A to G of the paper
    shares         an own distribution instead, one share for each class, adding up to 1
    order          shuffled, or file: each class's rows are cut up in the order in which they come
    """

    distribution: str = "B"
    shares: tuple[float, ...] = ()
    order: Literal["shuffled", "file"] = "shuffled"

    def __post_init__(self) -> None:
        check_choice("distribution", self.distribution, DISTRIBUTIONS)
        check_choice("order of split shift", self.order, ("shuffled", "file"))
        if self.shares and not (min(self.shares) >= 0 and abs(sum(self.shares) - 1) < 1e-6):
            raise BadInput(
                f"split shift: shares {tuple(self.shares)} must be at least 0 and add up to 1, "
                f"not {sum(self.shares):g}: divide each by their sum"
            )

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        classes = class_total("shift", data)
        n = how_many("shift", data, clients, minimum=2)
        first, notes = self.first(classes)
        parts = shifted(first, n)
        parts /= parts.sum(axis=0).max()
        counts = round_shares(tally(pool.y, classes), parts)
        if pool is data.train and counts.sum(axis=1).min() < 2:
            k = int(counts.sum(axis=1).argmin())
            raise BadInput(
                f"split shift: client-{k} of {n} would get {counts[k].sum()} training rows, "
                "at least 2 are needed: ask for fewer clients or a flatter distribution"
            )
        rng = key.at("rows", len(pool)).numpy() if self.order == "shuffled" else None
        owner, said = deal_table(pool, counts, parts, 1, rng)
        notes = (notes if pool is data.train else ()) + said
        return Deal(owner, client_names(n), one_class=True, notes=notes)

    def first(self, classes: int) -> tuple[Shares, tuple[str, ...]]:
        """Agent 0's shares [class], and a note if the table had to be adapted."""
        if self.shares:
            if len(self.shares) != classes:
                raise BadInput(
                    f"split shift: {len(self.shares)} shares for {classes} classes: give one for each class"
                )
            return np.array(self.shares, dtype=np.float64), ()
        table = np.array(DISTRIBUTIONS[self.distribution])
        if classes == len(table):
            return table, ()
        return rebinned(table, classes), (
            f"distribution {self.distribution} is defined for 10 classes and was rebinned to {classes}",
        )


def rebinned(shares: Shares, classes: int) -> Shares:
    """Shares as a step density over [0, 1), integrated over `classes` equal bins."""
    total = np.concatenate([[0.0], np.cumsum(shares)])
    return np.diff(np.interp(np.linspace(0, 1, classes + 1), np.linspace(0, 1, len(total)), total))


def shifted(first: Shares, clients: int) -> Shares:
    """s_k(d) = s_0((d + k) mod classes): [client, class]."""
    return np.stack([np.roll(first, -k) for k in range(clients)])
