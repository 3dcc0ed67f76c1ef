"""Data inside an installed scikit-learn, read from its files: to import it takes longer than a short run."""

from __future__ import annotations

import gzip
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from coterie.core.errors import BadData
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.preparation import numbers
from coterie.data.sources.base import SOURCES, AtHand, Natural
from coterie.data.tabular import TabularPrepare

NOTE = "the copy that comes with scikit-learn"
MEASURES = (
    "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
    "symmetry", "fractal dimension",
)  # fmt: skip
OF_TUMOURS = (
    *(f"mean {m}" for m in MEASURES), *(f"{m} error" for m in MEASURES), *(f"worst {m}" for m in MEASURES),
)  # fmt: skip
OF_DIABETES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")


def inside(path: str) -> Path:
    """Where a file of scikit-learn is, or would be."""
    spec = importlib.util.find_spec("sklearn")
    folder = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""
    return Path(folder) / path


def _read_table(name: str, shape: tuple[int, int], delimiter: str | None = None, skip: int = 0) -> Array:
    """The numbers [row, column] of one of the files behind scikit-learn's own loaders; another shape than the
    known one is refused.
    """
    path, file = inside(f"datasets/data/{name}"), f"scikit-learn's copy of {name}"
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, ValueError) as error:
        raise BadData(f"{file} cannot be read ({error}): reinstall scikit-learn") from None
    try:
        table: Array = np.loadtxt(text.splitlines()[skip:], delimiter=delimiter, ndmin=2)
    except ValueError as error:
        raise BadData(f"{file} is damaged ({error}): reinstall scikit-learn") from None
    if table.shape != shape:
        raise BadData(
            f"{file} has {table.shape[0]} rows and {table.shape[1]} columns, must have {shape[0]} and "
            f"{shape[1]}: reinstall scikit-learn"
        )
    return table


@SOURCES.register("digits")
@dataclass(frozen=True)
class _Digits(AtHand):
    """Handwritten digits, 8 x 8 grey pixels of 17 shades.

    The test part of the UCI set: 13 writers who are not told apart. Pixels count dots from 0 to 16 and are
    divided by 16.
    """

    natural: ClassVar[Natural] = Natural("shift", "logistic")
    about: ClassVar[str] = "1,797 handwritten digits, 1 x 8 x 8, 10 classes"
    citation: ClassVar[str] = (
        "Alpaydin, Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning Repository, 1998. "
        "doi:10.24432/C50P49"
    )
    licence: ClassVar[str] = "CC BY 4.0"

    def load(self) -> Dataset:
        table = _read_table("digits.csv.gz", (1797, 65), ",")
        x = (table[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
        return Dataset(
            name="digits",
            task="classification",
            train=Arrays(x, table[:, -1].astype(np.int64)),
            classes=tuple("0123456789"),
            notes=(NOTE, "pixels divided by 16"),
            citation=self.citation,
        )


@SOURCES.register("breast-cancer")
@dataclass(frozen=True)
class _BreastCancer(AtHand):
    """Tumours, malignant or benign, told by 30 measurements of cell nuclei.

    Every client standardises the measurements with its own training mean and deviation.
    """

    natural: ClassVar[Natural] = Natural("iid", "logistic", table=True)
    about: ClassVar[str] = "569 tumours, 30 measurements, 2 classes; no missing values"
    citation: ClassVar[str] = (
        "Wolberg, Mangasarian, Street, Street: Breast Cancer Wisconsin (Diagnostic). UCI Machine Learning "
        "Repository, 1993. doi:10.24432/C5DW2B"
    )
    licence: ClassVar[str] = "CC BY 4.0"

    def load(self) -> Dataset:
        table = _read_table("breast_cancer.csv", (569, 31), ",", skip=1)
        x, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
        prepare = TabularPrepare(numbers(OF_TUMOURS))
        return Dataset(
            name="breast-cancer",
            task="classification",
            train=Arrays(x, y, dict(zip(OF_TUMOURS, x.T, strict=True))),
            features=prepare.features,
            classes=("malignant", "benign"),
            prepare=prepare,
            notes=(NOTE,),
            citation=self.citation,
        )


@SOURCES.register("diabetes")
@dataclass(frozen=True)
class _Diabetes(AtHand):
    """How far diabetes has progressed in a year, told by ten measurements; a regression.

    The target stays in its own units (25 to 346), so that errors can be read: always saying its mean, 152.1,
    errs by 77.0 (root mean square). The measurements come unscaled, and every client standardises them with
    its own training mean and deviation.
    """

    natural: ClassVar[Natural] = Natural("iid", "linear", table=True)
    about: ClassVar[str] = "442 patients, 10 measurements, disease progression as a number; no missing values"
    citation: ClassVar[str] = (
        "Efron, Hastie, Johnstone, Tibshirani: Least angle regression. Annals of Statistics 32(2), 2004"
    )
    licence: ClassVar[str] = "none stated; comes with scikit-learn (BSD 3-Clause)"

    def load(self) -> Dataset:
        x = _read_table("diabetes_data_raw.csv.gz", (442, 10))
        y = _read_table("diabetes_target.csv.gz", (442, 1))[:, 0]
        prepare = TabularPrepare(numbers(OF_DIABETES))
        units = (
            f"target in its own units: {y.min():g} to {y.max():g}; always predicting the mean of all rows, "
            f"{y.mean():.1f}, has an RMSE of {y.std():.1f}"
        )
        return Dataset(
            name="diabetes",
            task="regression",
            train=Arrays(x, y, dict(zip(OF_DIABETES, x.T, strict=True))),
            features=prepare.features,
            prepare=prepare,
            notes=(NOTE, units),
            citation=self.citation,
        )
