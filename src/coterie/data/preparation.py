"""How a client's rows become its model's inputs: column by column, fitted once, and kept with every model.

A column is of one of the kinds of `data/kinds`, such as
number     (value - center) / spread
flag       0 or 1, left as it is
category   one input of 0 and 1 for each value of a list fixed beforehand, so that all clients agree

`center` and `spread` are the client's own, those of all clients together, or constants (see `tabular.py`). A
column that the client does not have at all is the same in all its rows: `instead`, one number for each of
the column's inputs; where some client lacks it, one more input may say so for everybody, 0 or 1. A missing
value of a column that it does have becomes `fill`, or is refused if there is none.

All of it is plain data: `to_dict` and `preparation_from_dict` bring it into a file and back, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from coterie.core.errors import BadData, option
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.kinds import KINDS, ColumnKind, of_models

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
FARTHEST = float(np.finfo(np.float32).max)  # that an input goes


@dataclass(frozen=True)
class Column:
    """A column of a table, as all clients have it.

    values    the texts that a category may have, in order; its raw numbers are their `codes`
    unit      what a number is measured in, if told
    center    constants that take the place of what would be fitted
    spread
    """

    name: str
    kind: str = "number"
    values: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    unit: str = ""
    center: float = 0.0
    spread: float = 1.0

    @property
    def inputs(self) -> list[str]:
        return self.of.inputs(self)

    @property
    def of(self) -> ColumnKind:
        return KINDS[self.kind]

    @property
    def allowed(self) -> tuple[float, ...] | None:
        return self.of.allowed(self)

    @property
    def scaled(self) -> bool:
        return self.of.scaled

    @property
    def quantity(self) -> bool:
        """Whether it holds numbers that are measured or counted, and no steps of a scale."""
        return self.scaled and not self.values

    def text(self, raw: float) -> str:
        return self.of.text(self, raw)


def numbers(names: Sequence[str]) -> tuple[Column, ...]:
    """Columns that all hold numbers."""
    return tuple(map(Column, names))


def coded(name: str, codes: Sequence[float], values: Sequence[str] = ()) -> Column:
    """A category whose values are published as numbers, by which they are called unless named."""
    return Column(name, "category", tuple(values or (f"{c:g}" for c in codes)), tuple(map(float, codes)))


@dataclass(frozen=True)
class TrainingRange:
    """Of the values that a client's own training rows had in a column: new rows are held against it later.

    It holds single values of rows (the lowest, the highest). So it stays with the client's own model, in its
    run and in its exported folder, and is in nothing that is sent to others.

    quantiles   of a number: lowest, quartiles and highest; none where no value was known
    codes       of a column with a list of values, the raw numbers of those that were there
    missing     the share of rows without a value
    """

    quantiles: tuple[float, ...] = ()
    codes: tuple[float, ...] = ()
    missing: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for what no rows can have been."""
        ordered = all(a <= b for a, b in zip(self.quantiles, self.quantiles[1:], strict=False))
        finite = all(map(math.isfinite, (*self.quantiles, *self.codes, self.missing)))
        some = len(self.quantiles) in (0, len(QUANTILES))
        if not (finite and ordered and some and 0 <= self.missing <= 1):
            raise ValueError("a range of training rows is none")

    @classmethod
    def of(cls, column: Column, values: Array) -> TrainingRange:
        """Of raw numbers [row], NaN where missing."""
        known = values[~np.isnan(values)]
        missing = 1 - len(known) / len(values) if len(values) else 0.0
        if column.allowed is not None or column.values:
            return cls(codes=tuple(float(c) for c in np.unique(known)), missing=missing)
        # never beyond finite numbers
        quantiles = np.quantile(known, QUANTILES, method="nearest") if len(known) else ()
        return cls(tuple(map(float, quantiles)), missing=missing)

    @property
    def lowest(self) -> float:
        return self.quantiles[0]

    @property
    def median(self) -> float:
        return self.quantiles[2]

    @property
    def highest(self) -> float:
        return self.quantiles[-1]


@dataclass(frozen=True)
class Part:
    """A column as one client prepares it.

    fill      what a missing value becomes; None refuses it
    instead   the inputs of all rows of a client that lacks the column; empty for one that has it
    told      whether one more input says whether the client lacks it
    unused    for everybody: it becomes no input
    training  what the client's own training rows had there; None where that is not recorded
    """

    column: Column
    fill: float | None = None
    instead: tuple[float, ...] = ()
    told: bool = False
    unused: bool = False
    training: TrainingRange | None = None

    @property
    def absent(self) -> bool:
        return bool(self.instead)

    @property
    def read(self) -> bool:
        """Whether the client's own values are looked at."""
        return not self.absent and not self.unused

    @property
    def inputs(self) -> list[str]:
        if self.unused:
            return []
        return [*self.column.inputs, *([f"{self.column.name} not recorded"] if self.told else [])]

    def made(self, raw: Array) -> Array:
        """[row, input] of raw numbers [row], NaN where unknown."""
        if self.unused:
            return np.zeros((len(raw), 0), dtype=np.float32)
        if self.absent:
            made = np.tile(np.array(self.instead, dtype=np.float64), (len(raw), 1))
        else:
            known = np.where(np.isnan(raw), math.nan if self.fill is None else self.fill, raw)
            made = self.column.of.encoded(self.column, known)
        if self.told:
            made = np.column_stack([made, np.full(len(raw), float(self.absent))])
        with np.errstate(over="ignore"):
            return np.asarray(made, dtype=np.float32)


@dataclass(frozen=True)
class Preparation:
    """`Prepare` for pools whose x [n, column] holds raw numbers, fitted for one client.

    drops    rows with a missing value are left out, instead of filled or refused
    notes    what was done to fit it
    """

    parts: tuple[Part, ...]
    drops: bool = False
    notes: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The raw columns, in the order in which they are taken."""
        return tuple(p.column.name for p in self.parts)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs that come out."""
        return tuple(name for p in self.parts for name in p.inputs)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """[input] which column each input comes from."""
        return tuple(i for i, p in enumerate(self.parts) for _ in p.inputs)

    def inputs(self, raw: Array) -> Array:
        """[row, input] of raw numbers [row, column]; refuses what is infinite, not allowed or missing."""
        raw = np.asarray(raw, dtype=np.float64).reshape(-1, len(self.parts))
        self.refuse(raw)
        return np.concatenate([p.made(raw[:, i]) for i, p in enumerate(self.parts)], axis=1)

    def refuse(self, raw: Array) -> None:
        """The first value that cannot be taken; rows count from 1."""
        for i, part in enumerate(self.parts):
            found, column = raw[:, i], part.column
            if not part.read:
                continue
            if (bad := np.flatnonzero(np.isinf(found))).size:
                raise BadData(f"column {column.name!r} is infinite in row {bad[0] + 1}: fill or drop it")
            if part.fill is None and (bad := np.flatnonzero(np.isnan(found))).size:
                raise BadData(
                    f"column {column.name!r} has {len(bad)} missing or NaN value(s), first in row "
                    f"{bad[0] + 1}: fill or drop them, or pass {option('missing', 'median', 'table')} or "
                    f"{option('missing', 'drop', 'table')}"
                )
            if (allowed := column.allowed) is not None:
                strange = np.flatnonzero(~np.isnan(found) & ~np.isin(found, allowed))
                if strange.size:
                    may = ", ".join(map(column.text, allowed))
                    raise BadData(
                        f"column {column.name!r} holds {found[strange[0]]:g}, but may hold {may}: "
                        "correct or blank that value"
                    )

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        pools, notes = [train, *others], list[str]()
        if self.drops:
            pools, notes = drop_incomplete(pools, self.parts)
        # the scale that others agreed on may be any, and a refusal of what it takes too far would tell which
        # rows have what
        made = [Arrays(np.clip(self.inputs(p.x), -FARTHEST, FARTHEST), p.y, p.columns) for p in pools]
        return made, (*notes, *self._filled(pools), *self.notes)

    def _filled(self, pools: Sequence[Arrays]) -> list[str]:
        """A note, if there is anything to fill in or to set aside."""
        filled, aside = [], []
        for i, part in enumerate(self.parts):
            own, *others = (int(np.isnan(np.asarray(p.x[:, i], dtype=np.float64)).sum()) for p in pools)
            rows = sum(map(len, pools[1:]))
            if part.absent and rows - sum(others):
                aside.append(f"{part.column.name} ({rows - sum(others)})")
            elif part.read and own + sum(others) and part.fill is not None:
                counts = f"{own} in training and {sum(others)} in further rows"
                filled.append(f"{part.column.name} ({counts}, by {part.column.text(part.fill)})")
        said = {
            "values set aside, as training rows have none of the column": aside,
            "missing values filled by this client's training median or mode": filled,
        }
        return [f"{what}: {', '.join(columns)}" for what, columns in said.items() if columns]

    def without_training(self) -> Preparation:
        """What others may have of it: how inputs are made, and no range of the client's rows."""
        return replace(self, parts=tuple(replace(p, training=None) for p in self.parts))

    def to_dict(self) -> dict[str, Any]:
        columns = list[dict[str, Any]]()
        for part in self.parts:
            own = {k: getattr(part, k) for k in ("fill", "instead", "told", "unused")}
            held = {} if part.training is None else {"training": asdict(part.training)}
            columns.append(asdict(part.column) | own | held)
        return {"drops": self.drops, "columns": columns}


def preparation_from_dict(table: Mapping[str, Any]) -> Preparation:
    """The inverse of `Preparation.to_dict`; KeyError, TypeError or ValueError for anything else."""
    parts = []
    for entry in table["columns"]:
        kind = str(entry["kind"])
        if kind not in of_models():
            raise ValueError(f"a column is a {kind}")
        values, codes = tuple(map(str, entry["values"])), tuple(map(float, entry["codes"]))
        scale = float(entry["center"]), float(entry["spread"])
        column = Column(str(entry["name"]), kind, values, codes, str(entry["unit"]), *scale)
        fill = None if entry["fill"] is None else float(entry["fill"])
        instead = tuple(map(float, entry["instead"]))
        training = None  # as in files of earlier versions
        if (held := entry.get("training")) is not None:
            quantiles, codes = (tuple(map(float, held[key])) for key in ("quantiles", "codes"))
            training = TrainingRange(quantiles, codes, float(held["missing"]))
        part = Part(column, fill, instead, bool(entry["told"]), bool(entry["unused"]), training)
        held_in = (*column.codes, *instead, *scale, fill or 0.0)
        if not all(map(math.isfinite, held_in)) or column.spread <= 0:
            said = f"numbers of column {column.name!r} are not finite"
            raise ValueError(f"{said}, or its spread is not above 0")
        if len(column.codes) != len(values) or (instead and len(instead) != len(column.inputs)):
            raise ValueError(f"column {column.name!r} has not as many numbers as inputs")
        parts.append(part)
    if len({p.column.name for p in parts}) < len(parts) or not parts:
        raise ValueError("its columns are none, or one is there twice")
    return Preparation(tuple(parts), bool(table["drops"]))


def as_they_are(features: Sequence[str], inputs: Array) -> Preparation:
    """For columns that are taken as they are, with what training rows [row, column] had in them."""
    values = np.asarray(inputs, dtype=np.float64)
    parts = (Part(c, training=TrainingRange.of(c, values[:, i])) for i, c in enumerate(numbers(features)))
    return Preparation(tuple(parts))


def drop_incomplete(pools: Sequence[Arrays], parts: Sequence[Part]) -> tuple[list[Arrays], list[str]]:
    """The pools without rows that miss a value of a column that the client has; the note counts them."""
    here = [i for i, p in enumerate(parts) if p.read]
    gaps = [np.isnan(np.asarray(pool.x, dtype=np.float64)[:, here]) for pool in pools]
    complete = [np.logical_not(gap.any(axis=1)) for gap in gaps]
    if len(pools[0]) and not complete[0].any():
        counts = gaps[0].sum(axis=0)
        name = parts[here[int(counts.argmax())]].column.name
        raise BadData(
            f"none of {len(pools[0])} training rows is complete ({name} is missing in {counts.max()}): "
            "take the rule median for missing values, or leave that column out"
        )
    gone = [int(np.sum(~c)) for c in complete]
    notes = []
    if sum(gone):
        notes.append(
            f"rows left out for missing values: {gone[0]} of {len(pools[0])} in training and "
            f"{sum(gone[1:])} of {sum(map(len, pools[1:]))} further ones"
        )
    return [pool.take(np.flatnonzero(c)) for pool, c in zip(pools, complete, strict=True)], notes
