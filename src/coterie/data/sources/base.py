"""A source: a named set of data, with the facts a reader asks for and a way to load it.

Pictures stay bytes in the pool until a client's rows are prepared (`Normalise`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from coterie.core.registry import Registry
from coterie.data.dataset import Arrays, Dataset
from coterie.data.downloads import PublishedFile, at_hand, obtain


class Natural(NamedTuple):
    """What "auto" means for a source: what makes a first sensible run.

    split     how its rows are dealt
    model     what learns
    table     whether its rows are those of a table, which has local work of its own
    by_task   whether the task decides about the model, which is known once rows are read or sites are met
    """

    split: str = "iid"
    model: str = "mlp"
    table: bool = False
    by_task: bool = False


class Source(Protocol):
    """A frozen dataclass of options; the class docstring's first line says what it is.

    about      one line: how many rows of what
    citation   whom to cite
    licence    the terms it comes under
    natural    what "auto" means for it; those of a plugin may leave it out
    """

    natural: ClassVar[Natural]
    about: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]

    def load(self) -> Dataset:
        """The data, fetched first if need be."""
        ...

    def fetch(self) -> list[Path]:
        """The checked files it reads, fetched where missing; none if it comes with an installed package."""
        ...

    def at_hand(self) -> bool:
        """Whether `load` will do without a network."""
        ...


class AtHand:
    """What a source says that fetches nothing: its files come with a package, or are the user's."""

    def fetch(self) -> list[Path]:
        return []

    def at_hand(self) -> bool:
        return True


class Published:
    """The same of one with published files, by the names of the `folders` that may hold them."""

    files: ClassVar[tuple[PublishedFile, ...]]
    folders: ClassVar[tuple[str, ...]]

    def fetch(self) -> list[Path]:
        return obtain(self.files, self.folders)

    def at_hand(self) -> bool:
        return at_hand(self.files, self.folders)


SOURCES: Registry[Source] = Registry("data source")


def natural_of(name: str) -> Natural:
    """What "auto" means for a source; the usual for one that does not say."""
    return getattr(SOURCES[name], "natural", Natural()) if name in SOURCES else Natural()


@dataclass(frozen=True)
class Normalise:
    """`Prepare` for bytes [n, channel, height, width]: (x / 255 - mean) / deviation, one of each a channel.

    Both are published constants of the whole training set; nothing is fitted.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, train: Arrays, *others: Arrays) -> tuple[list[Arrays], tuple[str, ...]]:
        published = self.mean, self.deviation
        mean, deviation = (np.array(v, dtype=np.float32).reshape(1, -1, 1, 1) for v in published)
        made = []
        for pool in (train, *others):
            x = pool.x.astype(np.float32)
            x /= 255
            x -= mean
            x /= deviation
            made.append(Arrays(x, pool.y, pool.columns))
        told = [", ".join(f"{v:.4f}" for v in values) for values in published]
        constants = f"mean {told[0]} and deviation {told[1]}"
        return made, (f"pixels scaled to [0, 1], then normalised with the published {constants}",)
