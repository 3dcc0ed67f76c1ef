"""A source for `--plugins`: pictures from an .npz file, with a published test set.

The file has bytes `train_x` and `test_x` [n, channel, height, width], and labels `train_y` and `test_y` [n].
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.data.dataset import Arrays, Dataset
from coterie.data.sources import SOURCES, Natural
from coterie.data.sources.base import Normalise


@SOURCES.register("pictures")
@dataclass(frozen=True)
class Pictures:
    """Pictures from an .npz file."""

    path: str = ""
    """The file."""

    natural: ClassVar[Natural] = Natural()
    about: ClassVar[str] = "pictures of your own"
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = "yours"

    def load(self) -> Dataset:
        with np.load(self.path) as data:
            pools = [Arrays(data[f"{part}_x"], data[f"{part}_y"]) for part in ("train", "test")]
        channels = pools[0].x.shape[1]
        return Dataset(
            name="pictures",
            task="classification",
            train=pools[0],
            test=pools[1],
            classes=tuple(map(str, range(1 + int(pools[0].y.max())))),
            prepare=Normalise((0.5,) * channels, (0.5,) * channels),
        )

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return Path(self.path).is_file()
