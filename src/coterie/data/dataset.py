"""What a source loads and a split deals out: rows, before they belong to anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from coterie.core.client import Task
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
