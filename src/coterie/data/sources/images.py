"""Pictures stay bytes in the pool, a quarter of their size as floats, until a client's rows are prepared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.data.dataset import Arrays


@dataclass(frozen=True)
class Normalise:
    """`Prepare` for bytes [n, channel, height, width]: (x / 255 - mean) / deviation, one of each a channel.

    Both are published constants of the whole training set; nothing is fitted.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        mean, deviation = (
            np.array(v, dtype=np.float32).reshape(1, -1, 1, 1) for v in (self.mean, self.deviation)
        )
        made = []
        for pool in (train, *others):
            x = pool.x.astype(np.float32)
            x /= 255
            x -= mean
            x /= deviation
            made.append(Arrays(x, pool.y, pool.columns))
        constants = f"mean {_list(self.mean)} and deviation {_list(self.deviation)}"
        return made, (f"pixels scaled to [0, 1], then normalised with the published {constants}",)


def _list(values: tuple[float, ...]) -> str:
    return ", ".join(f"{v:.4f}" for v in values)
