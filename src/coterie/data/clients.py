"""Clients from what people have: arrays, data frames, torch datasets; and whether they fit each other."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    checked,
    is_list,
    is_number,
    or_none,
)
from coterie.core.client import Samples, class_count
from coterie.core.errors import BadData, BadInput, Several, UnknownName, option, shown
from coterie.core.seeds import Key
from coterie.data.choices import check_choice
from coterie.data.dataset import Arrays
from coterie.data.holdout import hold_out
from coterie.data.intake import (
    MOST_CLASSES,
    TABLE,
    Array,
    TaskChoice,
    check_rows,
    far_off,
    inputs_of,
    read_pairs,
    unused_labels,
)
from coterie.data.missing import Missing
from coterie.data.preparation import Column
from coterie.data.rereading import is_random, reread_of
from coterie.data.survival import goals_of
from coterie.data.tabular import TabularPrepare, refuse_infinite

if TYPE_CHECKING:
    import pandas as pd


TEST = Kind(
    "a share of the rows, a number between 0 and 1, or a pair (X, y): try 0.3",
    lambda v: is_number(v) or (isinstance(v, tuple) and len(v) == 2),
)
MOST_VALUES = 50  # a text column with more is a name or a remark, not a category


class Client(core.Client):
    """One participant, made from what a person has: `from_arrays`, `from_frame`, `from_dataset`; several at
    once by `coterie.clients_from`.
    """

    @classmethod
    @checked(
        name=NAME,
        test=TEST,
        validation=SHARE,
        seed=SEED,
        features=or_none(COLUMNS),
        classes=or_none(CLASSES),
        task=TEXT,
    )
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
        x_all, columns = inputs_of(X, name, features)
        y_all, names, said = goals_of(y, event, name, classes, task)
        censored = event is not None or task == "survival"
        check_rows(x_all, y_all, name, columns)
        train, held, out = drawn(y_all, None if isinstance(test, tuple) else test, validation, seed, name)
        x_test, y_test = x_all[out], y_all[out]
        if isinstance(test, tuple):
            x_test, test_columns = inputs_of(test[0], name, features)
            known: TaskChoice = "classification" if y_all.dtype.kind == "i" else "regression"
            known = "survival" if censored else known
            y_test, _, _ = goals_of(test[1], None, name, names or None if classes is None else classes, known)
            check_rows(x_test, y_test, name, test_columns)
            if test_columns != columns or x_test.shape[1:] != x_all.shape[1:]:
                raise BadData(f"client {name!r}: test and training columns differ: give both the same")
        return cls(
            name=name,
            train=samples(x_all[train], y_all[train]),
            validation=samples(x_all[held], y_all[held]),
            test=samples(x_test, y_test),
            features=tuple(map(str, columns)),
            classes=names,
            notes=(*said, *unused_labels(y_all, name, names), *far_off(x_all[train], name, columns)),
            censored=censored,
        )

    @classmethod
    @checked(
        target=COLUMN,
        event=or_none(COLUMN),
        name=NAME,
        test=SHARE,
        validation=SHARE,
        seed=SEED,
        classes=or_none(CLASSES),
        task=TEXT,
        missing=TEXT,
        scale=TEXT,
        absent=TEXT,
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
        from coterie.data.frames import columns_of, raw_of  # pandas takes a while to import

        for rule, value, others in (("scale", scale, "shared"), ("absent", absent, "flag, common")):
            if value in others.split(", "):
                raise BadInput(f"{rule}={value!r} needs all clients at once: make them with clients_from")
        check_choice("task", task, get_args(TaskChoice))
        with whose(name):
            x, goal, seen = inputs_and_target(frame, target, leave_out, event)
            columns = scaled_by(columns_of(x), constants, scale)
            refuse_many_texts(columns)
            raw = raw_of(x, columns)
            refuse_unknown(raw, columns, missing)
        y, names, said = goals_of(goal, seen, name, classes, task, TABLE)
        check_rows(np.zeros((len(raw), 1)), y, name, ())
        prepare = TabularPrepare(columns, missing, scale, absent)
        pools = [Arrays(raw[rows], y[rows]) for rows in drawn(y, test, validation, seed, name)]
        (way,) = prepare.fitted(pools[:1], [name])
        with whose(name):
            made, notes = way(*pools)
        for pool in filter(len, made):
            check_rows(pool.x, pool.y, name, way.features)
        return cls(
            name=name,
            train=samples(made[0].x, made[0].y),
            validation=samples(made[1].x, made[1].y),
            test=samples(made[2].x, made[2].y),
            features=way.features,
            classes=names,
            notes=(
                *said,
                *unused_labels(y, name, names),
                *notes,
                *far_off(made[0].x, name, way.features),
            ),
            preparation=way,
            censored=event is not None,
        )

    @classmethod
    @checked(
        name=NAME,
        test=Kind(
            "a share of the rows, a number between 0 and 1, or a dataset: try 0.3",
            lambda v: is_number(v) or (hasattr(v, "__getitem__") and not isinstance(v, str | bytes)),
        ),
        validation=SHARE,
        seed=SEED,
        classes=or_none(CLASSES),
        task=TEXT,
        every_epoch=SWITCH,
    )
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
        if task == "auto" and y.dtype.kind in "iu" and has_classes(dataset):
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


def has_classes(dataset: Any) -> bool:
    """Whether a dataset, or the one that it is a part of, lists its classes, as those of torchvision do."""
    while dataset is not None:
        if is_list(getattr(dataset, "classes", None)):
            return True
        dataset = getattr(dataset, "dataset", None)
    return False


def drawn(
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


@contextlib.contextmanager
def whose(name: str) -> Iterator[None]:
    """What is refused within says whose data it is."""
    try:
        yield
    except Several as error:
        raise Several([f"client {name!r}: {line}" for line in error.lines]) from None
    except (BadData, BadInput) as error:
        kind = BadData if isinstance(error, BadData) else BadInput
        raise kind(f"client {name!r}: {error}") from None


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


def samples(x: Array, y: Array) -> Samples:
    """Arrays as tensors of their own: float32 inputs, int64 labels or float32 targets."""
    y_type = np.int64 if np.issubdtype(y.dtype, np.integer) else np.float32
    return Samples(
        torch.from_numpy(np.array(x, dtype=np.float32)), torch.from_numpy(np.array(y, dtype=y_type))
    )


def check_clients(
    clients: Sequence[core.Client], *, allow_one_class: bool = False, allow_untested: bool = False
) -> tuple[str, ...]:
    """Refuses clients that cannot learn together; returns what is worth saying of the others.

    Clients without test rows are for those who test elsewhere (`allow_untested`).
    """
    if not is_list(clients) or not all(isinstance(c, core.Client) for c in clients):
        raise BadInput("clients must be a list of clients: make each with Client.from_arrays(X, y, name=...)")
    if not len(clients):
        raise BadInput("no clients: give at least one")
    first, said, alone = clients[0], list[str](), list[str]()
    for name, times in Counter(c.name for c in clients).items():
        if times > 1:
            raise BadInput(f"client name {name!r} is used {times} times: give each its own")
    for c in clients:
        if len(c.train) == 0 or (len(c.test) == 0 and not allow_untested):
            raise BadData(
                f"client {c.name!r} has {len(c.train)} training and {len(c.test)} test samples; "
                "both need at least 1: add samples or leave it out"
            )
        if c.task != first.task:
            raise BadData(
                f"client {c.name!r} has a {c.task}, {first.name!r} a {first.task}: use one task for all, "
                f"{option('task', 'classification', 'table')} or {option('task', 'regression', 'table')}"
            )
        if c.features != first.features:
            strange = sorted(set(c.features) ^ set(first.features)) or ["their order"]
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in columns ({', '.join(strange)}): "
                "give all the same columns in the same order, or make them together with clients_from"
            )
        if c.train.x.shape[1:] != first.train.x.shape[1:]:
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in columns: shapes "
                f"{list(first.train.x.shape[1:])} and {list(c.train.x.shape[1:])}: give all the same"
            )
        if c.classes != first.classes:
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in classes ({', '.join(first.classes)} and "
                f"{', '.join(c.classes)}): pass the same classes=[...] to both"
            )
        if c.task == "classification":
            found = torch.unique(c.train.y)
            if len(found) == 1:
                label = c.classes[int(found)] if c.classes else str(int(found))
                alone.append(f"{c.name!r} ({label})")
                text = f"client {c.name!r} trains on one class only ({label})"
                said.append(text)
    if said and not allow_one_class:
        others = f", as for {', '.join(alone[1:])}" if len(alone) > 1 else ""
        raise BadData(
            f"{said[0]}, at least 2 are needed{others}: add samples, or allow it with "
            f"{option('one_class', 'allow')}"
        )
    if first.task == "classification":
        _refuse_odd_labels(clients)
    if first.task == "survival":
        said += _without_events(clients)
    return tuple(said)


def _without_events(clients: Sequence[core.Client]) -> list[str]:
    """Who learns nothing by itself; refused where nobody does. A single client may have others elsewhere."""
    without = [c.name for c in clients if not bool((c.train.y > 0).any())]
    if len(without) == len(clients) > 1:
        raise BadData(
            f"none of the {len(clients)} clients has an event among its training rows, so there is nothing "
            "to learn: watch longer, or check the events"
        )
    return [
        f"client {name!r} has no event among its training rows and learns nothing by itself"
        for name in without
    ]


def _refuse_odd_labels(clients: Sequence[core.Client]) -> None:
    """Clients that nobody's intake has looked at may have any."""
    lowest = min(int(s.y.min()) for c in clients for s in (c.train, c.validation, c.test) if len(s))
    if lowest < 0 or class_count(clients) > MOST_CLASSES:
        odd = lowest if lowest < 0 else class_count(clients) - 1
        raise BadData(f"label {odd} is none of 0 to {MOST_CLASSES - 1}: count labels from 0")
