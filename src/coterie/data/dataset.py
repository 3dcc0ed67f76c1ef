"""What a source loads and a split deals out: rows, before they belong to anybody; and setting some aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypedDict, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.client import Samples, Task
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.intake import Array

if TYPE_CHECKING:
    from coterie.data.tables.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Arrays:
    """Rows to deal.

    x         inputs [n, ...], raw: a source's `prepare` makes numbers of them
    y         targets [n]
    columns   for tables, the original columns [n] by name, that splits can go by: numbers, NaN where unknown,
              or texts, None or NaN where unknown
    """

    x: Array
    y: Array
    columns: Mapping[str, Array] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Arrays:
        columns = self.columns and {name: values[rows] for name, values in self.columns.items()}
        return Arrays(self.x[rows], self.y[rows], columns)


class Prepare(Protocol):
    """Turns raw rows into float inputs, for one client: whatever it fits, it fits on `train` alone.

    Returns one array [n, ...] for each of (train, *others), and notes on what was done. A rule may leave
    rows out, so it returns pools (inputs with their targets), not bare arrays.
    """

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]: ...


@runtime_checkable
class FitsTogether(Protocol):
    """A `Prepare` whose clients may share what they fit: one for each client's training rows."""

    def fitted(self, trains: Sequence[Arrays], names: Sequence[str] = ()) -> Sequence[Prepare]: ...


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded source; `test` is its published test set, without one clients hold out their own.

    recipe      how its rows were read from files, for tables that were
    silos       the column that says whose a row is, where there is one
    one_class   whether clients with a single class are welcome
    together    columns that tell who a row is about: rows of one are never trained and tested on
    lines       [row of train] its line in the file that it was read from, if it was
    order       [row of train] when it was, where rows held out are to be later than those trained on
    made_of     [feature] the columns that each is made of, where a source made features of them beforehand
    """

    name: str
    task: Task
    train: Arrays
    test: Arrays | None = None
    features: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    prepare: Prepare | None = None
    notes: tuple[str, ...] = ()
    citation: str = ""
    recipe: Recipe | None = None
    silos: str = ""
    one_class: bool = False
    together: tuple[str, ...] = ()
    lines: Array | None = None
    order: Array | None = None
    made_of: tuple[tuple[str, ...], ...] = ()

    @property
    def pools(self) -> Sequence[Arrays]:
        return (self.train,) if self.test is None else (self.train, self.test)


def label_counts(y: Array, owner: Array, clients: int, classes: int) -> np.ndarray:
    """How many rows of each class each client owns: [client, class]."""
    table = np.zeros((clients, classes), dtype=np.int64)
    dealt = owner >= 0
    np.add.at(table, (owner[dealt], y[dealt]), 1)
    return table


def some_of(data: Dataset, rows: int | None, key: Key) -> Dataset:
    """So many rows to deal, drawn by chance and in their order; all for None. A published test set stays
    whole. It is in the notes.
    """
    if rows is None:
        return data
    if not 2 <= rows <= len(data.train):
        raise BadInput(
            f"rows={rows} must lie between 2 and the {len(data.train)} rows of {data.name}: "
            "leave it out to take all"
        )
    taken = np.sort(key.at("some").numpy().permutation(len(data.train))[:rows])
    note = f"{rows} of {len(data.train)} rows taken, drawn by the seed that deals them"
    lines = None if data.lines is None else data.lines[taken]
    return replace(data, train=data.train.take(taken), lines=lines, notes=(*data.notes, note))


Rows = npt.NDArray[np.int64]


def hold_out(
    y: npt.NDArray[np.generic], fraction: float, rng: np.random.Generator, whose: str
) -> tuple[Rows, Rows]:
    """Splits rows into (kept, held), each in its original order.

    Rows are ordered by label (ties at random) and every 1/fraction-th is held: each label, or each
    range of a continuous target, is held in proportion. At least one row stays on either side.
    """
    n = len(y)
    if not 0 < fraction < 1:
        raise BadInput(f"{whose}: held-out fraction {fraction} must lie between 0 and 1: try 0.3")
    if n < 2:
        raise BadInput(f"{whose} has {n} sample(s), but training and testing need at least 2: add samples")
    order = np.lexsort((rng.random(n), y))
    held_count = min(max(round(fraction * n), 1), n - 1)
    positions = ((np.arange(held_count) + rng.random()) * n / held_count).astype(np.int64)
    is_held = np.zeros(n, dtype=bool)
    is_held[order[positions]] = True
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def hold_out_last(
    order: npt.NDArray[np.generic], unit: Rows, fraction: float, whose: str
) -> tuple[Rows, Rows]:
    """Splits rows into (kept, held), each in its original order: held are those after some time, about a
    fraction of them, and all kept rows are of that time or before.

    Rows of one time stay on one side. Rows with the same number in `unit` do too, and count as of the last of
    them.
    """
    n = len(order)
    if not 0 < fraction < 1:
        raise BadInput(f"{whose}: held-out fraction {fraction} must lie between 0 and 1: try 0.3")
    _, of = np.unique(unit, return_inverse=True)
    times, rank = np.unique(order, return_inverse=True)
    last = np.zeros(of.max(initial=0) + 1, dtype=np.int64)
    np.maximum.at(last, of, rank)
    when = last[of]
    after = np.array([int((when > t).sum()) for t in np.unique(when)[:-1]])
    if not len(after):
        raise BadInput(
            f"{whose}: {n} row(s) of {len(times)} time(s) cannot be parted into earlier and later: ask for "
            "fewer clients or go by another column"
        )
    cut = np.unique(when)[int(np.abs(after - fraction * n).argmin())]
    return np.flatnonzero(when <= cut), np.flatnonzero(when > cut)


def hold_out_whole(
    y: npt.NDArray[np.generic], unit: Rows, fraction: float, rng: np.random.Generator, whose: str
) -> tuple[Rows, Rows]:
    """The same, where rows with the same number in `unit` stay on one side; each counts by its first row."""
    _, first, of = np.unique(unit, return_index=True, return_inverse=True)
    if len(first) == len(y):
        return hold_out(y, fraction, rng, whose)
    if len(first) < 2:
        raise BadInput(
            f"{whose}: all {len(y)} rows are about one, and training and testing need at least 2: add others"
        )
    _, held = hold_out(y[first], fraction, rng, whose)
    is_held = np.isin(of, held)
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


class _Parts(TypedDict):
    train: Samples
    validation: Samples
    test: Samples


def parts_of(pools: Sequence[Arrays]) -> _Parts:
    """Rows for training, validation and testing as a client has them."""
    train, validation, test = (samples(pool.x, pool.y) for pool in pools)
    return {"train": train, "validation": validation, "test": test}


def samples(x: Array, y: Array) -> Samples:
    """Arrays as tensors of their own: float32 inputs, int64 labels or float32 targets."""
    y_type = np.int64 if np.issubdtype(y.dtype, np.integer) else np.float32
    return Samples(
        torch.from_numpy(np.array(x, dtype=np.float32)), torch.from_numpy(np.array(y, dtype=y_type))
    )
