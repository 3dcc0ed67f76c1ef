"""Fitting how tables become inputs, for all clients at once and on their training rows alone.

Numbers are scaled by one of three rules:
site         each client by the mean and deviation of its own known training values
shared       all by the mean and deviation of everybody's, which clients tell each other as counts, sums and
             squares: x̄ = Σ_k n_k x̄_k / Σ_k n_k,  s² = Σ_k n_k (s_k² + (x̄_k - x̄)²) / Σ_k n_k
constants    (value - center) / spread with numbers given beforehand, 0 and 1 unless told

A deviation of 0 counts as 1. A missing value becomes the client's training median, or for flags and
categories its most frequent value; or its row is left out; or it is refused.

A column of which a client's training rows know nothing is absent there, by one of four rules:
mask         its inputs are 0 in all of the client's rows, so that they neither count nor learn there
flag         they are the mean of everybody else's inputs, and one more input, the column's own, is 1 at
             clients that lack it and 0 at the others: it counts as an intercept of these clients
common       the column is left out for everybody
refuse       its values are missing like any others
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from coterie.core.errors import BadData, option
from coterie.data.choices import check_choice
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.missing import Missing, check_missing_rule
from coterie.data.preparation import Column, Part, Preparation, drop_incomplete

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


@dataclass(frozen=True)
class TabularPrepare:
    """`Prepare` for pools whose x [n, column] holds numbers, NaN where unknown."""

    columns: tuple[Column, ...]
    missing: Missing = "refuse"
    scale: Scale = "site"
    absent: Absent = "mask"

    def __post_init__(self) -> None:
        check_missing_rule(self.missing)
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
        tables = [np.asarray(t.x, dtype=np.float64).reshape(-1, len(self.columns)) for t in trains]
        for table, whose in zip(
            tables, [f"client {n!r}: " for n in names] or [""] * len(tables), strict=True
        ):
            refuse_infinite(table, [c.name for c in self.columns], whose)
            self._refuse_empty(table, whose)
        lacking = np.array([self._lacking(t) for t in tables])  # [client, column]
        unused = np.asarray(lacking.any(axis=0) if self.absent == "common" else [False] * len(self.columns))
        if unused.all():
            flag, mask = (option("absent", rule, "table") for rule in ("flag", "mask"))
            raise BadData(f"no column is known to every client: use {flag} or {mask}")
        if self.missing == "drop":
            tables = [self._complete(t, gone | unused) for t, gone in zip(tables, lacking, strict=True)]
        parts = [
            [Part(c, unused=True)] * len(tables)
            if unused[i]
            else self._column(c, [t[:, i] for t in tables], lacking[:, i])
            for i, c in enumerate(self.columns)
        ]
        return [
            Preparation(mine, self.missing == "drop", tuple(self._notes(mine)))
            for mine in zip(*parts, strict=True)
        ]

    def _refuse_empty(self, table: Array, whose: str) -> None:
        """A column without any value has no median."""
        empty = np.isnan(table).all(axis=0) if len(table) else np.zeros(0, dtype=bool)
        if self.absent == "refuse" and self.missing == "median" and empty.any():
            names = ", ".join(repr(self.columns[i].name) for i in np.flatnonzero(empty))
            raise BadData(
                f"{whose}no value in any training row of column {names}, so that it has no median: leave it "
                f"out, or pass {option('absent', 'mask', 'table')}"
            )

    def _lacking(self, table: Array) -> Array:
        """[column] which ones are absent."""
        known = bool(len(table)) and self.absent != "refuse"
        return np.asarray(np.isnan(table).all(axis=0) if known else np.zeros(len(self.columns), dtype=bool))

    def _complete(self, table: Array, gone: Array) -> Array:
        """Rows without a gap in the columns that are not gone."""
        parts = [Part(c, unused=bool(u)) for c, u in zip(self.columns, gone, strict=True)]
        (kept,), _ = drop_incomplete([Arrays(table, np.zeros(len(table)))], parts)
        return kept.x

    def _column(self, column: Column, known: Sequence[Array], lacking: Array) -> list[Part]:
        """A column as each client prepares it."""
        moments = [moments_of(values) for values in known]
        scales = moments if self.scale == "site" else [joined(moments)] * len(known)
        told, parts = self.absent == "flag" and bool(lacking.any()), list[Part]()
        for values, gone, scale in zip(known, lacking, scales, strict=True):
            mine = column
            if column.kind == "number" and self.scale != "constants" and scale.known:
                mine = replace(column, center=scale.mean, spread=scale.deviation or 1.0)
            fill = stand_in(column, values) if self.missing == "median" and not gone else None
            parts.append(Part(mine, fill, told=told))
        instead = (0.0,) * len(column.inputs)
        if told and not lacking.all():
            instead = mean_inputs(
                [(p, v) for p, v, gone in zip(parts, known, lacking, strict=True) if not gone]
            )
        return [replace(p, instead=instead) if gone else p for p, gone in zip(parts, lacking, strict=True)]

    def _notes(self, parts: Sequence[Part]) -> list[str]:
        """What was fitted, one line for each thing done."""
        unused = [p.column.name for p in parts if p.unused]
        absent = [p.column.name for p in parts if p.absent]
        scaled = [p.column.name for p in parts if p.column.kind == "number" and p.read]
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


def moments_of(values: Array) -> Moments:
    """Of the known values; the deviation is that of a population, and exactly 0 where nothing varies."""
    known = ~np.isnan(values)
    count = int(known.sum())
    if count == 0:
        return Moments(0, math.nan, 0.0)
    mean = float(np.where(known, values, 0.0).sum() / count)
    if np.nanmax(values) <= np.nanmin(values):
        return Moments(count, mean, 0.0)
    return Moments(count, mean, float(np.sqrt(np.where(known, (mean - values) ** 2, 0.0).sum() / count)))


def joined(moments: Sequence[Moments]) -> Moments:
    """x̄ and s of all clients together, from what each tells."""
    known = [m for m in moments if m.known]
    count = sum(m.known for m in known)
    if count == 0:
        return Moments(0, math.nan, 0.0)
    mean = sum(m.known * m.mean for m in known) / count
    variance = sum(m.known * (m.deviation**2 + (m.mean - mean) ** 2) for m in known) / count
    return Moments(count, mean, math.sqrt(variance))


def stand_in(column: Column, train: Array) -> float:
    """What a missing value becomes: the median of a number, the most frequent of anything else."""
    known = train[~np.isnan(train)]
    if len(known) == 0:
        return 0.0
    if column.kind == "number":
        return float(np.median(known))
    values, counts = np.unique(known, return_counts=True)
    return float(values[counts.argmax()])


def mean_inputs(clients: Sequence[tuple[Part, Array]]) -> tuple[float, ...]:
    """[input] the mean over all known training values of the clients that have a column; 0 without any."""
    rows = np.concatenate([part.encoded(values[~np.isnan(values)]) for part, values in clients])
    return tuple(map(float, rows.sum(axis=0) / max(1, len(rows))))
