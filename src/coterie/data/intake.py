"""From whatever a user has to arrays that can be learned from, or a one-line refusal that names the client.

Inputs become numbers [sample, ...], targets labels counted from 0 or numbers [sample].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coterie.core.errors import BadData, BadInput

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]


def refuse_twins(frame: pd.DataFrame, name: str) -> None:
    if frame.columns.has_duplicates:
        column = frame.columns[frame.columns.duplicated()][0]
        raise BadData(f"client {name!r}: column {column!r} is there twice: rename or drop one")


def _array(values: Any, name: str, what: str) -> Array:
    try:
        return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(f"client {name!r}: {what} make no array ({reason}): give all rows one shape") from None


def inputs_of(X: Any, name: str, features: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    import pandas as pd  # only here: it takes a while to import

    if isinstance(X, pd.DataFrame):
        refuse_twins(X, name)
        for column in X.columns:
            if not (pd.api.types.is_numeric_dtype(X[column]) or pd.api.types.is_bool_dtype(X[column])):
                raise BadData(
                    f"client {name!r}: column {column!r} holds {X[column].dtype}, not numbers: "
                    "encode it first, for instance with pandas.get_dummies"
                )
        features = features or [str(c) for c in X.columns]
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    array = _array(X, name, "inputs")
    if array.dtype.kind not in "biuf":
        raise BadData(f"client {name!r}: inputs hold {array.dtype}, not numbers: encode them first")
    if array.ndim < 2:
        raise BadData(f"client {name!r}: inputs have shape {array.shape}, but need [samples, features, ...]")
    if 0 in array.shape[1:]:
        raise BadData(f"client {name!r}: inputs have shape {array.shape}, no columns to learn from: add some")
    columns = tuple(features or ())
    if columns and array.ndim == 2 and len(columns) != array.shape[1]:
        raise BadData(
            f"client {name!r}: {len(columns)} feature names for {array.shape[1]} columns: name each once"
        )
    return array, columns


def targets_of(y: Any, name: str, classes: Sequence[Any] | None) -> tuple[Array, tuple[str, ...]]:
    import pandas as pd

    if isinstance(y, pd.Series):
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
    if array.dtype.kind == "O" and pd.isna(array).any():
        raise BadData(f"client {name!r}: a target is missing: fill or drop it")
    if classes is not None and len(set(classes)) < max(len(classes), 1):
        raise BadInput(f"client {name!r}: classes={list(classes)} must name at least one, each once")
    if array.dtype == bool and classes is None:
        classes = [False, True]
    if classes is not None and array.dtype.kind in "biu" and array.size and isinstance(classes[0], str):
        # already numbered, the names are for reading
        if array.min() < 0 or array.max() >= len(classes):
            raise BadData(
                f"client {name!r}: labels run from {array.min()} to {array.max()}, "
                f"but {len(classes)} classes allow 0 to {len(classes) - 1}"
            )
        return array.astype(np.int64), tuple(map(str, classes))
    if classes is not None:
        index = {c: i for i, c in enumerate(classes)}
        strange = [v for v in pd.unique(array).tolist() if v not in index]
        if strange:
            raise BadData(f"client {name!r}: label {strange[0]!r} is not among the classes {list(classes)}")
        return np.array([index[v] for v in array], dtype=np.int64), tuple(map(str, classes))
    if array.dtype.kind in "USO":
        found = sorted({str(v) for v in array})
        return np.array([found.index(str(v)) for v in array], dtype=np.int64), tuple(found)
    if array.dtype.kind in "iu":
        if array.size and array.min() < 0:
            raise BadData(
                f"client {name!r}: label {array.min()} is negative; labels count from 0: pass classes=[...]"
            )
        return array.astype(np.int64), ()
    return array, ()


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


def read_pairs(dataset: torch.utils.data.Dataset[Any], name: str) -> tuple[Array, Array]:
    if not hasattr(dataset, "__len__"):
        raise BadData(
            f"client {name!r}: a dataset without a length cannot be read once: give a map-style one"
        )
    if len(dataset) == 0:
        raise BadData(f"client {name!r} is empty: add samples or leave it out")
    try:
        pairs = [(np.asarray(x), np.asarray(y)) for x, y in (dataset[i] for i in range(len(dataset)))]
        return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    except (ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise BadData(
            f"client {name!r}: dataset must give (input, target) pairs of one shape ({reason})"
        ) from None
