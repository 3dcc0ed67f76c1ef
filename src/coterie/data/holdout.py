"""Setting rows aside, seeded, so that both parts look alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coterie.core.errors import BadInput

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
