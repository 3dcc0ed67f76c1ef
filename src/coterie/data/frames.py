"""Data frames as tables of raw numbers: what kind each column is, and the numbers that stand for its texts.

number     any numeric column, and one of objects that are all numbers
flag       true and false
category   texts, or anything else of a pandas Categorical; its values are those that the Categorical lists,
           else those found, in order

Dates and anything else are refused: nobody but their owner knows what number they should become. Pandas is
imported where it is used, as that takes a while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.core.checks import is_list, is_name, is_number
from coterie.core.errors import BadData, BadInput, CoterieError, Several, UnknownName, option, shown
from coterie.data.intake import Array
from coterie.data.partition.silos import text_of
from coterie.data.preparation import Column
from coterie.data.tabular import Missing, refuse_infinite

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 50  # a text column with more is a name or a remark, not a category
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


def columns_of(frame: pd.DataFrame) -> tuple[Column, ...]:
    """Each column by name, as all rows together show it."""
    names = [str(c) for c in frame.columns]
    if twins := [name for name in names if names.count(name) > 1]:
        raise BadData(f"column {twins[0]!r} is there twice: rename or drop one")
    return tuple(_column_of(name, frame.iloc[:, i]) for i, name in enumerate(names))


def _column_of(name: str, values: pd.Series[Any]) -> Column:
    import pandas as pd
    from pandas.api import types

    if isinstance(values.dtype, pd.CategoricalDtype):
        return _category(name, list(values.cat.categories))
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
    return _category(name, sorted(set(known)))


def _category(name: str, values: Sequence[Any]) -> Column:
    return Column(name, "category", tuple(map(str, values)), tuple(map(float, range(len(values)))))


def raw_of(frame: pd.DataFrame, columns: Sequence[Column]) -> Array:
    """[row, column] numbers, NaN where unknown; the frame's columns are taken in this order."""
    made = [_raw_column(frame.iloc[:, i], column) for i, column in enumerate(columns)]
    return np.column_stack(made) if made else np.zeros((len(frame), 0))


def _raw_column(values: pd.Series[Any], column: Column) -> Array:
    """[row]; refuses what a column of this kind cannot hold."""
    gone = values.isna().to_numpy()
    made = np.full(len(values), np.nan)
    if column.kind == "category":
        codes = dict(zip(column.values, column.codes, strict=True))
        texts = [str(v) for v in values[~gone]]
        strange = [i for i, text in enumerate(texts) if text not in codes]
        if strange:
            row, may = np.flatnonzero(~gone)[strange[0]] + 1, ", ".join(column.values)
            raise BadData(
                f"column {column.name!r} holds {texts[strange[0]]!r} in row {row}, but may hold {may}: "
                "correct or blank that value"
            )
        made[~gone] = [codes[text] for text in texts]
        return made
    try:
        made[~gone] = values[~gone].to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadData(f"column {column.name!r} holds no numbers ({reason}): correct or blank them") from None
    return made


def _inputs_and_target(
    frame: pd.DataFrame, target: str, leave_out: Sequence[str] = (), event: str | None = None
) -> tuple[pd.DataFrame, pd.Series[Any], pd.Series[Any] | None]:
    """The columns to learn from, the one to predict, and that of the event, if there is one; nothing of
    either may be missing.
    """
    import pandas as pd

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


def rows_of_frame(
    frame: pd.DataFrame,
    target: str,
    event: str | None,
    leave_out: Sequence[str],
    constants: Mapping[str, tuple[float, float]] | None,
    scale: str,
    missing: Missing,
) -> tuple[tuple[Column, ...], Array, pd.Series[Any], pd.Series[Any] | None]:
    """One client's columns, raw numbers [row, column], targets and events."""
    x, goal, seen = _inputs_and_target(frame, target, leave_out, event)
    columns = _scaled_by(columns_of(x), constants, scale)
    _refuse_many_texts(columns)
    raw = raw_of(x, columns)
    _refuse_unknown(raw, columns, missing)
    return columns, raw, goal, seen


def _scaled_by(
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
    numbers = {c.name for c in columns if c.scaled}
    for name, pair in constants.items():
        if name not in numbers:
            raise UnknownName("column of numbers in constants", name, numbers)
        if not (is_list(pair) and len(pair) == 2 and all(map(is_number, pair)) and pair[1] > 0):
            raise BadInput(
                f"constants of {name!r} are {shown(pair)}, but must be (center, spread above 0): {usual}"
            )
    given = {name: (float(center), float(spread)) for name, (center, spread) in constants.items()}
    pairs = ((c, *given.get(c.name, (c.center, c.spread))) for c in columns)
    return tuple(replace(c, center=center, spread=spread) for c, center, spread in pairs)


def _refuse_many_texts(columns: Sequence[Column]) -> None:
    """A column with very many texts is a name or a remark; all such columns are said at once."""
    many = [c for c in columns if not c.of.ranked and len(c.values) > MOST_VALUES]
    if many:
        said = ", ".join(f"{c.name!r} ({len(c.values)})" for c in many)
        raise BadData(
            f"more than {MOST_VALUES} different texts, which is no category, in column {said}: pass "
            f"leave_out={[c.name for c in many]}"
        )


def _refuse_unknown(raw: Array, columns: Sequence[Column], missing: Missing) -> None:
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


# frames of several sites


class FrameRows(NamedTuple):
    """Of all tables: raw numbers [row, column], targets [row], and whose each row is."""

    columns: tuple[Any, ...]
    raw: Array
    y: Any
    event: Any
    owner: list[str]


def rows_of_frames(
    frames: Mapping[str, pd.DataFrame],
    target: str,
    event: str | None,
    site: str | None,
    leave_out: Sequence[str],
    constants: Mapping[str, tuple[float, float]] | None,
    scale: str,
    missing: Missing,
) -> FrameRows:
    """Tables one below the other; a column that one lacks is unknown there."""
    import pandas as pd

    if site is not None:
        frames = _by_site(frames[""], site)
    parts: dict[str, tuple[pd.DataFrame, pd.Series[Any], pd.Series[Any] | None]] = {}
    troubles = list[str]()
    left = {c for f in frames.values() for c in leave_out if c in f.columns}
    for name, frame in frames.items():
        try:
            with naming_client(name):
                here = [c for c in leave_out if c in frame.columns or c not in left]
                parts[name] = _inputs_and_target(frame, target, here, event)
        except CoterieError as error:
            troubles.append(str(error))
    refuse(troubles)
    inputs = _one_below_the_other([x for x, _, _ in parts.values()])
    columns = _scaled_by(columns_of(inputs), constants, scale)
    _refuse_many_texts(columns)
    raw = raw_of(inputs, columns)
    owner = [name for name, (x, _, _) in parts.items() for _ in range(len(x))]
    for name in parts:
        try:
            with naming_client(name):
                _refuse_unknown(raw[np.array(owner) == name], columns, missing)
        except BadData as error:
            troubles.append(str(error))
    refuse(troubles)
    y = pd.concat([y for _, y, _ in parts.values()], ignore_index=True)
    seen = [e for _, _, e in parts.values() if e is not None]
    return FrameRows(columns, raw, y, pd.concat(seen, ignore_index=True) if seen else None, owner)


def _by_site(frame: pd.DataFrame, site: str) -> dict[str, pd.DataFrame]:
    """A table's rows by the values of a column, which is no input."""
    if site not in frame.columns:
        raise BadData(f"no site column {site!r}; its columns are {', '.join(map(str, frame.columns))}")
    texts = [text_of(None if gone else v) for v, gone in zip(frame[site], frame[site].isna(), strict=True)]
    if None in texts:
        raise BadData(
            f"site column {site!r} is missing in {texts.count(None)} row(s): fill it in, or drop them"
        )
    owner = np.array(texts, dtype=object)
    for name in dict.fromkeys(texts):
        if not is_name(name):
            raise BadData(f"site column {site!r} holds {shown(name)}, which is no name: correct it")
    rest = frame.drop(columns=[site])
    return {str(name): rest[owner == name] for name in dict.fromkeys(texts)}


def _one_below_the_other(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One below the other; a column that is categorical anywhere keeps the categories of all."""
    import pandas as pd

    made = {}
    for column in dict.fromkeys(c for f in frames for c in f.columns):
        own = [f[column] if column in f.columns else pd.Series([None] * len(f), dtype=object) for f in frames]
        known = [s for s in own if len(s) and s.notna().any()]
        listed = [s for s in known if isinstance(s.dtype, pd.CategoricalDtype)]
        if listed:
            values = [v for s in own for v in s.astype(object)]
            categories = dict.fromkeys(str(c) for s in listed for c in s.cat.categories)
            made[column] = pd.Series(
                pd.Categorical([v if pd.isna(v) else str(v) for v in values], categories=list(categories))
            )
        else:
            kinds = {s.dtype for s in known}
            filled = [s.astype(object) if len(kinds) > 1 or s.dtype not in kinds else s for s in own]
            made[column] = pd.concat(filled, ignore_index=True)
    return pd.DataFrame(made)


def refuse(troubles: Sequence[str]) -> None:
    """All of them at once."""
    if len(troubles) > 1:
        raise Several(troubles)
    if troubles:
        raise BadData(troubles[0])


@contextlib.contextmanager
def naming_client(name: str) -> Iterator[None]:
    """What is refused within says whose data it is."""
    try:
        yield
    except Several as error:
        raise Several([f"client {name!r}: {line}" for line in error.lines]) from None
    except (BadData, BadInput) as error:
        kind = BadData if isinstance(error, BadData) else BadInput
        raise kind(f"client {name!r}: {error}") from None
