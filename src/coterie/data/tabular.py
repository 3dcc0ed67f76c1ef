"""Fitting how tables become inputs, on the clients' training rows alone and without moving a row.

A client says which columns it lacks (`lacks`), then what the others need of its columns (`sums`): counts,
means, deviations. What follows for all (`agreed`) and the client's own rows make its preparation
(`prepared`). One process that has all rows takes the same steps (`fitted`), so that the numbers are the same
to the last bit wherever the rows are.

Numbers are scaled by one of three rules:
site         each client by the mean and deviation of its own known training values
shared       all by the mean and deviation of everybody's, which clients tell each other as counts, sums and
             squares: x̄ = Σ_k n_k x̄_k / Σ_k n_k,  s² = Σ_k n_k (s_k² + (x̄_k - x̄)²) / Σ_k n_k
constants    (value - center) / spread with numbers given beforehand, 0 and 1 unless told

A deviation of 0 counts as 1.

Missing values go by a rule that is fitted on training rows only:
refuse       a missing value is an error that names the column
drop         rows with a missing value are left out, and counted
median       a number becomes its column's median, anything else its most frequent value

A column of which a client's training rows know nothing is absent there, by one of four rules:
mask         its inputs are 0 in all of the client's rows, so that they neither count nor learn there
flag         they are the mean of everybody else's inputs, and one more input, the column's own, is 1 at
             clients that lack it and 0 at the others: it counts as an intercept of these clients
common       the column is left out for everybody
refuse       its values are missing like any others

The mean of everybody's inputs comes from what they tell: of numbers that are standardised it is 0, of those
scaled by constants (x̄ - center) / spread, of flags and categories the share of each value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadData, option
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.preparation import Column, Part, Preparation, TrainingRange, drop_incomplete

Missing = Literal["refuse", "drop", "median"]
Scale = Literal["site", "shared", "constants"]
Absent = Literal["mask", "flag", "common", "refuse"]


INSTEAD = {
    "mask": "0 in all rows",
    "flag": "the others' mean in all rows, and said so by an input of its own",
    "common": "left out",
    "refuse": "",
}
SCALED = {
    "site": "standardised with this client's own training mean and deviation",
    "shared": "standardised with the mean and deviation of all clients' training rows",
    "constants": "scaled by constants",
}


class Moments(NamedTuple):
    """Of a column's known values: what clients tell each other for a shared scale."""

    known: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Array) -> Moments:
        """Of the known values; the deviation is that of a population, and exactly 0 where nothing varies."""
        known = ~np.isnan(values)
        count = int(known.sum())
        if count == 0:
            return cls(0, math.nan, 0.0)
        mean = float(np.where(known, values, 0.0).sum() / count)
        if np.nanmax(values) <= np.nanmin(values):
            return cls(count, mean, 0.0)
        return cls(count, mean, float(np.sqrt(np.where(known, (mean - values) ** 2, 0.0).sum() / count)))

    @classmethod
    def joined(cls, moments: Sequence[Moments]) -> Moments:
        """x̄ and s of all clients together, from what each tells."""
        known = [m for m in moments if m.known]
        count = sum(m.known for m in known)
        if count == 0:
            return cls(0, math.nan, 0.0)
        mean = sum(m.known * m.mean for m in known) / count
        variance = sum(m.known * (m.deviation**2 + (m.mean - mean) ** 2) for m in known) / count
        return cls(count, mean, math.sqrt(variance))


Told = Sequence[float] | None  # what a client tells of a column; None where it has nothing to tell


class Gaps(NamedTuple):
    """[column] which ones some client lacks, all of them lack, and are left out for everybody."""

    some: Array
    every: Array
    unused: Array


class Agreed(NamedTuple):
    """What all clients together know of a column.

    told     whether an input says who lacks it
    scale    for everybody's numbers, where it is shared and somebody knows one
    mean     of everybody's inputs, for those that lack it and are to have that; zeros for the others
    """

    told: bool
    scale: Moments | None
    mean: tuple[float, ...]


@dataclass(frozen=True)
class TabularPrepare:
    """`Prepare` for pools whose x [n, column] holds numbers, NaN where unknown."""

    columns: tuple[Column, ...]
    missing: Missing = "refuse"
    scale: Scale = "site"
    absent: Absent = "mask"

    def __post_init__(self) -> None:
        check_choice("rule for missing values", self.missing, get_args(Missing))
        check_choice("scale", self.scale, get_args(Scale))
        check_choice("rule for absent columns", self.absent, get_args(Absent))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs, where no client lacks a column."""
        return tuple(name for c in self.columns for name in c.inputs)

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        """For one client that is by itself."""
        return self.fitted([train])[0](train, *others)

    def fitted(self, trains: Sequence[Arrays], names: Sequence[str] = ()) -> list[Preparation]:
        """One for each client's training rows; the names are for what has to be refused."""
        whose = [f"client {name!r}: " for name in names] or [""] * len(trains)
        gaps = self.gaps([self.lacks(t, w) for t, w in zip(trains, whose, strict=True)])
        agreed = self.agreed(gaps, [self.sums(t, gaps) for t in trains])
        return [self.prepared(t, gaps, agreed) for t in trains]

    def lacks(self, train: Arrays, whose: str = "") -> tuple[bool, ...]:
        """[column] which ones are absent in a client's training rows; `whose` begins what is refused."""
        table = self._table(train)
        refuse_infinite(table, [c.name for c in self.columns], whose)
        empty = np.isnan(table).all(axis=0) if len(table) else np.zeros(0, dtype=bool)
        if self.absent == "refuse" and self.missing == "median" and empty.any():  # such a one has no median
            names = ", ".join(repr(self.columns[i].name) for i in np.flatnonzero(empty))
            raise BadData(
                f"{whose}no value in any training row of column {names}, so that it has no median: leave it "
                f"out, or pass {option('absent', 'mask', 'table')}"
            )
        return tuple(self._lacking(table).tolist())

    def gaps(self, lacks: Sequence[Sequence[bool]]) -> Gaps:
        """From what every client lacks."""
        lacking = np.asarray(lacks, dtype=bool).reshape(-1, len(self.columns))  # [client, column]
        some, every = np.asarray(lacking.any(axis=0)), np.asarray(lacking.all(axis=0))
        unused = some if self.absent == "common" else np.zeros_like(some)
        if unused.all():
            flag, mask = (option("absent", rule, "table") for rule in ("flag", "mask"))
            raise BadData(f"no column is known to every client: use {flag} or {mask}")
        return Gaps(some, every, unused)

    def sums(self, train: Arrays, gaps: Gaps) -> list[Told]:
        """[column] what a client tells of its training rows, and nothing that no other needs: `Moments` for a
        shared scale; where somebody lacks the column and gets the others' mean, count and mean of numbers
        that constants scale, and how often a flag or category has each of its values.
        """
        table, found = self._kept(train, gaps), list[Told]()
        for i, (column, wanted) in enumerate(zip(self.columns, self.tells(gaps), strict=True)):
            values = table[:, i]
            known = values[~np.isnan(values)]
            if not wanted or not len(known):
                found.append(None)
            elif column.scaled:
                found.append(tuple(Moments.of(values)[:wanted]))
            else:
                found.append(tuple(int((known == value).sum()) for value in column.allowed or ()))
        return found

    def tells(self, gaps: Gaps) -> list[int]:
        """[column] how many numbers a client tells of it, if it has the column."""
        return [self._tells(c, gaps, i) for i, c in enumerate(self.columns)]

    def agreed(self, gaps: Gaps, sums: Sequence[Sequence[Told]]) -> list[Agreed]:
        """[column] what follows from what everybody tells, in the order of clients."""
        return [
            self._agreed(c, bool(gaps.some[i]), [told[i] for told in sums])
            for i, c in enumerate(self.columns)
        ]

    def prepared(self, train: Arrays, gaps: Gaps, agreed: Sequence[Agreed]) -> Preparation:
        """How one client makes its inputs."""
        table, lacking = self._kept(train, gaps), self._lacking(self._table(train))
        parts = list[Part]()
        for i, c in enumerate(self.columns):
            own = Part(c, unused=True)
            parts.append(own if gaps.unused[i] else self._part(c, table[:, i], bool(lacking[i]), agreed[i]))
        return Preparation(tuple(parts), self.missing == "drop", tuple(self._notes(parts)))

    def _table(self, train: Arrays) -> Array:
        return np.asarray(train.x, dtype=np.float64).reshape(-1, len(self.columns))

    def kept_rows(self, train: Arrays, gaps: Gaps) -> Array:
        """Which rows are learned from: where gaps are dropped, those without one in columns that count."""
        table = self._table(train)
        if self.missing != "drop":
            return np.arange(len(table))
        gone = self._lacking(table) | gaps.unused
        parts = [Part(c, unused=bool(u)) for c, u in zip(self.columns, gone, strict=True)]
        (kept,), _ = drop_incomplete([Arrays(table, np.arange(len(table)))], parts)
        return kept.y

    def _kept(self, train: Arrays, gaps: Gaps) -> Array:
        return np.asarray(self._table(train)[self.kept_rows(train, gaps)])

    def _tells(self, column: Column, gaps: Gaps, i: int) -> int:
        if gaps.unused[i]:
            return 0
        others_mean = self.absent == "flag" and bool(gaps.some[i]) and not gaps.every[i]
        if not column.scaled:
            return len(column.allowed or ()) if others_mean else 0
        if self.scale == "shared":
            return len(Moments._fields)
        return 2 if others_mean and self.scale == "constants" else 0

    def _agreed(self, column: Column, some: bool, sums: Sequence[Told]) -> Agreed:
        known, told = [s for s in sums if s is not None], some and self.absent == "flag"
        nothing = Agreed(told, None, (0.0,) * len(column.inputs))
        if column.scaled:
            if not known or self.scale == "site":
                return nothing
            of_all = Moments.joined([Moments(int(s[0]), float(s[1]), float((*s, 0.0)[2])) for s in known])
            if self.scale == "shared":
                return nothing._replace(scale=of_all)
            return nothing._replace(mean=((of_all.mean - column.center) / column.spread,))
        counts = [sum(int(n) for n in of_value) for of_value in zip(*known, strict=True)]
        if not sum(counts):
            return nothing
        shares = np.array([n / sum(counts) for n in counts])
        inputs = column.of.encoded(column, np.array(column.allowed))
        return nothing._replace(mean=tuple(map(float, shares @ inputs)))

    def _part(self, column: Column, values: Array, gone: bool, agreed: Agreed) -> Part:
        """A column as one client prepares it."""
        mine, scale = column, Moments.of(values) if self.scale == "site" else agreed.scale
        if column.scaled and self.scale != "constants" and scale is not None and scale.known:
            mine = replace(column, center=scale.mean, spread=scale.deviation or 1.0)
        fill = _stand_in(column, values) if self.missing == "median" and not gone else None
        if not gone:
            return Part(mine, fill, told=agreed.told, training=TrainingRange.of(column, values))
        return Part(mine, fill, agreed.mean, agreed.told)

    def _lacking(self, table: Array) -> Array:
        """[column] which ones are absent."""
        known = bool(len(table)) and self.absent != "refuse"
        return np.asarray(np.isnan(table).all(axis=0) if known else np.zeros(len(self.columns), dtype=bool))

    def _notes(self, parts: Sequence[Part]) -> list[str]:
        """What was fitted, one line for each thing done."""
        unused = [p.column.name for p in parts if p.unused]
        absent = [p.column.name for p in parts if p.absent]
        scaled = [p.column.name for p in parts if p.column.scaled and p.read]
        which = "all columns" if len(scaled) == len(parts) else ", ".join(scaled)
        said = {
            "columns left out, as a client has no value of them": ", ".join(unused),
            f"columns without any value in training rows, {INSTEAD[self.absent]}": ", ".join(absent),
            SCALED[self.scale]: which,
        }
        return [f"{what}: {names}" for what, names in said.items() if names]


def refuse_infinite(table: Array, columns: Sequence[str], whose: str) -> None:
    infinite = np.isinf(table)
    if infinite.any():
        column = columns[int(infinite.sum(axis=0).argmax())]
        raise BadData(f"{whose}column {column!r} has {infinite.sum()} infinite value(s): fill or drop them")


def _stand_in(column: Column, train: Array) -> float:
    """What a missing value becomes: the median of a number, the most frequent of anything else."""
    known = train[~np.isnan(train)]
    if len(known) == 0:
        return 0.0
    if column.allowed is None:
        return float(np.median(known))
    values, counts = np.unique(known, return_counts=True)
    return float(values[counts.argmax()])
