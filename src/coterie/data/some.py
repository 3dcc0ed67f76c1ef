"""Some of a data set's rows, for a study that is to be quick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Dataset


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
    return replace(
        data,
        train=data.train.take(taken),
        lines=None if data.lines is None else data.lines[taken],
        notes=(*data.notes, note),
    )
