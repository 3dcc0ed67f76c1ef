"""Breast Cancer Wisconsin (diagnostic)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd

from coterie.data.dataset import Arrays, Dataset
from coterie.data.sources.base import SOURCES
from coterie.data.tabular import TabularPrepare


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
        from sklearn.datasets import load_breast_cancer

        raw = load_breast_cancer()
        columns = tuple(map(str, raw.feature_names))
        prepare = TabularPrepare(columns)
        return Dataset(
            name="breast-cancer",
            task="classification",
            train=Arrays(raw.data, raw.target.astype("int64"), pd.DataFrame(raw.data, columns=list(columns))),
            features=prepare.features,
            classes=tuple(map(str, raw.target_names)),
            prepare=prepare,
            notes=("the copy that comes with scikit-learn",),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return True
