"""Groups of clients that see the same differently: pictures turned, labels moved on, columns moved.

`clusters`. Karlsson and Onoszko, "PENS: leveraging data heterogeneity in federated learning", 2021, section
3.4: rows are dealt in equal numbers to N clients; one half of them keeps its pictures, the other half has
them rotated by 180 degrees (M = 2 clusters, client numbers in contiguous blocks). Ghosh et al., "An efficient
framework for clustered federated learning", 2020, arXiv:2006.04088, rotate the same pictures too.

    M -> `clusters`;  cluster index k_i of client i -> Deal.clusters[i];  P_k -> `turns[k]`

The thesis tests every client on the whole test set, turned as its cluster is; here a client's test rows are
its own part of it, since a row has at most one owner.

`concept`: the same inputs mean another label in another cluster of clients, p(y|x) skew. Sattler, Müller and
Samek, "Clustered federated learning: model-agnostic distributed multitask optimization under privacy
constraints", 2021, permute labels by cluster. Here, in cluster c of M:

    y ← (y + c) mod K      for the first K classes; others keep their label

K is `classes`, M `clusters`. With two classes, cluster 1 has them the other way round. No model that sees
inputs alone can serve two clusters.

`appearance`: the same label looks different in another cluster of clients, p(x|y) skew, for tables. Every
cluster but the first has, for each class y and each column j of numbers, an offset of its own:

    x_j ← x_j + s d_j z_cyj,     z_cyj ~ N(0, 1)

s is `strength` and d_j the deviation of the column over all known training values. Offsets differ by class,
as one that all rows of a client share would be taken out again where each client scales by its own mean.
Targets that are no classes have one offset in each cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coterie.core.errors import BadInput, UnknownName
from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.intake import Array
from coterie.data.partition.base import SPLITS, Deal, cells_of, deal_equally
from coterie.data.partition.counts import Shares, class_total, round_column
from coterie.data.tabular import TabularPrepare


def _invert(x: np.ndarray) -> np.ndarray:
    """White for black: 255 - x for bytes, 1 - x for numbers from 0 to 1.

    Fixed, not fitted: a client's training and test rows are treated alike, whatever they hold.
    """
    if x.dtype == np.uint8:
        return 255 - x
    least, most = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if x.dtype.kind != "f" or not 0 <= least <= most <= 1:
        raise BadInput(
            f"turn invert needs pixels as bytes or as numbers from 0 to 1; got {x.dtype} from {least:g} to "
            f"{most:g}: scale them"
        )
    return 1 - x


TURNS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "rotate-90": lambda x: np.rot90(x, 1, axes=(2, 3)),  # against the clock
    "rotate-180": lambda x: x[:, :, ::-1, ::-1],
    "rotate-270": lambda x: np.rot90(x, 3, axes=(2, 3)),
    "flip-horizontal": lambda x: x[:, :, :, ::-1],
    "flip-vertical": lambda x: x[:, :, ::-1, :],  # karlsson-2021's program, where its text says rotate by 180
    "invert": _invert,
}
QUARTERS = ("rotate-90", "rotate-270")  # of square pictures only, for all clients share one shape


def turn(name: str, x: np.ndarray) -> np.ndarray:
    """Raw pictures x [n, channel, height, width] transformed by the turn of that name."""
    if name not in TURNS:
        raise UnknownName("turn", name, TURNS)
    if x.ndim != 4:
        raise BadInput(f"turn {name} needs pictures [n, channel, height, width]; got shape {list(x.shape)}")
    height, width = x.shape[2:]
    if name in QUARTERS and height != width:
        raise BadInput(f"turn {name} needs square pictures; got {height}x{width}: use rotate-180 or a flip")
    return np.ascontiguousarray(TURNS[name](x))


@SPLITS.register("clusters")
@dataclass(frozen=True)
class Clusters:
    """Rows dealt as in iid; each cluster of clients has its pictures transformed in its own way.

    clusters   how many; as many as there are turns if left out
    turns      one transformation for each cluster
    shares     relative numbers of clients in the clusters; equal if left out
    """

    clusters: int | None = None
    turns: tuple[str, ...] = ("identity", "rotate-180")
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in self.turns:
            if name not in TURNS:
                raise UnknownName("turn", name, TURNS)
        if len(set(self.turns)) < len(self.turns):
            raise BadInput(
                f"split clusters: turns {', '.join(self.turns)} repeat one: give each cluster its own"
            )
        m = self.count
        if not 1 <= m <= len(self.turns):
            raise BadInput(
                f"split clusters: {m} clusters need 1 to {len(self.turns)}, one for each turn given "
                f"({', '.join(self.turns)}): name {max(m, 1)} of {', '.join(TURNS)}"
            )
        if self.shares and (len(self.shares) != m or not all(0 < s < float("inf") for s in self.shares)):
            raise BadInput(
                f"split clusters: shares {tuple(self.shares)} must be {m} numbers above 0, "
                "one for each cluster: for instance 3 1"
            )

    @property
    def count(self) -> int:
        """M, the number of clusters."""
        return len(self.turns) if self.clusters is None else self.clusters

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        if pool.x.ndim != 4:
            raise BadInput(
                f"split clusters turns pictures, but {data.name} has inputs of shape "
                f"{list(pool.x.shape[1:])}: use picture data or another split"
            )
        deal = deal_equally("clusters", data, pool, clients, key.at("rows", len(pool)).numpy())
        used = self.turns[: self.count]
        shown = pool.x[:1] if pool.x.dtype == np.uint8 else pool.x  # only numbers have a range to check
        for name in used:
            turn(name, shown)  # refuses what cannot be turned before anything is dealt
        cluster = blocks(len(deal.names), self.shares or (1.0,) * self.count)
        return replace(deal, clusters=cluster, turns=tuple(used[c] for c in cluster))


def blocks(clients: int, shares: tuple[float, ...], split: str = "clusters") -> tuple[int, ...]:
    """The cluster of each client: contiguous blocks, sizes by largest remainder."""
    parts = np.array(shares, dtype=np.float64)
    sizes = round_column(clients, parts / parts.sum(), np.zeros(len(parts)))
    if sizes.min() < 1:
        raise BadInput(
            f"split {split}: {clients} clients leave cluster {int(sizes.argmin())} of {len(parts)} empty: "
            "ask for more clients or more even shares"
        )
    return tuple(np.repeat(np.arange(len(parts)), sizes).tolist())


@SPLITS.register("concept")
@dataclass(frozen=True)
class Concept:
    """Rows dealt as in iid; each cluster of clients has its labels moved on by one more.

    clusters   how many, at most as many as labels are moved
    classes    how many classes, from the first, have their labels moved; 0: all
    """

    clusters: int = 2
    classes: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise BadInput(f"split concept: clusters={self.clusters} must be at least 2: try 2")
        if self.classes < 0 or self.classes == 1:
            raise BadInput(f"split concept: classes={self.classes} must be 0, for all, or at least 2: try 0")

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        there = class_total("concept", data)
        moved = self.classes or there
        if moved > there:
            raise BadInput(
                f"split concept: classes={moved} must be at most {there}, all that there are: try 0"
            )
        if self.clusters > moved:
            raise BadInput(
                f"split concept: clusters={self.clusters} must be at most {moved}, the classes that move: "
                "lower it"
            )
        deal = deal_equally("concept", data, pool, clients, key.at("rows", len(pool)).numpy())
        cluster = blocks(len(deal.names), (1.0,) * self.clusters, "concept")
        of = np.array(cluster)[deal.owner]
        changed = int(((of > 0) & (pool.y < moved)).sum())
        among = f"among {moved} classes: {changed} of {len(pool)} rows"
        said = f"labels moved on by their cluster's number, {among}"
        rows = replace(pool, y=moved_on(pool.y, of, moved))
        return replace(deal, clusters=cluster, rows=rows, notes=(said, *deal.notes))


def moved_on(y: Array, cluster: Array, classes: int) -> Array:
    """(y + c) mod K for labels below K; the others stay."""
    return np.where(y < classes, (y + cluster) % classes, y).astype(y.dtype)


@SPLITS.register("appearance")
@dataclass(frozen=True)
class Appearance:
    """Rows dealt as in iid; in each cluster of clients, a class has its columns of numbers elsewhere.

    clusters   how many; the first is left as it is
    strength   how far, in deviations of a column
    """

    clusters: int = 2
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise BadInput(f"split appearance: clusters={self.clusters} must be at least 2: try 2")
        if not 0 < self.strength < math.inf:
            raise BadInput(f"split appearance: strength={self.strength} must be above 0 and finite: try 1")

    def deal(self, data: Dataset, pool: Arrays, clients: int | None, key: Key) -> Deal:
        x, columns = cells_of("appearance", data, pool), _columns_of_numbers(data)
        deal = deal_equally("appearance", data, pool, clients, key.at("rows", len(pool)).numpy())
        cluster = blocks(len(deal.names), (1.0,) * self.clusters, "appearance")
        of = np.array(cluster)[deal.owner]
        labelled = data.task == "classification"
        classes = class_total("appearance", data) if labelled else 1
        label = pool.y if labelled else np.zeros(len(pool), dtype=np.int64)
        spread = np.nanstd(cells_of("appearance", data, data.train)[:, columns], axis=0)
        offsets = self.offsets(classes, spread, key.at("clients").numpy())
        x[:, columns] += offsets[of, label]
        said = (
            f"columns of numbers moved by cluster and class, by {self.strength:g} deviations or so, in all "
            f"but the first cluster: {len(columns)} columns, {int((of > 0).sum())} of {len(pool)} rows"
        )
        rows = replace(pool, x=x.astype(np.asarray(pool.x).dtype))
        return replace(deal, clusters=cluster, rows=rows, notes=(said, *deal.notes))

    def offsets(self, classes: int, spread: Shares, rng: np.random.Generator) -> Shares:
        """[cluster, class, column], 0 in the first cluster."""
        drawn: Shares = self.strength * spread * rng.normal(size=(self.clusters, classes, len(spread)))
        drawn[0] = 0
        return drawn


def _columns_of_numbers(data: Dataset) -> list[int]:
    """Which of a table's columns hold numbers, neither flags nor categories; where nothing says so, those of
    more than two values.
    """
    if isinstance(data.prepare, TabularPrepare):
        found = [i for i, c in enumerate(data.prepare.columns) if c.scaled]
    else:
        found = [i for i, column in enumerate(data.train.x.T) if len(np.unique(column)) > 2]
    if not found:
        raise BadInput(
            f"split appearance moves columns of numbers, and {data.name} has none: use another split"
        )
    return found
