"""Clients by bands of one column, such as age groups.

Grimberg, "Privacy-preserving and personalized federated machine learning for medical data", 2020, section
5.2: AGE_STRICT gives each age group to one agent, AGE_SOME lets several agents share a group at random.

A value belongs to the first band whose upper edge it does not exceed: edges 20, 35 make the bands
(.., 20], (20, 35] and (35, ..). On Titanic, where one passenger is 20.5, this reading of "0-20, 21-35, 36+"
gives the sizes 248, 476 and 322 of the author's program, and 263 unknown; "younger than 21" would give 249.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.base import SPLITS, Deal
from coterie.data.partition.columns import column_of, refuse_other_count
from coterie.data.partition.counts import Counts, Shares, some
from coterie.data.partition.iid import deal_equally

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
        if self.unknown not in ("own", "drop"):
            raise UnknownName("rule for unknown values", self.unknown, ("own", "drop"))

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
                remedy = (
                    "drop unknown values (unknown=drop)"
                    if label == "unknown"
                    else "move its edges or lower agents"
                )
                raise BadInput(
                    f"split bands: band {self.column} {label} has {found} training row(s) for {shared} "
                    f"client(s), but each needs at least 2: {remedy}"
                )
        band, rng = (
            self.bands_of(column_of("bands", data, pool, self.column)),
            key.at("rows", len(pool)).numpy(),
        )
        owner = np.full(len(pool), -1, dtype=np.int64)
        for b, shared in enumerate(agents):
            rows = np.flatnonzero(band == b)
            owner[rows] = sum(agents[:b]) + deal_equally(len(rows), shared, rng)
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
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="left")).astype(
        np.int64
    )


def notes_on(owner: Counts, names: tuple[str, ...], why: str) -> tuple[str, ...]:
    """Rows that no client gets, and clients that get none."""
    notes = []
    if left := int((owner < 0).sum()):
        notes.append(f"rows that no client gets: {left} of {len(owner)}, {why}")
    sizes = np.bincount(owner[owner >= 0], minlength=len(names))
    if empty := [name for name, n in zip(names, sizes, strict=True) if not n]:
        notes.append(f"clients that get none of {len(owner)} rows: {some(empty)}")
    return tuple(notes)
