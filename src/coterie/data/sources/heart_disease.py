"""UCI heart disease: four hospitals, as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from coterie.core.checks import check_choice
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.intake import Array
from coterie.data.preparation import Column, coded
from coterie.data.sources.base import SOURCES, Natural, Published
from coterie.data.tabular import Absent, TabularPrepare

FOLDERS = ("heart-disease",)
BASE = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
HOSPITALS = ("cleveland", "hungary", "switzerland", "va")
FILES = tuple(
    PublishedFile(f"processed.{part}.data", f"sha256:{sha256}", f"{BASE}processed.{part}.data")
    for part, sha256 in (
        ("cleveland", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
        ("hungarian", "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
        ("switzerland", "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
        ("va", "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
    )
)
COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal",
)  # fmt: skip
SPARSE = ("slope", "ca", "thal")
FLAGS = ("sex", "fbs", "exang")
CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
NEVER_ZERO = ("trestbps", "chol")


@SOURCES.register("heart-disease")
@dataclass(frozen=True)
class HeartDisease(Published):
    """Patients of four real hospitals, with or without heart disease; split them by `hospital`.

    Ill means num > 0: a coronary artery narrowed by half or more. Categories and their values are those of
    the published heart-disease.names: cp (chest pain) 1-4, restecg 0-2, slope 1-3, thal 3, 6, 7.

    Outside Cleveland slope, ca and thal are missing in 50, 98 and 78 % of the rows, and a column that is
    mostly filled in tells hospitals apart, not patients; so they are left out unless asked for. A blood
    pressure or cholesterol of 0 is nobody's: it stands in one row of VA, and as the cholesterol of all of
    Switzerland and of 49 rows of VA. Taken as unknown, 661 rows are complete without the three columns,
    Switzerland having none of them; taken as they are, 740.
    """

    missing: Literal["median", "drop"] = "median"
    """Unknown values: filled by each client from its own training rows (median), or their rows left out."""
    sparse_columns: bool = False
    """Keep slope, ca and thal, which most hospitals hardly recorded."""
    zero_is_missing: bool = True
    """Take a blood pressure or cholesterol of 0 as unknown."""

    files: ClassVar = FILES
    folders: ClassVar = FOLDERS
    natural: ClassVar[Natural] = Natural("silos", "logistic", table=True)
    about: ClassVar[str] = "920 patients of 4 hospitals (303, 294, 123, 200), 10 or 13 findings, 2 classes"
    citation: ClassVar[str] = (
        "Janosi, Steinbrunn, Pfisterer, Detrano: Heart Disease. UCI Machine Learning Repository, 1989. "
        "doi:10.24432/C52P4X"
    )
    licence: ClassVar[str] = "CC BY 4.0"

    def __post_init__(self) -> None:
        check_choice("rule for missing values of heart-disease", self.missing, ("median", "drop"))

    def load(self) -> Dataset:
        table, ill = read_hospitals(self.fetch())
        columns = tuple(c for c in COLUMNS if self.sparse_columns or c not in SPARSE)
        absent: Absent = "mask" if self.missing == "median" else "refuse"
        prepare = TabularPrepare(tuple(map(column_of, columns)), missing=self.missing, absent=absent)
        known = {column: table[column] for column in columns}
        if self.zero_is_missing:
            known |= {c: np.where(table[c] == 0, np.nan, table[c]) for c in NEVER_ZERO}
        return Dataset(
            name="heart-disease",
            task="classification",
            train=Arrays(np.column_stack(list(known.values())), ill, table),
            features=prepare.features,
            classes=("well", "ill"),
            prepare=prepare,
            notes=self._notes(table, ill, known),
            citation=self.citation,
        )

    def _notes(self, table: Mapping[str, Array], ill: Array, known: Mapping[str, Array]) -> tuple[str, ...]:
        hospital = table["hospital"]
        rows = [f"{h} {int((hospital == h).sum())} ({int(ill[hospital == h].sum())} ill)" for h in HOSPITALS]
        notes = [f"rows: {', '.join(rows)}"]
        if not self.sparse_columns:
            notes.append(f"columns left out: {', '.join(SPARSE)}")
        meaning = "taken as unknown" if self.zero_is_missing else "kept as they are"
        zeros = [f"{column} {_by_hospital(table[column] == 0, hospital)}" for column in NEVER_ZERO]
        notes.append(f"values of 0 {meaning}: {', '.join(zeros)}")
        gaps = {column: np.isnan(values) for column, values in known.items()}
        unknown = [f"{column} {_by_hospital(gap, hospital)}" for column, gap in gaps.items() if gap.any()]
        if unknown:
            notes.append(f"values unknown: {', '.join(unknown)}")
        complete = ~np.any(list(gaps.values()), axis=0)
        notes.append(f"rows without a gap: {_by_hospital(complete, hospital)} of {len(hospital)}")
        return tuple(notes)


def column_of(name: str) -> Column:
    if name in CATEGORIES:
        return coded(name, CATEGORIES[name])
    return Column(name, "flag" if name in FLAGS else "number")


def read_hospitals(paths: Sequence[Path]) -> tuple[dict[str, Array], Array]:
    """The columns of all hospitals and `hospital`, as published (? is NaN), and who is ill."""
    parts = [
        [[math.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines if line]
        for lines in (path.read_text().splitlines() for path in paths)
    ]
    hospital = np.repeat(np.array(HOSPITALS, dtype=object), [len(rows) for rows in parts])
    *columns, num = np.array([row for rows in parts for row in rows]).T
    table = {"hospital": hospital, **dict(zip(COLUMNS, columns, strict=True))}
    return table, (num > 0).astype(np.int64)


def _by_hospital(which: Array, hospital: Array) -> str:
    counts = [(h, int(which[hospital == h].sum())) for h in HOSPITALS]
    each = ", ".join(f"{h} {n}" for h, n in counts if n)
    return f"{int(which.sum())} ({each})" if each else "0"
