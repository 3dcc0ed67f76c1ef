"""Clients from what people have: arrays, data frames, torch datasets; and whether they fit each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from coterie.core import client as core
from coterie.core.client import Samples
from coterie.core.errors import BadData, BadInput
from coterie.core.seeds import Key
from coterie.data.holdout import hold_out
from coterie.data.intake import Array, check_rows, inputs_of, read_pairs, refuse_twins, targets_of
from coterie.data.missing import (
    Missing,
    check_missing_rule,
    fill_missing,
    fit_median,
    gaps_in,
    refuse_missing,
)

if TYPE_CHECKING:
    import pandas as pd


class Client(core.Client):
    """One participant, made from what a person has: `from_arrays`, `from_frame`, `from_dataset`."""

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        *,
        name: str,
        test: float | tuple[Any, Any] = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Client:
        """A client from arrays, tensors or a DataFrame; `test` is a fraction to set aside, or (X, y).

        Integer labels are taken as class numbers from 0; for any others, and where a client may lack
        some class, name all of them in `classes`. Floating-point targets make a regression.
        """
        x_all, columns = inputs_of(X, name, features)
        y_all, names = targets_of(y, name, classes)
        check_rows(x_all, y_all, name, columns)
        key = Key(seed, ("client", name))
        rows = np.arange(len(y_all))
        if isinstance(test, tuple):
            x_test, test_columns = inputs_of(test[0], name, features)
            y_test, _ = targets_of(test[1], name, names or None if classes is None else classes)
            check_rows(x_test, y_test, name, test_columns)
            if test_columns != columns or x_test.shape[1:] != x_all.shape[1:]:
                raise BadData(f"client {name!r}: test and training columns differ: give both the same")
            if y_test.dtype.kind != y_all.dtype.kind:
                raise BadData(
                    f"client {name!r}: test targets are {y_test.dtype}, training targets {y_all.dtype}: "
                    "give labels to both, or numbers to both"
                )
        elif not isinstance(test, float | int | np.floating):
            raise BadInput(
                f"client {name!r}: test is a {type(test).__name__}: give a fraction or a tuple (X, y)"
            )
        else:
            rows, held = hold_out(y_all, test, key.at("test").numpy(), f"client {name!r}")
            x_test, y_test = x_all[held], y_all[held]
        kept, held = rows, rows[:0]
        if validation:
            keep, hold = hold_out(y_all[rows], validation, key.at("validation").numpy(), f"client {name!r}")
            kept, held = rows[keep], rows[hold]
        return cls(
            name=name,
            train=samples(x_all[kept], y_all[kept]),
            validation=samples(x_all[held], y_all[held]),
            test=samples(x_test, y_test),
            features=columns,
            classes=names,
        )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        target: str,
        name: str,
        test: float = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
        missing: Missing = "refuse",
    ) -> Client:
        """A client from one table; the rule for missing values is fitted on its training rows alone."""
        check_missing_rule(missing)
        refuse_twins(frame, name)
        if target not in frame.columns:
            known = ", ".join(" ".join(str(c).split()) for c in frame)
            raise BadData(f"client {name!r}: no target column {target!r}; its columns are {known}")
        x, y = frame.drop(columns=[target]), frame[target]
        refuse_missing(gaps_in(frame[[target]]), f"client {name!r}")
        notes: list[str] = []
        if missing == "drop":
            complete = x.notna().all(axis=1)
            if not complete.all():
                notes.append(f"{int((~complete).sum())} of {len(x)} rows with missing values left out")
            x, y = x[complete], y[complete]
        elif missing == "refuse":
            refuse_missing(gaps_in(x), f"client {name!r}")
        y_all, names = targets_of(y, name, classes)
        if missing == "median":
            # the rows that from_arrays will train on: the same seed draws the same ones
            kept = np.arange(len(y_all))
            key = Key(seed, ("client", name))
            kept, _ = hold_out(y_all, test, key.at("test").numpy(), f"client {name!r}")
            if validation:
                inner, _ = hold_out(y_all[kept], validation, key.at("validation").numpy(), f"client {name!r}")
                kept = kept[inner]
            x, counts = fill_missing(x, fit_median(x.iloc[kept]))
            notes += [
                f"column {c!r}: {n} missing value(s) filled by its training median" for c, n in counts.items()
            ]
        # y_all is numbered by now: the names are for reading
        made = cls.from_arrays(
            x, y_all, name=name, test=test, validation=validation, seed=seed, classes=names or None
        )
        return cls(**{**made.__dict__, "notes": tuple(notes)})

    @classmethod
    def from_dataset(
        cls,
        dataset: torch.utils.data.Dataset[Any],
        *,
        name: str,
        test: float | torch.utils.data.Dataset[Any] = 0.3,
        validation: float = 0.0,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> Client:
        """A client from a torch Dataset of (input, target) pairs; it is read once, into memory."""
        x, y = read_pairs(dataset, name)
        held = test if isinstance(test, float | int | np.floating) else read_pairs(test, name)
        return cls.from_arrays(x, y, name=name, test=held, validation=validation, seed=seed, classes=classes)


def samples(x: Array, y: Array) -> Samples:
    """Arrays as tensors of their own: float32 inputs, int64 labels or float32 targets."""
    y_type = np.int64 if np.issubdtype(y.dtype, np.integer) else np.float32
    return Samples(
        torch.from_numpy(np.array(x, dtype=np.float32)), torch.from_numpy(np.array(y, dtype=y_type))
    )


def check_clients(clients: Sequence[core.Client], *, allow_one_class: bool = False) -> tuple[str, ...]:
    """Refuses clients that cannot learn together; returns what is worth saying of the others."""
    if isinstance(clients, core.Client) or not all(isinstance(c, core.Client) for c in clients):
        raise BadInput("clients must be a list of clients: make each with Client.from_arrays(X, y, name=...)")
    if not clients:
        raise BadInput("no clients: give at least one")
    first, said = clients[0], []
    for name, times in Counter(c.name for c in clients).items():
        if times > 1:
            raise BadInput(f"client name {name!r} is used {times} times: give each its own")
    for c in clients:
        if len(c.train) == 0 or len(c.test) == 0:
            raise BadData(
                f"client {c.name!r} has {len(c.train)} training and {len(c.test)} test samples; "
                "both need at least 1: add samples or leave it out"
            )
        if c.task != first.task:
            raise BadData(f"client {c.name!r} has a {c.task}, {first.name!r} a {first.task}: use one task")
        if c.features != first.features:
            strange = sorted(set(c.features) ^ set(first.features)) or ["their order"]
            raise BadData(
                f"clients {first.name!r} and {c.name!r} disagree in columns ({', '.join(strange)}): "
                "give all the same columns in the same order"
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
                text = f"client {c.name!r} trains on one class only ({label})"
                if not allow_one_class:
                    raise BadData(
                        f"{text}, at least 2 are needed: add samples, or allow it with one_class='allow'"
                    )
                said.append(text)
    return tuple(said)
