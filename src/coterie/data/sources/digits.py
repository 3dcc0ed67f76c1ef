"""The small handwritten digits of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.data.dataset import Arrays, Dataset
from coterie.data.sources.base import SOURCES
from coterie.data.sources.bundled import NOTE, read_table


@SOURCES.register("digits")
@dataclass(frozen=True)
class Digits:
    """Handwritten digits, 8 x 8 grey pixels of 17 shades.

    The test part of the UCI set: 13 writers who are not told apart. Pixels count dots from 0 to 16 and are
    divided by 16.
    """

    about: ClassVar[str] = "1,797 handwritten digits, 1 x 8 x 8, 10 classes"
    citation: ClassVar[str] = (
        "Alpaydin, Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998. "
        "doi:10.24432/C50P49"
    )
    licence: ClassVar[str] = "CC BY 4.0"

    def load(self) -> Dataset:
        table = read_table("digits.csv.gz", (1797, 65), ",")
        x = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
        return Dataset(
            name="digits",
            task="classification",
            train=Arrays(x, table[:, -1].astype(np.int64)),
            classes=tuple("0123456789"),
            notes=(NOTE, "pixels divided by 16"),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return True
