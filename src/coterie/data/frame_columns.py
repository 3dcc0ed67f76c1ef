"""Columns of data frames: which are inputs, which the target, by what they are scaled, what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.core.checks import is_list, is_number
from coterie.core.errors import BadData, BadInput, UnknownName, option, shown
from coterie.data.intake import Array
from coterie.data.missing import Missing
from coterie.data.preparation import Column
from coterie.data.tabular import refuse_infinite

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 50  # a text column with more is a name or a remark, not a category


def inputs_and_target(
    frame: pd.DataFrame, target: str, leave_out: Sequence[str] = (), event: str | None = None
) -> tuple[pd.DataFrame, pd.Series[Any], pd.Series[Any] | None]:
    """The columns to learn from, the one to predict, and that of the event, if there is one; nothing of
    either may be missing.
    """
    import pandas as pd  # only here: it takes a while to import

    if not isinstance(frame, pd.DataFrame):
        raise BadData(f"a table must be a pandas DataFrame; got {type(frame).__name__}: use from_arrays")
    if frame.columns.has_duplicates:
        twin = frame.columns[frame.columns.duplicated()][0]
        raise BadData(f"column {twin!r} is there twice: rename or drop one")
    known = ", ".join(" ".join(str(c).split()) for c in frame)
    goals = {"target": target} | ({} if event is None else {"event": event})
    for what, column in goals.items():
        if column not in frame.columns:
            raise BadData(f"no {what} column {column!r}; its columns are {known}")
    if target == event:
        raise BadData(f"{target!r} is the target and the event: name the time and the event apart")
    for column in leave_out:
        if column not in frame.columns:
            raise BadData(f"no column {column!r} to leave out; its columns are {known}")
    if len(frame) == 0:
        raise BadData("the table is empty: add rows, or leave the client out")
    for what, column in goals.items():
        if gaps := int(frame[column].isna().sum()):
            raise BadData(f"{what} {column!r} is missing or NaN in {gaps} row(s): fill or drop them")
    inputs = frame.drop(columns=list({*goals.values(), *leave_out}))
    if inputs.shape[1] == 0:
        raise BadData(f"the table has no columns but {target!r} to learn from: add some")
    return inputs, frame[target], None if event is None else frame[event]


def scaled_by(
    columns: Sequence[Column], constants: Mapping[str, tuple[float, float]] | None, scale: str
) -> tuple[Column, ...]:
    """The columns with the constants given for them."""
    if constants is None:
        return tuple(columns)
    if scale != "constants":
        raise BadInput(f"constants are given, but scale={scale!r}: pass scale='constants'")
    usual = "try {'age': (50, 10)}"
    if not isinstance(constants, Mapping):
        raise BadInput(f"constants={shown(constants)} must be {{column: (center, spread)}}: {usual}")
    numbers = {c.name for c in columns if c.kind == "number"}
    for name, pair in constants.items():
        if name not in numbers:
            raise UnknownName("column of numbers in constants", name, numbers)
        if not (is_list(pair) and len(pair) == 2 and all(map(is_number, pair)) and pair[1] > 0):
            raise BadInput(
                f"constants of {name!r} are {shown(pair)}, but must be (center, spread above 0): {usual}"
            )
    return tuple(
        replace(c, center=float(constants[c.name][0]), spread=float(constants[c.name][1]))
        if c.name in constants
        else c
        for c in columns
    )


def refuse_many_texts(columns: Sequence[Column]) -> None:
    """A column with very many texts is a name or a remark; all such columns are said at once."""
    many = [c for c in columns if c.kind == "category" and len(c.values) > MOST_VALUES]
    if many:
        said = ", ".join(f"{c.name!r} ({len(c.values)})" for c in many)
        raise BadData(
            f"more than {MOST_VALUES} different texts, which is no category, in column {said}: pass "
            f"leave_out={[c.name for c in many]}"
        )


def refuse_unknown(raw: Array, columns: Sequence[Column], missing: Missing) -> None:
    """What is infinite, and, if the rule is to refuse it, missing in columns that have some value: all such
    columns at once.
    """
    refuse_infinite(raw, [c.name for c in columns], "")
    gaps = np.isnan(raw).sum(axis=0)
    partly = [f"{c.name!r} ({n})" for c, n in zip(columns, gaps, strict=True) if 0 < n < len(raw)]
    if missing == "refuse" and partly:
        raise BadData(
            f"missing or NaN values in column {', '.join(partly)}: fill or drop them, or pass "
            f"{option('missing', 'median')} or {option('missing', 'drop')}"
        )
