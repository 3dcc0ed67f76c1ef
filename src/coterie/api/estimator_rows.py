"""Rows as estimators of scikit-learn take them: which site each belongs to, and what makes a site of them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import column_or_1d
from torch import Tensor, nn

from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, CoterieWarning, shown
from coterie.data.dataset import Arrays, samples
from coterie.data.frames import MOST_VALUES
from coterie.data.intake import Array
from coterie.data.preparation import Column, Preparation
from coterie.data.tabular import TabularPrepare
from coterie.metrics.calibration import logits_of, probabilities

MANY = 20  # rows from which on it is odd that most are a site each
ONE = "all"  # the name of all sites together, or of the only one


def sites_apart(X: Any, sites: str | int) -> tuple[Any, Any]:
    """X without the column that says whose each row is, and that column [row]."""
    if isinstance(X, pd.DataFrame):
        label: Any = sites
        if sites not in X.columns and not isinstance(sites, str):
            if not -X.shape[1] <= sites < X.shape[1]:
                raise BadData(f"sites={sites} is no column of X, which has {X.shape[1]}: count them from 0")
            label = X.columns[sites]
        if label not in X.columns:
            known = ", ".join(map(str, X.columns))
            raise BadData(f"X has no column {sites!r} that says whose a row is; its columns are {known}")
        column = X[label]
        if column.ndim > 1:
            raise BadData(f"column {sites!r} of X is there twice: rename or drop one")
        return X.drop(columns=[label]), _whole(np.asarray(column))
    array = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
    if isinstance(sites, str):
        raise BadData(f"sites={sites!r} names a column, but X is an array: give a DataFrame, or its number")
    if not -array.shape[1] <= sites < array.shape[1]:
        raise BadData(f"sites={sites} is no column of X, which has {array.shape[1]}: count them from 0")
    return np.delete(array, sites, axis=1), _whole(array[:, sites])


def _whole(column: Array) -> Array:
    """Numbers of sites in an array of fractions are whole: 2.0 is site 2."""
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column == np.round(column)).all():
        return column.astype(np.int64)
    return column


def check_sites(sites: Any) -> None:
    if sites is not None and (isinstance(sites, bool) or not isinstance(sites, str | int | np.integer)):
        raise BadInput(f"sites={shown(sites)} must name a column of X, or be its number: try 'hospital'")


def same_sites(groups: Any, column: Array, sites: str | int) -> None:
    """Groups beside a column of sites must say the same."""
    if sites_in(groups, len(column)) != sites_in(column, len(column)):
        raise BadData(f"groups and column {sites!r} of X differ: give one of them")


class Together(nn.Module):
    """The mean of several models' predictions, each counting by the rows it was trained on."""

    def __init__(self, models: Mapping[str, nn.Module], sizes: Mapping[str, int], classifies: bool) -> None:
        super().__init__()
        self.models = nn.ModuleList(models.values())
        total = sum(sizes[name] for name in models)
        self.shares = [sizes[name] / total for name in models]
        self.classifies = classifies

    def forward(self, x: Tensor) -> Tensor:
        outputs = [m(x).double() for m in self.models]
        if not self.classifies:
            return sum((w * o for w, o in zip(self.shares, outputs, strict=True)), torch.zeros(()))
        mean = sum((w * probabilities(o) for w, o in zip(self.shares, outputs, strict=True)), torch.zeros(()))
        return logits_of(mean)


def finite(raw: Array) -> Array:
    """Numbers or NaN, and at least one row."""
    return np.asarray(check_array(raw, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X"))


def refuse_many_texts(columns: Sequence[Column]) -> None:
    """A column with very many texts is a name or a remark; all such columns are said at once."""
    many = [f"{c.name!r} ({len(c.values)})" for c in columns if len(c.values) > MOST_VALUES]
    if many:
        raise BadData(
            f"more than {MOST_VALUES} different texts, which is no category, in column {', '.join(many)}: "
            "leave it out of X"
        )


def one_column(estimator: BaseEstimator, y: Any) -> Array:
    if y is None:
        name = type(estimator).__name__
        raise BadData(f"{name} requires y to be passed, but the target y is None: give one for each row of X")
    return np.asarray(column_or_1d(y, warn=True))


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def sites_in(groups: Any, rows: int) -> list[Any]:
    """[row] the site of each row, as a value that finds the same again, 1 like 1.0."""
    found = np.asarray(groups)
    if found.ndim != 1 or len(found) != rows:
        raise BadData(f"groups have shape {found.shape}, X has {rows} rows: give one site for each row")
    gone = np.flatnonzero(pd.isna(found))
    if len(gone):
        raise BadData(f"groups have no site in row {gone[0] + 1}: name one for each row")
    return list(found.tolist())


def dealt(groups: Any, rows: int) -> tuple[list[Any], list[Array]]:
    """Each site once, in order, and the numbers of its rows; two that are written alike are refused."""
    if groups is None:
        return [ONE], [np.arange(rows)]
    found = sites_in(groups, rows)
    sites = list(dict.fromkeys(found))
    with contextlib.suppress(TypeError):  # texts among numbers have no order but that of their first rows
        sites = sorted(sites)
    names = [str(s) for s in sites]
    for name in names:
        if names.count(name) > 1:
            raise BadData(f"groups hold {name} as a text and as a number: use one of them")
    if rows >= MANY and 2 * len(sites) > rows:
        warnings.warn(
            f"{len(sites)} sites for {rows} rows, so that most have one row: name what says whose a row is",
            CoterieWarning,
            stacklevel=4,
        )
    numbers = {site: i for i, site in enumerate(sites)}
    owner = np.array([numbers[s] for s in found])
    return sites, [np.flatnonzero(owner == i) for i in range(len(sites))]


def refuse_gaps(way: Preparation, raw: Array, rows: Array) -> None:
    """A missing value that nothing stands in for; `rows` are the numbers of these rows in X."""
    for i, part in enumerate(way.parts):
        gone = np.flatnonzero(np.isnan(raw[:, i]))
        if len(gone) and part.read and part.fill is None:
            raise BadData(
                f"column {part.column.name!r} of X has {len(gone)} missing or NaN value(s), first in row "
                f"{rows[gone[0]] + 1}: fill them or drop their rows, or use missing='median'"
            )


def client_of(
    name: str, way: Preparation, train: Arrays, validation: Arrays, classes: tuple[str, ...]
) -> Client:
    """A site as methods meet it; it has no test rows."""
    (train, validation), notes = way(train, validation)
    return Client(
        name=name,
        train=samples(train.x, train.y),
        validation=samples(validation.x, validation.y),
        test=samples(train.x[:0], train.y[:0]),
        features=way.features,
        classes=classes,
        notes=notes,
        preparation=way,
    )


def for_others(way: TabularPrepare, trains: Sequence[Arrays], one: Preparation) -> Preparation:
    """For rows of sites that were not in `fit`: fitted on all training rows, with the inputs of `one`."""
    rows = Arrays(np.concatenate([t.x for t in trains]), np.concatenate([t.y for t in trains]))
    (whole,) = way.fitted([rows])
    parts = [replace(p, told=o.told, unused=o.unused) for p, o in zip(whole.parts, one.parts, strict=True)]
    return replace(whole, parts=tuple(parts))
