"""What is predicted: labels, numbers, or times and events, of what a person gives, or why they are refused.

Whether numbers are classes or numbers, where nobody said so, has one rule for every door:

    fractions                                        numbers
    up to 20 different whole numbers                 classes
    more, in a column of a table                     numbers
    more, as an array of integers:
        all from 0 on without a gap, twice or more   classes: labels, counted as people count them
        with gaps, twice or more on average          a person decides: some labels of many, or scores
        else                                         numbers

All sites' values are looked at together, wherever they are at hand together. Whoever gives a task, classes,
or a column of categories has said so, and nothing is decided here.

Times and events are +t where the event was seen at t, -t where a row was watched until t without.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.core.errors import BadData, BadInput, CoterieWarning, option, shown
from coterie.data.intake import Array, TaskChoice, as_array
from coterie.data.tables.texts import number_of

FEW = 20  # different whole numbers that are taken for classes
SEVERAL = 2  # rows of a value that stand for a label

FRACTIONS = "fractions"

Kind = Literal["classes", "numbers", "either"]


class _Decision(NamedTuple):
    kind: Kind
    why: str


def kind_of_numbers(values: Collection[float], rows: int, labels: bool = False) -> _Decision:
    """Of the different values that a target has in so many rows; `labels`: an array of integers, not a column
    of a table.
    """
    found = np.unique(np.asarray(list(values), dtype=np.float64))
    many = len(found)
    if not is_whole(found):
        return _Decision("numbers", FRACTIONS)
    if many <= FEW:
        return _Decision("classes", f"{many} different whole numbers")
    why = f"{many} different whole numbers in {rows} rows"
    if not labels or rows < SEVERAL * many or found[0] < 0:
        return _Decision("numbers", why)
    if found[0] == 0 and found[-1] == many - 1:
        return _Decision("classes", f"all whole numbers from 0 to {many - 1}")
    return _Decision("either", f"{why}, from {found[0]:g} to {found[-1]:g} with gaps")


def is_whole(found: npt.NDArray[np.float64]) -> bool:
    return bool((found == np.round(found)).all() and (np.abs(found) < 2**53).all())


def said_of(what: str, decision: _Decision) -> str:
    """What was decided, and how to say otherwise."""
    if decision.kind == "classes":
        return (
            f"{what} taken as classes ({decision.why}); pass {option('task', 'regression', 'table')} if "
            "they are numbers to predict"
        )
    return (
        f"{what} taken as numbers to predict, a regression ({decision.why}); pass "
        f"{option('task', 'classification', 'table')} if they are classes"
    )


Source = Literal["arrays", "table", "tables"]
"""Where targets come from: an array of one client, a column of one client's table, or of all clients'."""
PLAIN = {"integer": np.int64, "floating": np.float64, "mixed-integer-float": np.float64, "boolean": np.bool_}
MOST_CLASSES = 2**16


def _targets_of(
    y: Any, name: str, classes: Sequence[Any] | None, task: TaskChoice = "auto", source: Source = "arrays"
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
        if source == "tables" and found.tolist() != list(range(len(found))):
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
    array = as_array(y, name, "targets")
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
    return values.astype(np.int64) if is_whole(values) else values


def _decided(array: Array, name: str, source: Source) -> tuple[Array, tuple[str, ...]]:
    """Whole numbers by the rule for all doors; what is decided against the usual reading is said."""
    decision = kind_of_numbers(np.unique(array).tolist(), len(array), labels=source == "arrays")
    if decision.kind == "either":
        one, other = (option("task", task, "table") for task in ("classification", "regression"))
        what = f"client {name!r}: targets may be classes or numbers"
        raise BadData(f"{what} ({decision.why}): pass {one} or {other}")
    many = len(np.unique(array))
    if decision.kind == "classes":
        return array, (said_of("targets", decision),) if many > 2 and source != "arrays" else ()
    said = said_of("targets", decision)
    warnings.warn(said, CoterieWarning, stacklevel=6)
    return array.astype(np.float64), (said,)


def _whole_labels(array: Array, name: str, task: str, given: bool) -> tuple[Array, tuple[str, ...]]:
    """Fractions that are whole numbers: 0.0 and 1.0 are two classes, and said to be; where a few others could
    be either, a person decides. Names of classes decide too (`given`).
    """
    finite = bool(np.isfinite(array).all())
    found = np.unique(array) if finite else array[:0]
    whole = finite and is_whole(found)
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


MERGED = 0.01  # of the times, at most, may tie by rounding
REMEDY = "correct the row, or leave it out"


def goals_of(
    y: Any,
    event: Any,
    name: str,
    classes: Sequence[Any] | None,
    task: TaskChoice = "auto",
    source: Source = "arrays",
) -> tuple[Array, tuple[str, ...], tuple[str, ...]]:
    """Targets as `_targets_of` has them; with events, or of a survival, signed times."""
    if event is None and task != "survival":
        return _targets_of(y, name, classes, task, source)
    whose = f"client {name!r}: "
    if classes is not None or task not in ("auto", "survival"):
        beside = "classes" if classes is not None else f"task={task!r}"
        raise BadInput(f"{whose}{beside} beside an event, which makes a survival: leave one out")
    if event is None:
        array = y.detach().cpu().numpy() if hasattr(y, "detach") else np.asarray(y)
        if array.ndim != 2 or array.shape[1] != 2:
            raise BadData(
                f"{whose}targets of a survival have shape {array.shape}, but need pairs (time, event): pass "
                "event=, 1 where the event was seen, 0 where not"
            )
        y, event = array.T
    return _survival_targets(y, event, whose), (), ()


def stored(times: Array) -> Array:
    """Times as clients have them, in 32 bits."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(times).astype(np.float32)


def signed(times: Array, events: Array, whose: str = "") -> Array:
    """[row] of times above 0 and events that are 0 or 1; times that seven digits cannot tell apart are
    refused, unless they are a few.
    """
    different = len(np.unique(times))
    lost = different - len(np.unique(stored(times)))
    if lost > MERGED * different:
        raise BadData(
            f"{whose}{lost} of {different} different times become the same number in 32 bits, with seven "
            "digits: count them from a later start, or round them"
        )
    return np.where(np.asarray(events) == 1, times, -np.asarray(times)).astype(np.float64)


def _survival_targets(times: Any, events: Any, whose: str) -> Array:
    """Signed times of what a person gave; all that is wrong with them is said at once."""
    t, e = _numbers(times, "times", whose), _numbers(events, "events", whose)
    if len(t) != len(e):
        raise BadData(f"{whose}{len(t)} times but {len(e)} events: give one event, 0 or 1, for each time")
    said, seen = [], "1 where it was seen, 0 where the row was only watched until then"
    for what, values, bad, must in (
        ("time", t, ~(np.isfinite(stored(t)) & (stored(t) > 0)), "above 0 and finite"),
        ("event", e, ~np.isin(e, (0.0, 1.0)), seen),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            many = f" ({int(bad.sum())} such rows)" if bad.sum() > 1 else ""
            value = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
            said.append(f"{what} is {value} in row {row}{many}, but must be {must}")
    if said:
        raise BadData(f"{whose}{'; '.join(said)}: {REMEDY}")
    return signed(t, e, whose)


def _numbers(values: Any, what: str, whose: str) -> Array:
    """[row] as floats, NaN where missing; of anything else a refusal."""
    import pandas as pd  # only here: it takes a while to import

    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise BadData(f"{whose}{what} have shape {array.shape}, but need [samples]: give one for each row")
    found = pd.to_numeric(pd.Series(array), errors="coerce")
    wrong = found.isna() & ~pd.Series(array).isna()
    if wrong.any():
        first = array[int(np.flatnonzero(wrong)[0])]
        first = first.item() if isinstance(first, np.generic) else first
        raise BadData(f"{whose}{what} hold {shown(first)}, which is no number: {REMEDY}")
    return np.asarray(found.to_numpy(dtype=np.float64, na_value=np.nan))
