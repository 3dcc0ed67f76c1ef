"""From the CSV to statements: paired differences over splits, whose intervals know that they share rows.

Of two contenders on a table: d_j is the difference of their means over sites in split j, turned so that
above 0 is better. Its interval is that of Nadeau and Bengio (`coterie/metrics/summary.py`), and a difference
is more than noise where it does not hold 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from coterie.metrics.summary import Interval, interval, telling

from .ours import OFFERED, TOGETHER
from .scoring import HEADLINE, HIGHER

LINEAR_ALONE, LINEAR_WITH_SITE, TRIVIAL = "linear alone", "linear pooled+site", "trivial alone"


@dataclass(frozen=True)
class Pair:
    """Two contenders on one table; `difference` is above 0 where the first is better. `failed` are the splits
    in which the first ended with an error, which no difference makes good.
    """

    table: str
    first: str
    second: str
    first_mean: float
    second_mean: float
    difference: Interval
    failed: int = 0

    @property
    def verdict(self) -> str:
        if self.failed:
            return "failed"
        if self.difference.seeds < 2:
            return "unknown"
        return {1: "better", 0: "within noise", -1: "worse"}[self.difference.side]


class Figures:
    """All figures of the CSV by table and contender; those that failed have none."""

    def __init__(self, rows: pd.DataFrame, column: str = "mean") -> None:
        self.rows, self.column = rows, column
        self.tables = list(dict.fromkeys(rows["table"]))
        self.contenders = list(dict.fromkeys(rows["contender"]))
        headline = rows[rows["measure"] == rows["task"].map(HEADLINE)]
        self.known = headline[headline[column].notna()]
        self.failed = rows[rows["said"].notna()].groupby(["table", "contender"]).size().to_dict()

    def by_split(self, table: str, contender: str, measure: str = "") -> pd.Series:
        """The mean over sites of each split."""
        rows = self.rows if measure else self.known
        rows = rows[(rows["table"] == table) & (rows["contender"] == contender)]
        if measure:
            rows = rows[rows["measure"] == measure]
        return rows.set_index("split")[self.column].dropna().sort_index()

    def measure(self, table: str) -> str:
        return HEADLINE[self.rows.loc[self.rows["table"] == table, "task"].iloc[0]]

    def overlap(self, table: str) -> float:
        rows = self.rows[self.rows["table"] == table]
        return float((rows["test_rows"] / rows["train_rows"]).mean())

    def pair(self, table: str, first: str, second: str) -> Pair:
        """Over the splits that both have."""
        a, b = self.by_split(table, first), self.by_split(table, second)
        both = a.index.intersection(b.index)
        sign = 1 if self.measure(table) in HIGHER else -1
        values = sign * (a[both] - b[both]).to_numpy()
        found = telling(interval(values, overlap=self.overlap(table)))
        failed = self.failed.get((table, first), 0)
        return Pair(table, first, second, float(a[both].mean()), float(b[both].mean()), found, failed)

    def best(self, table: str, among: Sequence[str]) -> str | None:
        """The best in hindsight of those that have all of the splits that any of them has; of none, one that
        failed, if there is one.
        """
        values = {c: self.by_split(table, c) for c in among}
        most = max((len(v) for v in values.values()), default=0)
        means = {c: float(v.mean()) for c, v in values.items() if len(v) == most and most}
        if not means:
            return next((c for c in among if (table, c) in self.failed), None)
        return (max if self.measure(table) in HIGHER else min)(means, key=lambda c: means[c])

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> list[Pair]:
        """On each table the best of these against the best of those."""
        chosen = [(t, self.best(t, first), self.best(t, second)) for t in self.tables]
        return [self.pair(t, a, b) for t, a, b in chosen if a is not None and b is not None]


@dataclass(frozen=True)
class Statement:
    """One thing that is to hold, and the pairs that tell."""

    claim: str
    pairs: list[Pair]

    def count(self, verdict: str) -> int:
        return sum(pair.verdict == verdict for pair in self.pairs)


def statements(figures: Figures) -> dict[str, Statement]:
    """What the page asks, by a short name."""
    everything = [c for c in figures.contenders if c not in (TRIVIAL, "nothing")]
    asked = {
        "learn": ("There is something to learn: the best of all against the trivial", everything, [TRIVIAL]),
        "alone": ("`local` against the regularised linear model alone", ["local"], [LINEAR_ALONE]),
        "offered": (
            "The best of what `advised` is offered against the better of linear alone and linear pooled "
            "with the site",
            OFFERED,
            [LINEAR_ALONE, LINEAR_WITH_SITE],
        ),
        "advised": (
            "`advised` against the better of linear alone and linear pooled with the site",
            ["advised"],
            [LINEAR_ALONE, LINEAR_WITH_SITE],
        ),
        "together": (
            f"{' or '.join(f'`{c}`' for c in TOGETHER)} against training alone",
            TOGETHER,
            ["local"],
        ),
    }
    found = {k: Statement(claim, figures.pairs(a, b)) for k, (claim, a, b) in asked.items()}
    return {k: statement for k, statement in found.items() if statement.pairs}


def mean_of(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else float(np.nan)
