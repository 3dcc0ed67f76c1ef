"""The diabetes study of the least-angle regression paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from coterie.data.dataset import Arrays, Dataset
from coterie.data.preparation import numbers
from coterie.data.sources.base import SOURCES
from coterie.data.sources.bundled import NOTE, read_table
from coterie.data.tabular import TabularPrepare

COLUMNS = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


@SOURCES.register("diabetes")
@dataclass(frozen=True)
class Diabetes:
    """How far diabetes has progressed in a year, told by ten measurements; a regression.

    The target stays in its own units (25 to 346), so that errors can be read: always saying its mean, 152.1,
    errs by 77.0 (root mean square). The measurements come unscaled, and every client standardises them with
    its own training mean and deviation.
    """

    about: ClassVar[str] = "442 patients, 10 measurements, disease progression as a number; no missing values"
    citation: ClassVar[str] = (
        "Efron, Hastie, Johnstone, Tibshirani: Least angle regression. Annals of Statistics 32(2), 2004"
    )
    licence: ClassVar[str] = "none stated; comes with scikit-learn (BSD 3-Clause)"

    def load(self) -> Dataset:
        x, y = (
            read_table("diabetes_data_raw.csv.gz", (442, 10)),
            read_table("diabetes_target.csv.gz", (442, 1))[:, 0],
        )
        prepare = TabularPrepare(numbers(COLUMNS))
        return Dataset(
            name="diabetes",
            task="regression",
            train=Arrays(x, y, dict(zip(COLUMNS, x.T, strict=True))),
            features=prepare.features,
            prepare=prepare,
            notes=(
                NOTE,
                f"target in its own units: {y.min():g} to {y.max():g}; always predicting the mean of all "
                f"rows, {y.mean():.1f}, has an RMSE of {y.std():.1f}",
            ),
            citation=self.citation,
        )

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return True
