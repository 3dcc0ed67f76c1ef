"""From whatever a user has to arrays that can be learned from, or a one-line refusal that names the client.

Inputs become numbers [sample, ...], targets labels counted from 0 or numbers [sample].
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.errors import BadData, BadInput, CoterieWarning, option, shown
from coterie.data.tables.texts import number_of
from coterie.data.targets import FEW, asked_of, kind_of_numbers, said_of

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]
TaskChoice = Literal["auto", "classification", "regression", "survival"]

Source = Literal["arrays", "table", "tables"]
"""Where targets come from: an array of one client, a column of one client's table, or of all clients'."""
ARRAYS: Source = "arrays"
TABLE: Source = "table"
TABLES: Source = "tables"

MOST_CLASSES = 2**16
MANY_UNUSED, UNUSED = 100, 10  # highest label, and times as high as there are labels, that are worth a word
FAR = 30.0  # a standardised value is nearer than that, but for mistakes
PLAIN = {"integer": np.int64, "floating": np.float64, "mixed-integer-float": np.float64, "boolean": np.bool_}


def refuse_twins(frame: pd.DataFrame, name: str) -> None:
    if frame.columns.has_duplicates:
        column = frame.columns[frame.columns.duplicated()][0]
        raise BadData(f"client {name!r}: column {column!r} is there twice: rename or drop one")


def _array(values: Any, name: str, what: str) -> Array:
    try:
        return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(f"client {name!r}: {what} make no array ({reason}): give all rows one shape") from None


def inputs_of(X: Any, name: str, features: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    import pandas as pd  # only here: it takes a while to import

    if isinstance(X, pd.DataFrame):
        refuse_twins(X, name)
        for column in X.columns:
            kind = X[column].dtype
            if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
                raise BadData(
                    f"client {name!r}: column {column!r} holds {kind}, not numbers: "
                    "use Client.from_frame or clients_from, which encode it"
                )
        features = [str(c) for c in X.columns] if features is None else features
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    array = _array(X, name, "inputs")
    if array.dtype.kind not in "biuf":
        raise BadData(f"client {name!r}: inputs hold {array.dtype}, not numbers: encode them first")
    if array.ndim < 2:
        raise BadData(f"client {name!r}: inputs have shape {array.shape}, but need [samples, features, ...]")
    if 0 in array.shape[1:]:
        raise BadData(f"client {name!r}: inputs have shape {array.shape}, no columns to learn from: add some")
    columns = () if features is None else tuple(features)
    if columns and array.ndim == 2 and len(columns) != array.shape[1]:
        raise BadData(
            f"client {name!r}: {len(columns)} feature names for {array.shape[1]} columns: name each once"
        )
    return array, columns


def targets_of(
    y: Any, name: str, classes: Sequence[Any] | None, task: TaskChoice = "auto", source: Source = ARRAYS
) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
    """Labels counted from 0, or numbers [sample]; the classes, if they have names; what is worth saying.

    In a column of a table whole numbers are labels only if they are few (`data/targets.py`); of all tables
    together classes are those found, so that of 1 and 2 there are two.
    """
    array, listed = _labels(y, name)
    classes = listed if classes is None and task != "regression" else classes
    if classes is None and task != "classification":
        array = _numbers_in(array, name, task)
    if task == "regression":
        if classes is not None or array.dtype.kind not in "biuf":
            what = "classes are given" if classes is not None else f"they hold {array.dtype}"
            raise BadData(
                f"client {name!r}: targets of a regression are numbers, but {what}: "
                "pass task='classification'"
            )
        return array.astype(np.float64), (), ()
    notes: tuple[str, ...] = ()
    if array.dtype.kind in "iu" and classes is None and task == "auto":
        array, notes = _decided(array, name, source)
    elif array.dtype.kind == "f" and (classes is None or isinstance(next(iter(classes), None), str)):
        array, notes = _whole_labels(array, name, task, given=classes is not None)
    if array.dtype == bool and classes is None:
        classes = [False, True]
    if classes is not None:
        return *_numbered(array, name, list(classes)), notes
    if array.dtype.kind in "USO":
        texts = np.array([str(v) for v in array])
        found, numbers = np.unique(texts, return_inverse=True)
        if task == "auto" and len(found) > max(FEW, len(texts) // 2):
            raise BadData(
                f"client {name!r}: targets hold {len(found)} different texts in {len(texts)} rows, which are "
                f"no classes: name another target, or pass {option('task', 'classification', 'table')}"
            )
        _refuse_many(len(found) - 1, name)
        return numbers.astype(np.int64), tuple(map(str, found)), notes
    if array.dtype.kind in "iu":
        found = np.unique(array)
        if source == TABLES and found.tolist() != list(range(len(found))):
            _refuse_many(len(found) - 1, name)
            return np.searchsorted(found, array), tuple(map(str, found.tolist())), notes
        if array.size and array.min() < 0:
            raise BadData(
                f"client {name!r}: label {array.min()} is negative; labels count from 0: pass classes=[...]"
            )
        _refuse_many(int(array.max()) if array.size else 0, name)
        return array.astype(np.int64), (), notes
    return array, (), notes


def _labels(y: Any, name: str) -> tuple[Array, list[Any] | None]:
    """Targets [sample] as an array of one kind; and the categories of a pandas Categorical."""
    import pandas as pd

    listed = None
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    if isinstance(y, pd.Series | pd.Categorical):
        y = pd.Series(y)
        listed = list(y.cat.categories) if isinstance(y.dtype, pd.CategoricalDtype) else None
        y = y.to_numpy()
    array = _array(y, name, "targets")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadData(f"client {name!r}: targets have shape {array.shape}, but need [samples]")
    if array.dtype.kind not in "biufUSO":
        raise BadData(
            f"client {name!r}: targets hold {array.dtype}, not labels or numbers: convert them first"
        )
    if array.dtype.kind == "O":
        if pd.isna(array).any():
            raise BadData(f"client {name!r}: a target is missing: fill or drop it")
        found = pd.api.types.infer_dtype(array)
        if found == "integer" and max(map(abs, array.tolist())) >= 2**63:
            raise BadData(f"client {name!r}: a target is beyond 64 bits: name labels in classes=[...]")
        if found in PLAIN:
            array = array.astype(PLAIN[found])
        elif found not in ("string", "categorical"):
            raise BadData(
                f"client {name!r}: targets hold {found} objects, not labels or numbers: convert them first"
            )
    return array, listed


def _numbers_in(array: Array, name: str, task: str) -> Array:
    """Texts that are all numbers, as these; unless they are told to be numbers, those that are few enough for
    classes stay as they are written. Numbers with a decimal comma are for a person to convert.
    """
    if array.dtype.kind not in "USO" or not len(array):
        return array
    try:
        values = np.array([float(v) for v in array], dtype=np.float64)
    except (TypeError, ValueError):
        commas = [number_of(str(v), ",") for v in array]
        written = [v for v in commas if v is not None]
        if len(written) < len(array) or kind_of_numbers(written, len(array)).kind == "classes":
            return array
        cell = next(str(v) for v in array if "," in str(v))
        raise BadData(
            f"client {name!r}: targets such as {cell!r} are numbers with a decimal comma: write them with a "
            f"point, or pass {option('task', 'classification', 'table')} if they are classes"
        ) from None
    few = task == "auto" and kind_of_numbers(values, len(values)).kind == "classes"
    if not np.isfinite(values).all() or few:
        return array
    whole = (values == np.round(values)).all() and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if whole else values


def _decided(array: Array, name: str, source: Source) -> tuple[Array, tuple[str, ...]]:
    """Whole numbers by the rule for all doors; what is decided against the usual reading is said."""
    decision = kind_of_numbers(np.unique(array).tolist(), len(array), labels=source == ARRAYS)
    if decision.kind == "either":
        raise BadData(asked_of(f"client {name!r}: targets", decision))
    many = len(np.unique(array))
    if decision.kind == "classes":
        return array, (said_of("targets", decision),) if many > 2 and source != ARRAYS else ()
    said = said_of("targets", decision)
    warnings.warn(said, CoterieWarning, stacklevel=6)
    return array.astype(np.float64), (said,)


def _whole_labels(array: Array, name: str, task: str, given: bool) -> tuple[Array, tuple[str, ...]]:
    """Fractions that are whole numbers: 0.0 and 1.0 are two classes, and said to be; where a few others could
    be either, a person decides. Names of classes decide too (`given`).
    """
    finite = bool(np.isfinite(array).all())
    found = np.unique(array) if finite else array[:0]
    whole = finite and bool((found == np.round(found)).all()) and bool((np.abs(found) < 2**53).all())
    if task == "classification" and not whole:
        raise BadData(f"client {name!r}: targets hold fractions, not labels: pass classes=[...] to name them")
    if whole and (task == "classification" or given):
        return array.astype(np.int64), ()
    if whole and len(found) and set(found.tolist()) <= {0.0, 1.0}:
        said = "targets 0.0 and 1.0 taken as classes: pass task='regression' if they are numbers to predict"
        warnings.warn(said, CoterieWarning, stacklevel=5)
        return array.astype(np.int64), (said,)
    if whole and 0 < len(found) <= min(FEW, len(array) // 2):
        some = ", ".join(f"{v:g}" for v in found)
        raise BadData(
            f"client {name!r}: targets {some} may be classes or numbers: pass task='classification' or "
            "task='regression'"
        )
    return array, ()


def _numbered(array: Array, name: str, classes: list[Any]) -> tuple[Array, tuple[str, ...]]:
    """Labels as the numbers of these classes, which are then called by their names."""
    import pandas as pd

    if len(set(classes)) < max(len(classes), 1):
        raise BadInput(f"client {name!r}: classes={shown(classes)} must name at least one, each once")
    _refuse_many(len(classes) - 1, name)
    if array.dtype.kind in "biu" and array.size and isinstance(classes[0], str):
        # already numbered, the names are for reading
        if array.min() < 0 or array.max() >= len(classes):
            raise BadData(
                f"client {name!r}: labels run from {array.min()} to {array.max()}, "
                f"but {len(classes)} classes allow 0 to {len(classes) - 1}"
            )
        return array.astype(np.int64), tuple(map(str, classes))
    index = {c: i for i, c in enumerate(classes)}
    strange = [v for v in pd.unique(array).tolist() if v not in index]
    if strange:
        raise BadData(f"client {name!r}: label {strange[0]!r} is not among the classes {shown(classes)}")
    return np.array([index[v] for v in array], dtype=np.int64), tuple(map(str, classes))


def _refuse_many(highest: int, name: str) -> None:
    """A model has one output for each number up to the highest label."""
    if highest >= MOST_CLASSES:
        raise BadData(
            f"client {name!r}: label {highest} asks for as many outputs, at most {MOST_CLASSES} are possible:"
            " count labels from 0, name them in classes=[...], or pass task='regression'"
        )


def check_rows(x: Array, y: Array, name: str, columns: tuple[str, ...]) -> None:
    if len(x) != len(y):
        raise BadData(f"client {name!r}: {len(x)} inputs but {len(y)} targets: give one target for each")
    if len(y) == 0:
        raise BadData(f"client {name!r} is empty: add samples or leave it out")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite to us
        bad = ~np.isfinite(x.reshape(len(x), -1).astype(np.float32))
        y_bad = y.dtype.kind == "f" and not np.isfinite(y.astype(np.float32)).all()
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        label = repr(columns[column]) if columns and x.ndim == 2 else str(column)
        value = x.reshape(len(x), -1)[row, column]
        raise BadData(
            f"client {name!r}: column {label} is {value} in row {row} "
            f"({int(bad.sum())} such values): fill or drop them"
        )
    if y_bad:
        raise BadData(f"client {name!r}: a target is NaN or infinite: fill or drop it")


def unused_labels(y: Array, name: str, names: Sequence[str]) -> tuple[str, ...]:
    """A note, and a warning, of class numbers so high that most of a model's outputs stand for nothing."""
    if y.dtype.kind != "i" or names or not len(y):
        return ()
    highest, many = int(y.max()), len(np.unique(y))
    if highest < MANY_UNUSED or highest < UNUSED * many:
        return ()
    said = (
        f"labels of client {name!r} go up to {highest}, with {many} different ones: the model gets "
        f"{highest + 1} outputs; name them in classes=[...], or pass task='regression' if they are numbers"
    )
    warnings.warn(said, CoterieWarning, stacklevel=4)
    return (said,)


def far_off(x: Array, name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """A note, and a warning, of training inputs so far from 0 that steps of a usual size may overshoot."""
    with np.errstate(over="ignore"):
        reach = np.abs(np.asarray(x, dtype=np.float64).reshape(len(x), -1)).max(axis=0, initial=0.0)
    far = np.flatnonzero(reach > FAR)
    if not len(far):
        return ()
    table = x.ndim == 2
    far = far[np.argsort(-reach[far], kind="stable")]
    called = [repr(columns[i]) if table and len(columns) > i else str(i) for i in far.tolist()]
    others = f" (and {len(far) - 1} more beyond {FAR:g})" if len(far) > 1 else ""
    which, remedy = f"column {called[0]}", "standardise it, or use clients_from"
    if not table:
        which, others, remedy = "an input", "", "divide pictures by 255, for instance"
    warnings.warn(
        f"{which} of client {name!r} reaches {reach[far[0]]:g}{others}: {remedy}",
        CoterieWarning,
        stacklevel=4,
    )
    some = [f"{c} reaches {reach[i]:g}" for c, i in zip(called[:5], far, strict=False)]
    said = "standardise them or use clients_from" if table else remedy
    return (f"inputs far from 0, {said}: {', '.join(some)}{', ...' if len(far) > 5 else ''}",)


def read_pairs(dataset: torch.utils.data.Dataset[Any], name: str) -> tuple[Array, Array]:
    try:
        rows = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise BadData(
            f"client {name!r}: a dataset without a length cannot be read once: give a map-style one"
        ) from None
    if rows == 0:
        raise BadData(f"client {name!r} is empty: add samples or leave it out")
    try:
        pairs = [(np.asarray(x), np.asarray(y)) for x, y in (dataset[i] for i in range(rows))]
        return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(
            f"client {name!r}: dataset must give (input, target) pairs of one shape ({reason})"
        ) from None
