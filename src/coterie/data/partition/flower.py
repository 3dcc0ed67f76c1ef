"""The partitioners of Flower Datasets, by their names: pip install 'coterie[flower]'.

A partitioner is given a table with the columns `row` (its number), `label` (the target) and those of the
original table, and makes partitions of it; client k gets the rows of partition k. What it is not told is
filled in: the number of partitions is the number of clients, rows are partitioned by `label`, and random
numbers come from the run's key. A row that is in two partitions is refused, as clients share no rows.

A published test set is not partitioned by Flower, which would draw anew: its rows of each class are dealt as
the training rows of that class were.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadInput, shown
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset, label_counts
from coterie.data.partition.bands import notes_on
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.counts import (
    Counts,
    class_total,
    client_names,
    columns_to_shares,
    deal_table,
    how_many,
    round_shares,
    tally,
)

ROW, LABEL = "row", "label"


@SPLITS.register("flower")
@dataclass(frozen=True)
class Flower:
    """Rows as a partitioner of Flower Datasets deals them.

    partitioner   its name, such as PathologicalPartitioner
    options       what it is told, as name=value: num_classes_per_partition=2
    """

    partitioner: str = "IidPartitioner"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parsed(self.options)

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        n = how_many("flower", data, clients, minimum=2)
        owner, names, said = self.owners(data, n, key)
        if pool is data.train:
            notes = (*said, *notes_on(owner, names, "as Flower dealt them"))
            return Deal(owner, names, one_class=True, notes=notes)
        classes = class_total("flower", data)
        plan = label_counts(data.train.y, owner, len(names), classes)
        counts = round_shares(tally(pool.y, classes), columns_to_shares(plan))
        owner, notes = deal_table(pool, counts, plan, 1, key.at("rows", len(pool)).numpy())
        return Deal(owner, names, one_class=True, notes=notes)

    def owners(self, data: Dataset, clients: int, key: Key) -> tuple[Counts, tuple[str, ...], list[str]]:
        """Whose each training row is, what clients are called, and what Flower warns of."""
        made = _partitioner_of(self.partitioner)
        import datasets  # comes with Flower Datasets

        pool, options = data.train, _filled(made, parsed(self.options), clients, key)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                partitioner = made(**options)
                columns = {name: values.tolist() for name, values in (pool.columns or {}).items()}
                numbered = {**columns, ROW: list(range(len(pool))), LABEL: pool.y.tolist()}
                partitioner.dataset = datasets.Dataset.from_dict(numbered)  # rows without their inputs
                parts = [partitioner.load_partition(k)[ROW] for k in range(partitioner.num_partitions)]
        except Exception as error:  # whatever it may raise of its own
            said = _in_a_line(error) or type(error).__name__
            raise BadInput(
                f"split flower: {self.partitioner} refuses: {said}: change options or clients"
            ) from None
        told = dict.fromkeys(f"Flower warns: {_in_a_line(w.message)}" for w in caught)
        return owners_of(parts, len(pool)), client_names(len(parts)), list(told)


def _in_a_line(said: object) -> str:
    """What Flower says of its own, on one line of bearable length."""
    return " ".join(str(said).split())[:300]


def parsed(entries: Sequence[str]) -> dict[str, Any]:
    """Options by name; a value is a number, true, false or a list as in JSON, else a text."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"split flower: option {shown(entry)} needs the form name=value: try alpha=0.3")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _partitioner_of(name: str) -> Callable[..., Any]:
    """The class of that name; nothing but partitioners can be had."""
    try:
        from flwr_datasets import partitioner as known
    except ImportError:
        raise BadInput("split flower needs Flower Datasets: pip install 'coterie[flower]'") from None
    names = sorted(n for n in dir(known) if n.endswith("Partitioner") and n != "Partitioner")
    check_choice("partitioner of Flower", name, names)
    found: Callable[..., Any] = getattr(known, name)
    return found


def _filled(made: Callable[..., Any], told: dict[str, Any], clients: int, key: Key) -> dict[str, Any]:
    """The options told, and those that a run knows where the partitioner takes them."""
    ours = {"num_partitions": clients, "partition_by": LABEL, "seed": key.at("clients").integer() % 2**31}
    takes = inspect.signature(made).parameters
    return {**{name: value for name, value in ours.items() if name in takes}, **told}


def owners_of(parts: Sequence[Sequence[int]], rows: int) -> Counts:
    """[row] the partition that it is in, -1 for none."""
    owner = np.full(rows, -1, dtype=np.int64)
    for k, part in enumerate(parts):
        mine = np.asarray(part, dtype=np.int64)
        if len(np.unique(mine)) < len(mine) or (owner[mine] >= 0).any():
            raise BadInput(
                f"split flower: a row of partition {k} is in it twice or in another one too, and clients "
                "share no rows: choose another partitioner or other options"
            )
        owner[mine] = k
    return owner
