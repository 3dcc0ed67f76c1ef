"""Clients by bands of one column, such as age groups.

Grimberg, "Privacy-preserving and personalized federated machine learning for medical data", 2020, section
5.2: AGE_STRICT gives each age group to one agent, AGE_SOME lets several agents share a group at random.

A value belongs to the first band whose upper edge it does not exceed: edges 20, 35 make the bands
(.., 20], (20, 35] and (35, ..). On Titanic, where one passenger is 20.5, this reading of "0-20, 21-35, 36+"
gives the sizes 248, 476 and 322 of the author's program, and 263 unknown; "younger than 21" would give 249.

With equal parts of a column's range, such as the youngest fifth to the oldest (`quantiles`), p(x) differs
from client to client and what a row means does not. Of n clients, client k gets the rows between the k/n and
the (k + 1)/n quantile of the column, taken over all training rows: edges that make clients of about one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coterie.core.checks import check_choice
from coterie.core.errors import BadInput
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.base import SPLITS, Deal, column_of, refuse_other_count
from coterie.data.partition.counts import Counts, Shares, how_many
from coterie.data.tables.texts import some

Unknown = Literal["own", "drop"]
MANY = 1_000_000  # clients


@SPLITS.register("bands")
@dataclass(frozen=True)
class Bands:
    """Each band of a column's values belongs to one client, or is dealt to several at random.

    column    the column to go by
    edges     upper edges of all bands but the last, increasing
    agents    how many clients share each band; one each if left out
    unknown   rows without a value: own (one last client) or drop (nobody's)
    labels    what to call the bands; made from the edges if left out
    """

    column: str = ""
    edges: tuple[float, ...] = ()
    agents: tuple[int, ...] = ()
    unknown: Unknown = "own"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bands = len(self.edges) + 1
        if not np.isfinite(self.edges).all() or (np.diff(self.edges) <= 0).any():
            raise BadInput(
                f"split bands: edges {tuple(self.edges)} must increase and be finite: for instance 20 35"
            )
        if self.agents and (len(self.agents) != bands or min(self.agents) < 1):
            raise BadInput(
                f"split bands: agents {tuple(self.agents)} must be {bands} numbers of at least 1, "
                f"one for each band of {len(self.edges)} edge(s): for instance {' '.join('1' * bands)}"
            )
        if sum(self.agents) > MANY:
            raise BadInput(
                f"split bands: agents {tuple(self.agents)} must be at most {MANY} in all: try 1 each"
            )
        if self.labels and not len(self.labels) == len(set(self.labels)) == bands:
            raise BadInput(
                f"split bands: labels {tuple(self.labels)} must be {bands} different names: one a band"
            )
        check_choice("rule for unknown values", self.unknown, get_args(Unknown))

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if not self.column:
            raise BadInput("split bands needs a column and its edges: for instance column=age edges=20,35")
        trained = self.bands_of(column_of("bands", data, data.train, self.column))
        labels, agents = [*self.band_labels()], [*(self.agents or (1,) * (len(self.edges) + 1))]
        own = self.unknown == "own" and bool((trained == len(agents)).any())
        if own:
            labels, agents = [*labels, "unknown"], [*agents, 1]
        names = tuple(
            f"{self.column} {label}" + (f" #{i + 1}" if shared > 1 else "")
            for label, shared in zip(labels, agents, strict=True)
            for i in range(shared)
        )
        refuse_other_count("bands", clients, names)
        for b, (label, shared) in enumerate(zip(labels, agents, strict=True)):
            if (found := int((trained == b).sum())) < 2 * shared:
                remedy = "move its edges or lower agents"
                if label == "unknown":
                    remedy = "drop unknown values (unknown=drop)"
                raise BadInput(
                    f"split bands: band {self.column} {label} has {found} training row(s) for {shared} "
                    f"client(s), but each needs at least 2: {remedy}"
                )
        band = self.bands_of(column_of("bands", data, pool, self.column))
        rng = key.at("rows", len(pool)).numpy()
        owner = np.full(len(pool), -1, dtype=np.int64)
        for b, shared in enumerate(agents):
            rows = np.flatnonzero(band == b)
            owner[rows] = sum(agents[:b]) + rng.permutation(np.arange(len(rows), dtype=np.int64) % shared)
        return Deal(owner, names, notes=notes_on(owner, names, f"as {self.column} is missing"))

    def band_labels(self) -> tuple[str, ...]:
        if self.labels or not self.edges:
            return tuple(self.labels) or ("any",)
        between = [f"{a:g} to {b:g}" for a, b in zip(self.edges, self.edges[1:], strict=False)]
        return (f"up to {self.edges[0]:g}", *between, f"over {self.edges[-1]:g}")

    def bands_of(self, column: Array) -> Counts:
        """The band of each row; one more than the last for a missing value."""
        if column.dtype.kind not in "biuf":
            raise BadInput(
                f"split bands: column {self.column!r} holds {column.dtype}, but bands need numbers: use silos"
            )
        return find_bands(column.astype(np.float64), np.array(self.edges, dtype=np.float64))


def find_bands(values: Shares, edges: Shares) -> Counts:
    """b = number of edges below the value; len(edges) + 1 for NaN."""
    bands = np.searchsorted(edges, values, side="left")
    return np.where(np.isnan(values), len(edges) + 1, bands).astype(np.int64)


def notes_on(owner: Counts, names: tuple[str, ...], why: str) -> tuple[str, ...]:
    """Rows that no client gets, and clients that get none."""
    notes = []
    if left := int((owner < 0).sum()):
        notes.append(f"rows that no client gets: {left} of {len(owner)}, {why}")
    sizes = np.bincount(owner[owner >= 0], minlength=len(names))
    if empty := [name for name, n in zip(names, sizes, strict=True) if not n]:
        notes.append(f"clients that get none of {len(owner)} rows: {some(empty)}")
    return tuple(notes)


@SPLITS.register("age-strict")
@dataclass(frozen=True)
class AgeStrict:
    """AGE_STRICT: one client each for ages 0-20, 21-35 and 36+, and one for unknown ages.

    unknown   rows without an age: own (one last client) or drop (nobody's)
    """

    unknown: Unknown = "own"

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        bands = Bands("age", (20, 35), unknown=self.unknown, labels=("0-20", "21-35", "36+"))
        return bands.deal(data, pool, clients, key)


@SPLITS.register("age-some")
@dataclass(frozen=True)
class AgeSome:
    """AGE_SOME: two clients share ages 0-35 at random, one has 36+, and one unknown ages.

    unknown   rows without an age: own (one last client) or drop (nobody's)
    """

    unknown: Unknown = "own"

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        bands = Bands("age", (35,), agents=(2, 1), unknown=self.unknown, labels=("0-35", "36+"))
        return bands.deal(data, pool, clients, key)


@SPLITS.register("quantiles")
@dataclass(frozen=True)
class Quantiles:
    """Each client has one part of a column's range, all of about as many rows.

    column    the column to go by
    unknown   rows without a value: own (one more client, at the end) or drop (nobody's)
    """

    column: str = ""
    unknown: Unknown = "own"

    def __post_init__(self) -> None:
        Bands(unknown=self.unknown)

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if not self.column:
            raise BadInput("split quantiles needs a column of numbers to go by: for instance column=age")
        values = column_of("quantiles", data, data.train, self.column)
        missing = Bands(self.column).bands_of(values) > 0  # refuses what is no number
        own = bool(missing.any()) and self.unknown == "own"
        n = how_many("quantiles", data, clients, minimum=2, default=5 + own)
        if n < 2 + own:
            why = ", as rows without a value are a client of their own" if own else ""
            raise BadInput(
                f"split quantiles: clients={n} leaves {n - own} part(s) of {self.column}{why}: ask for at "
                f"least {2 + own}"
            )
        known = values[~missing].astype(np.float64)
        edges = np.quantile(known, np.arange(1, n - own) / (n - own), method="lower")
        if len(np.unique(edges)) < len(edges) or (len(edges) and edges[-1] >= known.max()):
            raise BadInput(
                f"split quantiles: {self.column} has too few different values for {n - own} parts: ask for "
                "fewer clients or choose another column"
            )
        bands = Bands(self.column, tuple(edges.tolist()), unknown=self.unknown)
        return bands.deal(data, pool, n, key)
