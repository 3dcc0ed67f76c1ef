"""The two splits by age of grimberg-2020, for Titanic: bands under their own names."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.seeds import Key
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition.bands import Bands, Unknown
from coterie.data.partition.base import SPLITS, Deal


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
