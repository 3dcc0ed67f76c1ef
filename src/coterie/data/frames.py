"""Data frames as tables of raw numbers: what kind each column is, and the numbers that stand for its texts.

number     any numeric column, and one of objects that are all numbers
flag       true and false
category   texts, or anything else of a pandas Categorical; its values are those that the Categorical lists,
           else those found, in order

Dates and anything else are refused: nobody but their owner knows what number they should become.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from coterie.core.errors import BadData
from coterie.data.intake import Array
from coterie.data.preparation import Column

NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


def columns_of(frame: pd.DataFrame) -> tuple[Column, ...]:
    """Each column by name, as all rows together show it."""
    names = [str(c) for c in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise BadData(f"column {name!r} is there twice: rename or drop one")
    return tuple(column_of(name, frame.iloc[:, i]) for i, name in enumerate(names))


def column_of(name: str, values: pd.Series[Any]) -> Column:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return category(name, list(values.cat.categories))
    if types.is_bool_dtype(values.dtype):
        return Column(name, "flag")
    if types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype):
        return Column(name)
    known = values.dropna()
    found = types.infer_dtype(known)
    if found in NUMBERS or known.empty:
        return Column(name)
    if found == "boolean":
        return Column(name, "flag")
    if found != "string":
        raise BadData(
            f"column {name!r} holds {found} ({values.dtype}), neither numbers nor texts: leave it out, or "
            "make numbers of it, such as days since a date"
        )
    return category(name, sorted(set(known)))


def category(name: str, values: Sequence[Any]) -> Column:
    return Column(name, "category", tuple(map(str, values)), tuple(map(float, range(len(values)))))


def raw_of(frame: pd.DataFrame, columns: Sequence[Column]) -> Array:
    """[row, column] numbers, NaN where unknown; the frame's columns are taken in this order."""
    made = [raw_column(frame.iloc[:, i], column) for i, column in enumerate(columns)]
    return np.column_stack(made) if made else np.zeros((len(frame), 0))


def raw_column(values: pd.Series[Any], column: Column) -> Array:
    """[row]; refuses what a column of this kind cannot hold."""
    gone = values.isna().to_numpy()
    made = np.full(len(values), np.nan)
    if column.kind == "category":
        codes = dict(zip(column.values, column.codes, strict=True))
        texts = [str(v) for v in values[~gone]]
        strange = [i for i, text in enumerate(texts) if text not in codes]
        if strange:
            raise BadData(
                f"column {column.name!r} holds {texts[strange[0]]!r} in row "
                f"{np.flatnonzero(~gone)[strange[0]] + 1}, but may hold {', '.join(column.values)}: correct "
                "or blank that value"
            )
        made[~gone] = [codes[text] for text in texts]
        return made
    try:
        made[~gone] = values[~gone].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadData(f"column {column.name!r} holds no numbers ({reason}): correct or blank them") from None
    return made
