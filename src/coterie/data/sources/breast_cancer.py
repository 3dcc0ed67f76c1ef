"""Breast Cancer Wisconsin (diagnostic)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.data.dataset import Arrays, Dataset
from coterie.data.preparation import numbers
from coterie.data.sources.base import SOURCES
from coterie.data.sources.bundled import NOTE, read_table
from coterie.data.tabular import TabularPrepare

MEASURES = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
    "symmetry", "fractal dimension",
)  # fmt: skip
COLUMNS = (
    *(f"mean {m}" for m in MEASURES),
    *(f"{m} error" for m in MEASURES),
    *(f"worst {m}" for m in MEASURES),
)


@SOURCES.register("breast-cancer")
@dataclass(frozen=True)
class BreastCancer:
    """Tumours, malignant or benign, told by 30 measurements of cell nuclei.

    Every client standardises the measurements with its own training mean and deviation.
    """

    about: ClassVar[str] = "569 tumours, 30 measurements, 2 classes; no missing values"
    citation: ClassVar[str] = (
        "Wolberg, Mangasarian, Street, Street: Breast Cancer Wisconsin (Diagnostic). UCI Machine Learning "
        "Repository, 1993. doi:10.24432/C5DW2B"
    )
    licence: ClassVar[str] = "CC BY 4.0"

    def load(self) -> Dataset:
        table = read_table("breast_cancer.csv", (569, 31), ",", skip=1)
        x, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
        prepare = TabularPrepare(numbers(COLUMNS))
        return Dataset(
            name="breast-cancer",
            task="classification",
            train=Arrays(x, y, dict(zip(COLUMNS, x.T, strict=True))),
            features=prepare.features,
            classes=("malignant", "benign"),
            prepare=prepare,
            notes=(NOTE,),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return True
