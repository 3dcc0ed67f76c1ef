"""What the last models said of each test row, as a file: a person moves a threshold over it and sees what
comes of it (`metrics/operating.py`).

A run in one process has it for all clients, a site of a federation for itself alone, beside its model
(`use/at_site.py`). There are no rows in it, but the label of each: it is to be kept where those may be.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coterie.metrics.operating import Probabilities
from coterie.storage.arrays import damaged, read_arrays, write_arrays

FILE = "probabilities.npz"
MOST = 2**15  # rows: so many say within half a point what others would
NUMBERS = 2**20  # of them all: some megabytes


def few_enough(rows: int, classes: int) -> bool:
    return rows <= MOST and rows * classes <= NUMBERS


def write_probabilities(folder: Path, found: Probabilities, mode: int = 0o644) -> None:
    """`sizes` [client], `p` [row, class] in float32, `y` [row]."""
    write_arrays(folder / FILE, found._replace(p=found.p.astype(np.float32))._asdict(), mode)


def read_probabilities(folder: Path) -> Probabilities | None:
    """None where there are none: see `Record`."""
    arrays = read_arrays(folder / FILE, Probabilities._fields)
    if arrays is None:
        return None
    sizes, p, y = arrays
    whole = all(a.dtype.kind in "iu" for a in (sizes, y)) and p.dtype.kind == "f" and p.ndim == 2
    if not whole or sizes.ndim != 1 or not len(p) == sizes.sum() == len(y) or y.shape != p.shape[:1]:
        raise damaged(folder / FILE, "sizes do not add up")
    if not ((p >= 0) & (p <= 1)).all() or not ((y >= 0) & (y < p.shape[1])).all():
        raise damaged(folder / FILE, "it has what is no probability, or no class")
    return Probabilities(sizes, p, y)
