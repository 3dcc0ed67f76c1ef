"""TCGA-BRCA: breast cancer patients of six regions, and how long they lived."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadData
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile
from coterie.data.intake import Array
from coterie.data.preparation import Column
from coterie.data.sources.base import SOURCES, Natural, Published
from coterie.data.tabular import TabularPrepare
from coterie.data.targets import signed

FOLDERS = ("tcga-brca",)
BASE = "https://raw.githubusercontent.com/owkin/FLamby/main/flamby/datasets/fed_tcga_brca/"
FILES = tuple(
    PublishedFile(place.rpartition("/")[2], f"sha256:{sha256}", BASE + place)
    for place, sha256 in (
        ("brca.csv", "07cb53423f7d579d33cfdbf2cba57b2aee75318b85866c68ce39a75b1f1ba020"),
        ("centers.csv", "d610df2dae0203ea229c9579747ed3eb8d28e137c5378f55acc6fe6b4632bb1d"),
        (
            "dataset_creation_scripts/train_test_split.csv",
            "1249c6543a4060ff0fdaf8510fc37017755836db6c9fc5e6af96057c36510990",
        ),
    )
)
REGIONS = ("northeast", "south", "west", "midwest", "europe", "canada")
AGE = "age_at_index"
AT_ONCE = 0.5  # days: for who was watched for 0 days, before any event
SCALES = {"site": "site", "shared": "shared", "none": "constants"}


@SOURCES.register("tcga-brca")
@dataclass(frozen=True)
class TcgaBrca(Published):
    """Breast cancer patients of six regions, by clinical findings: who dies earlier; a survival.

    The clinical table of The Cancer Genome Atlas as FLamby prepared it: age, and 38 findings as 0 or 1.
    Events are deaths. A region is that of the hospital that took the tissue, told by two letters of a
    patient's code and the list of hospitals. Targets are days, negative where the patient was
    alive when last seen.
    """

    fold: Literal["own", "flamby"] = "own"
    """Who is tested on: rows that each client holds out itself (own), or FLamby's fixed test rows."""
    scale: Literal["site", "shared", "none"] = "site"
    """Age by each client's own mean and deviation (site), by those of all (shared), or in years (none)."""

    files: ClassVar = FILES
    folders: ClassVar = FOLDERS
    natural: ClassVar[Natural] = Natural("silos", "linear", table=True)
    about: ClassVar[str] = (
        "1,088 patients of 6 regions (311, 196, 206, 162, 162, 51), 39 findings, days to death or last seen"
    )
    citation: ClassVar[str] = (
        "Ogier du Terrail et al.: FLamby: datasets and benchmarks for cross-silo federated learning in "
        "realistic healthcare settings. NeurIPS datasets and benchmarks, 2022; The Cancer Genome Atlas "
        "Network: Comprehensive molecular portraits of human breast tumours. Nature 490, 2012"
    )
    licence: ClassVar[str] = "open-access tier of the GDC: nobody may try to identify a participant"

    def __post_init__(self) -> None:
        check_choice("rows to test on of tcga-brca", self.fold, ("own", "flamby"))
        check_choice("scale of tcga-brca", self.scale, tuple(SCALES))

    def load(self) -> Dataset:
        table, left = read_patients(self.fetch())
        inputs = [name for name in table if name not in ("pid", "E", "T", "region", "fold")]
        columns = tuple(Column(name, "number" if name == AGE else "flag") for name in inputs)
        prepare = TabularPrepare(columns, scale=SCALES[self.scale])  # type: ignore[arg-type]
        x = np.column_stack([table[name] for name in inputs])
        watched = np.where((table["T"] == 0) & (table["E"] == 0), AT_ONCE, table["T"])
        known = {"region": table["region"], **{name: table[name] for name in inputs}}
        pool = Arrays(x, signed(watched, table["E"]), known)
        held = table["fold"] == "test"
        return Dataset(
            name="tcga-brca",
            task="survival",
            train=pool.take(np.flatnonzero(~held)) if self.fold == "flamby" else pool,
            test=pool.take(np.flatnonzero(held)) if self.fold == "flamby" else None,
            features=prepare.features,
            prepare=prepare,
            notes=self._notes(table, left),
            citation=self.citation,
            silos="region",
        )

    def _notes(self, table: Mapping[str, Array], left: Mapping[str, int]) -> tuple[str, ...]:
        region, died = table["region"], table["E"] == 1
        rows = [f"{r} {int((region == r).sum())} ({int(died[region == r].sum())} died)" for r in REGIONS]
        unseen = int(((table["T"] == 0) & ~died).sum())
        others = ", ".join(f"{name} {n}" for name, n in left.items())
        notes = [
            f"rows: {', '.join(rows)}",
            f"patients left out, as FLamby leaves them, in no region of its six: {others}",
            f"patients never seen again, 0 days without an event: {unseen}, written as {AT_ONCE:g} days, "
            f"before the first death at {table['T'][died].min():g}: they are compared with nobody, as with 0",
            "nobody may try to identify a participant",
        ]
        if self.fold == "flamby":
            notes.append(f"FLamby's fixed test rows: {int((table['fold'] == 'test').sum())} of {len(region)}")
        return tuple(notes)


def read_patients(paths: Sequence[Path]) -> tuple[dict[str, Array], dict[str, int]]:
    """Patients of the six regions by column, with `region` and `fold` (train or test); how many others there
    are, by region.

    Both files must agree on whose a patient is: `fold2` has the number of its region.
    """
    texts = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    patients, centers, folds = (list(csv.DictReader(lines)) for lines in texts)
    regions = {row["TSS Code"]: row["Region"].lower() for row in centers}
    known = {row["pid"]: row for row in folds}
    kept, left = list[dict[str, str]](), Counter[str]()
    for row in patients:
        region = regions.get(row["pid"].split("-")[1], "unknown")
        told = known.get(row["pid"])
        if told is None:
            left[region] += 1
            continue
        if told["fold2"].split("_")[1] != str(REGIONS.index(region)):
            raise BadData(f"{row['pid']} is of {region} in {paths[1]}, and {told['fold2']} in {paths[2]}")
        kept.append({**row, "region": region, "fold": told["fold"]})
    words = ("pid", "region", "fold")
    columns = {
        name: np.array([row[name] for row in kept], dtype=object if name in words else np.float64)
        for name in kept[0]
    }
    return columns, dict(left)
