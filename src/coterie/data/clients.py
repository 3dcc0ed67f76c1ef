"""Clients from what people have: arrays, data frames, torch datasets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from coterie.core import client as core
from coterie.core.checks import (
    CLASSES,
    COLUMN,
    COLUMNS,
    NAME,
    SEED,
    SHARE,
    SWITCH,
    TEXT,
    Kind,
    check_choice,
    checked,
    is_list,
    is_number,
    or_none,
)
from coterie.core.errors import BadData, BadInput, CoterieWarning
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, hold_out, parts_of
from coterie.data.frames import naming_client, rows_of_frame
from coterie.data.intake import Array, TaskChoice, as_array, is_random, read_pairs, reread_of
from coterie.data.tabular import Missing, TabularPrepare
from coterie.data.targets import goals_of

if TYPE_CHECKING:
    import pandas as pd


PAIR = Kind(
    "a share of the rows, a number between 0 and 1, or a pair (X, y): try 0.3",
    lambda v: is_number(v) or (isinstance(v, tuple) and len(v) == 2),
)
DATASET = Kind(
    "a share of the rows, a number between 0 and 1, or a dataset: try 0.3",
    lambda v: is_number(v) or (hasattr(v, "__getitem__") and not isinstance(v, str | bytes)),
)
ROWS = {"validation": SHARE, "seed": SEED, "classes": or_none(CLASSES), "task": TEXT}
RULES = ("missing", "scale", "absent")
MANY_UNUSED, UNUSED = 100, 10  # highest label, and times as high as there are labels, that are worth a word
FAR = 30.0  # a standardised value is nearer than that, but for mistakes


class Client(core.Client):
    """One participant, made from what a person has: `from_arrays`, `from_frame`, `from_dataset`; several at
    once by `coterie.clients_from`.
    """

    @classmethod
    @checked(name=NAME, test=PAIR, features=or_none(COLUMNS), **ROWS)
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        *,
        name: str,
        event: Any = None,
        test: float | tuple[Any, Any] = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        task: TaskChoice = "auto",
    ) -> Client:
        """A client from arrays, tensors or a DataFrame; `test` is a fraction to set aside, or (X, y).

        Inputs are taken as they are: bring them to a scale of about 1 first, or use `clients_from`.

        Integer labels are taken as class numbers from 0, if they are few or have no gap; for any others, and
        where a client may lack some class, name all of them in `classes`. Many integers with gaps are
        numbers, or asked about (docs/data.md has the rule). Floating-point targets make a regression, but for
        0.0 and 1.0; `task` decides.

        With `event`, y are times of a survival, above 0: event is 1 where the event was seen at that time, 0
        where the row was only watched until then. y may hold both, as pairs (time, event), with
        task="survival".
        """
        check_choice("task", task, get_args(TaskChoice))
        x_all, columns = _inputs_of(X, name, features)
        y_all, names, said = goals_of(y, event, name, classes, task)
        censored = event is not None or task == "survival"
        _check_rows(x_all, y_all, name, columns)
        train, held, out = _drawn(y_all, None if isinstance(test, tuple) else test, validation, seed, name)
        x_test, y_test = x_all[out], y_all[out]
        if isinstance(test, tuple):
            x_test, test_columns = _inputs_of(test[0], name, features)
            known: TaskChoice = "classification" if y_all.dtype.kind == "i" else "regression"
            known = "survival" if censored else known
            y_test, _, _ = goals_of(test[1], None, name, names or None if classes is None else classes, known)
            _check_rows(x_test, y_test, name, test_columns)
            if test_columns != columns or x_test.shape[1:] != x_all.shape[1:]:
                raise BadData(f"client {name!r}: test and training columns differ: give both the same")
        pools = Arrays(x_all[train], y_all[train]), Arrays(x_all[held], y_all[held]), Arrays(x_test, y_test)
        return cls(
            name,
            **parts_of(pools),
            features=tuple(map(str, columns)),
            classes=names,
            notes=(*said, *_unused_labels(y_all, name, names), *far_off(x_all[train], name, columns)),
            censored=censored,
        )

    @classmethod
    @checked(
        **{"target": COLUMN, "event": or_none(COLUMN), "name": NAME, "test": SHARE, **ROWS},
        **dict.fromkeys(RULES, TEXT),
        leave_out=COLUMNS,
    )
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        target: str,
        event: str | None = None,
        name: str,
        test: float = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
        task: TaskChoice = "auto",
        missing: Missing = "refuse",
        scale: Literal["site", "constants"] = "site",
        constants: Mapping[str, tuple[float, float]] | None = None,
        absent: Literal["mask", "refuse"] = "mask",
        leave_out: Sequence[str] = (),
    ) -> Client:
        """A client from one table, prepared as the shell does; the same numbers are kept with its model.

        Numbers are standardised, true and false are 1 and 0, a text becomes one input for each of its values.
        All that is fitted is fitted on training rows alone. Several clients that share scales, or whose texts
        or columns differ, are made at once by `clients_from`.

        event        for a survival, the column that is 1 where the event was seen, 0 where not; `target` is
                     then the time until it, or until the row was last seen
        missing      missing values: refuse them, drop their rows, or fill in the training median (of texts
                     the most frequent)
        scale        by this client's own mean and deviation (site): simple, but it hides that one site's
                     values lie higher than another's. Where such levels matter, use scale="constants", or
                     `clients_from` with scale="shared"
        constants    {column: (center, spread)} for scale="constants": (value - center) / spread; columns
                     that are not named are taken as they are
        absent       a column without any value in training rows: its input is 0 in all rows (mask), or it is
                     refused
        leave_out    columns that are no inputs: names, numbers of patients
        """
        for rule, value, others in (("scale", scale, "shared"), ("absent", absent, "flag, common")):
            if value in others.split(", "):
                raise BadInput(f"{rule}={value!r} needs all clients at once: make them with clients_from")
        check_choice("task", task, get_args(TaskChoice))
        with naming_client(name):
            columns, raw, y, seen = rows_of_frame(frame, target, event, leave_out, constants, scale, missing)
        y, names, said = goals_of(y, seen, name, classes, task, "table")
        _check_rows(np.zeros((len(raw), 1)), y, name, ())
        pools = [Arrays(raw[rows], y[rows]) for rows in _drawn(y, test, validation, seed, name)]
        (way,) = TabularPrepare(columns, missing, scale, absent).fitted(pools[:1], [name])
        with naming_client(name):
            made, done = way(*pools)
        for pool in filter(len, made):
            _check_rows(pool.x, pool.y, name, way.features)
        return cls(
            name,
            **parts_of(made),
            features=way.features,
            classes=names,
            notes=(*said, *_unused_labels(y, name, names), *done, *far_off(made[0].x, name, way.features)),
            preparation=way,
            censored=event is not None,
        )

    @classmethod
    @checked(name=NAME, test=DATASET, **ROWS, every_epoch=SWITCH)
    def from_dataset(
        cls,
        dataset: torch.utils.data.Dataset[Any],
        *,
        name: str,
        test: float | torch.utils.data.Dataset[Any] = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
        task: TaskChoice = "auto",
        every_epoch: bool = False,
    ) -> Client:
        """A client from a torch Dataset of (input, target) pairs; it is read once, into memory.

        A dataset that draws its items at random (a picture turned by chance) is read anew for each epoch
        with every_epoch=True, and refused without. Test rows are not drawn: give them as a dataset of their
        own, `test`, without such changes.
        """
        x, y = read_pairs(dataset, name)
        if task == "auto" and y.dtype.kind in "iu" and _has_classes(dataset):
            task = "classification"
        held: Any = test if is_number(test) else read_pairs(test, name)  # type: ignore[arg-type]
        chance = is_random(dataset, x, y)
        if chance and not every_epoch:
            raise BadData(
                f"client {name!r}: the dataset gives other rows when it is read again: pass every_epoch=True "
                "and a test dataset without chance, or take chance out and give train a transform"
            )
        if every_epoch and (is_number(test) or validation):
            raise BadInput(
                f"client {name!r}: with every_epoch=True rows for testing cannot come of the same dataset, "
                "which may change them: pass test= a dataset without chance, and no validation"
            )
        if not is_number(test) and is_random(test, *held):
            raise BadData(
                f"client {name!r}: the test dataset gives other rows when it is read again: take chance out "
                "of it, so that all are tested on the same rows"
            )
        made = cls.from_arrays(
            x, y, name=name, test=held, validation=validation, seed=seed, classes=classes, task=task
        )
        if not every_epoch:
            return made
        said = "training rows are read from the dataset anew at each step; what is not trained sees the first"
        return replace(made, again=reread_of(dataset, made.train.x), notes=(*made.notes, said))


def _has_classes(dataset: Any) -> bool:
    """Whether a dataset, or the one that it is a part of, lists its classes, as those of torchvision do."""
    while dataset is not None:
        if is_list(getattr(dataset, "classes", None)):
            return True
        dataset = getattr(dataset, "dataset", None)
    return False


def _drawn(
    y: Array, test: float | None, validation: float, seed: int, name: str
) -> tuple[Array, Array, Array]:
    """Numbers of the rows for training, validation and testing; with test=None none are for testing."""
    key, whose = Key(seed, ("client", name)), f"client {name!r}"
    rows, out = np.arange(len(y)), np.arange(0)
    if test is not None:
        rows, out = hold_out(y, test, key.at("test").numpy(), whose)
    if not validation:
        return rows, rows[:0], out
    keep, hold = hold_out(y[rows], validation, key.at("validation").numpy(), whose)
    return rows[keep], rows[hold], out


def _inputs_of(X: Any, name: str, features: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    import pandas as pd  # only here: it takes a while to import

    if isinstance(X, pd.DataFrame):
        if X.columns.has_duplicates:
            column = X.columns[X.columns.duplicated()][0]
            raise BadData(f"client {name!r}: column {column!r} is there twice: rename or drop one")
        for column in X.columns:
            kind = X[column].dtype
            if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
                raise BadData(
                    f"client {name!r}: column {column!r} holds {kind}, not numbers: "
                    "use Client.from_frame or clients_from, which encode it"
                )
        features = [str(c) for c in X.columns] if features is None else features
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    array = as_array(X, name, "inputs")
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


def _check_rows(x: Array, y: Array, name: str, columns: tuple[str, ...]) -> None:
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


def _unused_labels(y: Array, name: str, names: Sequence[str]) -> tuple[str, ...]:
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
    warning = f"{which} of client {name!r} reaches {reach[far[0]]:g}{others}: {remedy}"
    warnings.warn(warning, CoterieWarning, stacklevel=4)
    some = [f"{c} reaches {reach[i]:g}" for c, i in zip(called[:5], far, strict=False)]
    said = "standardise them or use clients_from" if table else remedy
    return (f"inputs far from 0, {said}: {', '.join(some)}{', ...' if len(far) > 5 else ''}",)
