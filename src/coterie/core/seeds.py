"""Random numbers from names, not from a global state.

A `Key` is a path: the run's seed and what has been drawn for whom, for instance
(seed 0) / round 3 / guest 1 / host 4. The same path gives the same numbers on every engine, in
every order and after a resume; different paths give independent ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Key:
    """A place in the tree of random numbers, and where the run stands (`round` of `rounds`)."""

    seed: int
    path: tuple[int | str, ...] = ()
    round: int = 0
    rounds: int = 1

    def at(self, *path: int | str) -> Key:
        """The key one or more steps further down."""
        return Key(self.seed, self.path + path, self.round, self.rounds)

    def at_round(self, round: int, rounds: int) -> Key:
        """The key of one round; schedules read how far the run has come."""
        return replace(self, path=(*self.path, "round", round), round=round, rounds=rounds)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"seed": self.seed, "path": list(self.path), "round": self.round, "rounds": self.rounds}

    @staticmethod
    def of(told: Mapping[str, Any]) -> Key:
        return Key(int(told["seed"]), tuple(told["path"]), int(told["round"]), int(told["rounds"]))

    def integer(self) -> int:
        """A number below 2**63 that is this key's own."""
        path = tuple(step if isinstance(step, str) else int(step) for step in self.path)
        text = repr((int(self.seed), path)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1

    def numpy(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.integer()))

    def torch(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.integer())
