"""A table of your own, from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.data.dataset import Arrays, Dataset
from coterie.data.missing import Missing, check_missing_rule
from coterie.data.preparation import Column
from coterie.data.preparation import coded as coded_column
from coterie.data.sources.base import SOURCES, check_choice
from coterie.data.tabular import TabularPrepare

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 50  # a text column with more is a name or a remark, not a category


@SOURCES.register("table")
@dataclass(frozen=True)
class TableFile:
    """Your own CSV file: one row a sample, a target column and, for real silos, a column that says whose.

    Numbers are standardised, text becomes one column of 0 and 1 for each of its values. Means, deviations
    and stand-ins for missing values are fitted by each client on its own training rows; which values a text
    column can have is read off the whole file.
    """

    path: str = ""
    """The CSV file, with a header line."""
    target: str = ""
    """The column to predict."""
    leave_out: tuple[str, ...] = ()
    """Columns that are no inputs: names, dates, the silo to split by."""
    missing: Missing = "refuse"
    """Missing values: refuse them, drop their rows, or fill in each client's own training median."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """What the target is; auto takes a regression for fractions, else classes."""

    about: ClassVar[str] = "a CSV file of your own: --table.path FILE --table.target COLUMN"
    citation: ClassVar[str] = ""
    licence: ClassVar[str] = "yours"

    def __post_init__(self) -> None:
        check_missing_rule(self.missing)
        check_choice("task", self.task, ("auto", "classification", "regression"))

    def load(self) -> Dataset:
        frame = self._read()
        for column in (self.target, *self.leave_out):
            if column not in frame.columns:
                raise UnknownName(f"column of {self.path}", column, map(str, frame.columns))
        if gaps := int(frame[self.target].isna().sum()):
            raise BadData(
                f"{self.path}: target {self.target!r} is missing in {gaps} row(s): remove them first"
            )
        y, classes = self._targets(frame[self.target])
        inputs = frame.drop(columns=list({self.target, *self.leave_out}))
        if inputs.empty:
            raise BadData(f"{self.path}: no input columns are left: leave fewer out")
        codes, values = coded(inputs, self.path)
        prepare = TabularPrepare(
            tuple(
                coded_column(str(c), range(len(values[c])), values[c]) if c in values else Column(str(c))
                for c in map(str, inputs.columns)
            ),
            missing=self.missing,
            absent="mask" if self.missing == "median" else "refuse",
        )
        columns = {str(c): frame[c].to_numpy() for c in frame.columns}
        left = (
            f"columns left out: {', '.join(self.leave_out)}" if self.leave_out else "all columns are inputs"
        )
        return Dataset(
            name=Path(self.path).stem,
            task="classification" if classes else "regression",
            train=Arrays(codes.to_numpy(dtype=np.float64), y, columns),
            features=prepare.features,
            classes=classes,
            prepare=prepare,
            notes=(f"{len(frame)} rows of {self.path}", left),
        )

    def _read(self) -> pd.DataFrame:
        if not self.path or not self.target:
            raise BadInput("a table needs a file and a target: give --table.path FILE --table.target COLUMN")
        import pandas as pd  # only here: it takes a while to import

        try:
            return pd.read_csv(self.path)
        except OSError as error:
            raise BadInput(f"cannot read {self.path}: {error.strerror or error}: check the path") from None
        except (ValueError, UnicodeDecodeError) as error:
            raise BadData(f"{self.path} is not a CSV file: {str(error).splitlines()[0]}") from None

    def _targets(self, column: pd.Series) -> tuple[np.ndarray, tuple[str, ...]]:
        import pandas as pd

        number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        fractions = number and bool((column % 1 != 0).any())
        if self.task == "regression" or (self.task == "auto" and fractions):
            if not number:
                raise BadData(f"{self.path}: target {self.target!r} is not a number: use task=classification")
            return column.to_numpy(dtype=np.float64), ()
        found = sorted(column.unique()) if number else sorted(map(str, column.unique()))
        if len(found) < 2:
            raise BadData(f"{self.path}: target {self.target!r} is {found[0]} in every row: nothing to learn")
        shown = column if number else column.map(str)
        return shown.map({v: i for i, v in enumerate(found)}).to_numpy(dtype=np.int64), tuple(map(str, found))

    def fetch(self) -> list[Path]:
        """Nothing to fetch: the file is where you say."""
        return []

    def at_hand(self) -> bool:
        return True


def coded(inputs: pd.DataFrame, path: str) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Text as numbers of its values, in alphabetical order; and these values."""
    import pandas as pd

    codes, values = inputs.copy(), {}
    for column in inputs.columns:
        if pd.api.types.is_numeric_dtype(inputs[column]):
            continue
        found = sorted(map(str, inputs[column].dropna().unique()))
        if len(found) > MOST_VALUES:
            raise BadData(
                f"{path}: column {column!r} has {len(found)} different texts, at most {MOST_VALUES} make a "
                f"category: leave it out with --table.leave-out {column}"
            )
        index = {v: float(i) for i, v in enumerate(found)}
        codes[column] = inputs[column].map(lambda v, index=index: np.nan if pd.isna(v) else index[str(v)])
        values[str(column)] = found
    return codes, values
