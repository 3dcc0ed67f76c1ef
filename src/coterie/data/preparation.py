"""How a client's rows become its model's inputs: column by column, fitted once, and kept with every model.

A column is one of three kinds:
number     (value - center) / spread
flag       0 or 1, left as it is
category   one input of 0 and 1 for each value of a list fixed beforehand, so that all clients agree

`center` and `spread` are the client's own, those of all clients together, or constants (see `tabular.py`). A
column that the client does not have at all is the same in all its rows: `instead`, one number for each of
the column's inputs; where some client lacks it, one more input may say so for everybody, 0 or 1. A missing
value of a column that it does have becomes `fill`, or is refused if there is none.

All of it is plain data: `told` and `told_of` bring it into a file and back, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from coterie.core.errors import BadData, option
from coterie.data.dataset import Arrays
from coterie.data.intake import Array
from coterie.data.training_range import TrainingRange, training_range, training_range_of

Kind = Literal["number", "flag", "category"]
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
    kind: Kind = "number"
    values: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    unit: str = ""
    center: float = 0.0
    spread: float = 1.0

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs that it becomes."""
        return [f"{self.name}={v}" for v in self.values] if self.kind == "category" else [self.name]

    @property
    def allowed(self) -> tuple[float, ...]:
        """Raw numbers that a flag or category may hold."""
        return (0.0, 1.0) if self.kind == "flag" else self.codes

    def text(self, raw: float) -> str:
        """A raw number as people write it."""
        return dict(zip(self.codes, self.values, strict=True)).get(raw, f"{raw:g}")


def numbers(names: Sequence[str]) -> tuple[Column, ...]:
    """Columns that all hold numbers."""
    return tuple(map(Column, names))


def coded(name: str, codes: Sequence[float], values: Sequence[str] = ()) -> Column:
    """A category whose values are published as numbers, by which they are called unless named."""
    return Column(name, "category", tuple(values or (f"{c:g}" for c in codes)), tuple(map(float, codes)))


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
            made = self.encoded(np.where(np.isnan(raw), math.nan if self.fill is None else self.fill, raw))
        if self.told:
            made = np.column_stack([made, np.full(len(raw), float(self.absent))])
        with np.errstate(over="ignore"):
            return np.asarray(made, dtype=np.float32)

    def encoded(self, known: Array) -> Array:
        """[row, input] of numbers without gaps."""
        if self.column.kind == "category":
            return np.asarray(known[:, None] == np.array(self.column.codes), dtype=np.float64)
        if self.column.kind == "number":
            known = (known - self.column.center) / self.column.spread
        return np.asarray(known[:, None])


def as_far_as_inputs_go(made: Array) -> Array:
    """Of rows that are trained and tested on. The scale that others agreed on may be any, and a refusal of
    what it takes too far would tell which rows have what.
    """
    return np.clip(made, -FARTHEST, FARTHEST)


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
            if column.kind != "number":
                strange = np.flatnonzero(~np.isnan(found) & ~np.isin(found, column.allowed))
                if strange.size:
                    may = ", ".join(column.text(v) for v in column.allowed)
                    raise BadData(
                        f"column {column.name!r} holds {found[strange[0]]:g}, but may hold {may}: "
                        "correct or blank that value"
                    )

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        pools, notes = [train, *others], list[str]()
        if self.drops:
            pools, notes = drop_incomplete(pools, self.parts)
        made = [Arrays(as_far_as_inputs_go(self.inputs(p.x)), p.y, p.columns) for p in pools]
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
                by = part.column.text(part.fill)
                filled.append(
                    f"{part.column.name} ({own} in training and {sum(others)} in further rows, by {by})"
                )
        notes = (
            [f"values set aside, as training rows have none of the column: {', '.join(aside)}"]
            if aside
            else []
        )
        if filled:
            notes.append(
                f"missing values filled by this client's training median or mode: {', '.join(filled)}"
            )
        return notes

    def without_training(self) -> Preparation:
        """What others may have of it: how inputs are made, and no range of the client's rows."""
        return replace(self, parts=tuple(replace(p, training=None) for p in self.parts))

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"drops": self.drops, "columns": [{**asdict(p.column), **_own(p)} for p in self.parts]}


def told_of(table: Mapping[str, Any]) -> Preparation:
    """The inverse of `told`; KeyError, TypeError or ValueError for anything else."""
    parts = []
    for entry in table["columns"]:
        kind = str(entry["kind"])
        if kind not in ("number", "flag", "category"):
            raise ValueError(f"a column is a {kind}")
        column = Column(
            str(entry["name"]),
            kind,  # type: ignore[arg-type]
            tuple(map(str, entry["values"])),
            tuple(map(float, entry["codes"])),
            str(entry["unit"]),
            float(entry["center"]),
            float(entry["spread"]),
        )
        fill = None if entry["fill"] is None else float(entry["fill"])
        instead = tuple(map(float, entry["instead"]))
        training = training_range_of(entry.get("training"))
        part = Part(column, fill, instead, bool(entry["told"]), bool(entry["unused"]), training)
        refuse_odd(part)
        parts.append(part)
    if len({p.column.name for p in parts}) < len(parts) or not parts:
        raise ValueError("its columns are none, or one is there twice")
    return Preparation(tuple(parts), bool(table["drops"]))


def refuse_odd(part: Part) -> None:
    """A column that a file describes so that no fit can have made it."""
    column = part.column
    numbers = (*column.codes, *part.instead, column.center, column.spread, part.fill or 0.0)
    if not all(map(math.isfinite, numbers)) or column.spread <= 0:
        raise ValueError(f"numbers of column {column.name!r} are not finite, or its spread is not above 0")
    wanted = len(column.inputs)
    if len(column.codes) != len(column.values) or (part.instead and len(part.instead) != wanted):
        raise ValueError(f"column {column.name!r} has not as many numbers as inputs")


def _own(part: Part) -> dict[str, Any]:
    own = {k: getattr(part, k) for k in ("fill", "instead", "told", "unused")}
    return own if part.training is None else {**own, "training": asdict(part.training)}


def as_they_are(features: Sequence[str], inputs: Array) -> Preparation:
    """For columns that are taken as they are, with what training rows [row, column] had in them."""
    values = np.asarray(inputs, dtype=np.float64)
    parts = (Part(c, training=training_range(c, values[:, i])) for i, c in enumerate(numbers(features)))
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
