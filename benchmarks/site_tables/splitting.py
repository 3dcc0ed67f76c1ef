"""Training and test rows of each site, the same for all contenders, and the inputs made of them.

Inputs are made as Coterie makes those of tables (docs/data.md): missing numbers are the median of the site's
training rows, missing categories its most frequent; numbers are scaled by the mean and deviation of all
sites' training rows, a category is one input for each of its values in training rows. A column of which a
site has no value: the others' mean, and an input that says so.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from coterie.data.dataset import hold_out_whole

from .catalogue import Task
from .reading import Rows

SHARE = 0.3
"""Of each site's rows to test on."""
Array = np.ndarray


@dataclass(frozen=True)
class Part:
    """Rows of a site, or of all: inputs, target, and where there are any, events and persons."""

    x: Array
    y: Array
    event: Array | None = None
    person: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Array) -> Part:
        event = None if self.event is None else self.event[rows]
        person = None if self.person is None else self.person[rows]
        return Part(self.x[rows], self.y[rows], event, person)


@dataclass(frozen=True)
class Site:
    name: str
    train: Part
    test: Part


@dataclass(frozen=True)
class Split:
    """What all contenders get. Classes are numbered by `classes`, in the order of their names."""

    task: Task
    sites: list[Site]
    columns: tuple[str, ...]
    classes: tuple[str, ...] = ()

    @property
    def overlap(self) -> float:
        """n_test / n_train, of all sites."""
        return sum(len(s.test) for s in self.sites) / sum(len(s.train) for s in self.sites)


def split(rows: Rows, number: int) -> Split:
    """Each site's rows dealt anew by this number, and prepared."""
    frame, task = rows.frame, rows.table.task
    held = np.zeros(len(frame), dtype=bool)
    classes: tuple[str, ...] = ()
    target = frame["target"].to_numpy()
    if task == "classification":
        names = sorted(map(str, set(target)))
        classes, target = tuple(names), np.array([names.index(str(v)) for v in target])
    strata = {"classification": target, "regression": np.zeros(len(frame))}
    labels = strata[task] if task in strata else frame["event"].to_numpy()
    groups = list(frame.groupby("site").indices.items())
    for name, of in groups:
        rng = np.random.default_rng([number, zlib.crc32(str(name).encode())])
        person = frame["person"].to_numpy()[of] if "person" in frame else np.arange(len(of))
        _, out = hold_out_whole(labels[of], pd.factorize(person)[0], SHARE, rng, str(name))
        held[of[out]] = True
    x, columns = inputs(frame, rows, ~held)
    event = frame["event"].to_numpy().astype(bool) if "event" in frame else None
    person = pd.factorize(frame["person"])[0] if "person" in frame else None
    every = Part(x, target if task == "classification" else target.astype(float), event, person)
    sites = [Site(str(n), every.take(of[~held[of]]), every.take(of[held[of]])) for n, of in groups]
    return Split(task, sites, columns, classes)


def inputs(frame: pd.DataFrame, rows: Rows, training: Array) -> tuple[Array, tuple[str, ...]]:
    """[row, input] of all sites and their names; whatever is fitted is fitted on training rows."""
    made: dict[str, Array] = {}
    site = frame["site"]
    for name in rows.numbers:
        values = frame[name].astype(float)
        filled = values.fillna(site.map(values[training].groupby(site[training]).median()))
        mean, deviation = filled[training].mean(), filled[training].std(ddof=0)
        if not deviation > 0:
            continue  # one value in all training rows
        absent = filled.isna().to_numpy()
        made[name] = ((filled - mean) / deviation).fillna(0.0).to_numpy()
        if absent.any():
            made[f"{name} is absent"] = absent.astype(float)
    for name in rows.table.categories:
        texts = frame[name].astype(object).map(str, na_action="ignore")
        usual = texts[training].groupby(site[training]).agg(most_frequent)
        texts = texts.fillna(site.map(usual))
        known = sorted(set(texts[training].dropna()))
        if len(known) > 1:
            made |= {f"{name}={value}": (texts == value).to_numpy(dtype=float) for value in known}
    return np.stack(list(made.values()), axis=1), tuple(made)


def most_frequent(texts: pd.Series) -> object:
    """The first by name of the most frequent; missing where there is none."""
    counts = texts.dropna().value_counts()
    return min(counts[counts == counts.max()].index) if len(counts) else None


def together(split: Split, with_site: bool) -> tuple[Part, list[Part]]:
    """All training rows as one part, and each site's test rows; the site as one input each if asked for."""

    def extended(part: Part, i: int) -> Array:
        if not with_site:
            return part.x
        return np.hstack([part.x, np.tile(np.eye(len(split.sites))[i], (len(part), 1))])

    train = [site.train for site in split.sites]
    x = np.vstack([extended(part, i) for i, part in enumerate(train)])
    event = None if train[0].event is None else np.concatenate([p.event for p in train])
    person = None if train[0].person is None else np.concatenate([p.person for p in train])
    tests = [Part(extended(site.test, i), site.test.y, site.test.event) for i, site in enumerate(split.sites)]
    return Part(x, np.concatenate([p.y for p in train]), event, person), tests
