"""What `tables.toml` says of each table, and the few that need more than a choice of columns.

A file lies inside a package of the package index, which is not imported for it, or among Coterie's own data.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

Task = Literal["classification", "regression", "survival"]
Change = Callable[[pd.DataFrame], pd.DataFrame]
OWN = "coterie"
"""Read by Coterie's own sources, which check their files: `coterie data fetch NAME`."""


def half_a_day(frame: pd.DataFrame, time: str) -> pd.DataFrame:
    """Who was watched for 0 days gets half a day: before any event, so in no risk set and no pair."""
    return frame.assign(**{time: frame[time].where(frame[time] > 0, 0.5)})


def lung(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(died=(frame["status"] == 2).astype(int))


def aids(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(days=frame["death"] - frame["diag"], died=(frame["status"] == "D").astype(int))
    return half_a_day(frame, "days")


def flchain(frame: pd.DataFrame) -> pd.DataFrame:
    return half_a_day(frame, "futime")


def brca(frame: pd.DataFrame) -> pd.DataFrame:
    return half_a_day(frame, "T")


def births(frame: pd.DataFrame) -> pd.DataFrame:
    """Blanks are missing values."""
    texts = frame.select_dtypes(exclude="number").columns
    return frame.assign(**{c: frame[c].astype(str).str.strip().replace("", np.nan) for c in texts})


def heart(frame: pd.DataFrame) -> pd.DataFrame:
    """A blood pressure or cholesterol of 0 was not measured."""
    return frame.assign(**{c: frame[c].where(frame[c] != 0) for c in ("trestbps", "chol")})


CHANGES: dict[str, Change] = {
    change.__name__: change for change in (lung, aids, flchain, brca, births, heart)
}


@dataclass(frozen=True)
class Table:
    """One table. `site`, `target`, `event` and `person` name columns, `numbers` and `categories` the inputs;
    without any, all other columns are numbers. `rows` are those of the file, `minimum` those of a site.

    `left_out` says which columns are no inputs and why, and what else is done beside the rules for all
    (`reading.tidy`).
    """

    name: str
    task: Task
    file: str
    rows: int
    sites: str
    site: str
    target: str
    cited: str
    package: str = OWN
    sha256: str = ""
    event: str = ""
    person: str = ""
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    minimum: int = 20
    derived: str = ""
    left_out: str = ""

    def changed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """With the columns that this table needs beside those of its file."""
        return CHANGES[self.derived](frame) if self.derived else frame


def catalogue() -> dict[str, Table]:
    """All tables by name, in the order of the file."""
    entries: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text())
    lists = ("numbers", "categories")
    return {
        name: Table(name, **{k: tuple(v.split()) if k in lists else v for k, v in entry.items()})
        for name, entry in entries.items()
    }


TABLES = catalogue()
