"""Missing values in tables, by a named rule that is fitted on training rows only.

refuse   a missing value is an error that names the column
drop     rows with a missing value are left out, and counted
median   a number becomes its column's median, anything else its most frequent value; a column
         without a single known training value becomes 0
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from coterie.core.errors import BadData, UnknownName

if TYPE_CHECKING:
    import pandas as pd

Missing = Literal["refuse", "drop", "median"]


def check_missing_rule(rule: str) -> None:
    if rule not in get_args(Missing):
        raise UnknownName("rule for missing values", rule, get_args(Missing))


def gaps_in(frame: pd.DataFrame) -> dict[Hashable, int]:
    """How many values each column lacks."""
    return {column: int(frame[column].isna().sum()) for column in frame.columns}


def refuse_missing(gaps: Mapping[Any, int], whose: str) -> None:
    for column, count in gaps.items():
        if count:
            raise BadData(
                f"{whose}: column {column!r} has {count} missing or NaN value(s): "
                "fill or drop them, or pass missing='median' or missing='drop'"
            )


def fit_median(train: pd.DataFrame) -> dict[Hashable, object]:
    """The value that stands in for a missing one, for each column."""
    import pandas as pd  # only here: it takes a while to import

    fills: dict[Hashable, object] = {}
    for column in train.columns:
        known = train[column].dropna()
        if known.empty:
            fills[column] = 0
        elif pd.api.types.is_numeric_dtype(known) and not pd.api.types.is_bool_dtype(known):
            fills[column] = float(known.median())
        else:
            fills[column] = known.mode().iloc[0]
    return fills


def fill_missing(
    frame: pd.DataFrame, fills: dict[Hashable, object]
) -> tuple[pd.DataFrame, dict[Hashable, int]]:
    """The frame without gaps, and how many were filled in each column that had some."""
    import pandas as pd

    counts = {column: count for column, count in gaps_in(frame).items() if count}
    filled = frame.copy()
    for column in counts:
        known = frame[column]
        if pd.api.types.is_numeric_dtype(known) and not pd.api.types.is_bool_dtype(known):
            known = known.astype("float64")  # a column of integers cannot hold a median of 1.5
        filled[column] = known.where(known.notna(), fills[column]).infer_objects()
    return filled, counts
