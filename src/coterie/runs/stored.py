"""Matrices of a run, read from its folder when asked for: for many clients all would not fit."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coterie.core.errors import BadRun

T = TypeVar("T")

WEIGHTS = "weights"
PASSED = "traffic"
NAMED = "matrices/"  # before the names that methods choose


class StoredMatrices(Mapping[int, np.ndarray]):
    """One matrix by round, read from the folder when asked for: for many clients all would not fit."""

    def __init__(self, path: Path, key: str = WEIGHTS, rounds: list[int] | None = None) -> None:
        self._path, self._key, self._rounds = path, key, rounds

    def __getitem__(self, round: int) -> np.ndarray:
        return _load(self._path, round, lambda file: np.asarray(file[self._key]))

    def __iter__(self) -> Iterator[int]:
        return iter(_rounds(self._path) if self._rounds is None else self._rounds)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class StoredByName(Mapping[str, Mapping[int, np.ndarray]]):
    """Further matrices by name; a round may have others than the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: dict[int, list[str]] = {}  # what a file holds never changes: it is looked up once

    def __getitem__(self, name: str) -> StoredMatrices:
        return StoredMatrices(self._path, NAMED + name, self._found()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, list[int]]:
        """The rounds that have each name."""
        found: dict[str, list[int]] = {}
        for round in _rounds(self._path):
            if round not in self._held:
                self._held[round] = _load(self._path, round, lambda file: list(file.files))
            for key in self._held[round]:
                if key.startswith(NAMED):
                    found.setdefault(key.removeprefix(NAMED), []).append(round)
        return found


def _rounds(path: Path) -> list[int]:
    return sorted(int(m.stem) for m in (path / "collaboration").glob("[0-9]*.npz"))


def _load(path: Path, round: int, look: Callable[[Any], T]) -> T:
    """What `look` sees in a round's file; numpy reads only the matrices that it touches."""
    name = path / "collaboration" / f"{round:05d}.npz"
    try:
        with np.load(name) as file:
            return look(file)
    except FileNotFoundError:
        raise KeyError(round) from None
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise BadRun(f"{name} is damaged ({error}): delete it to do without this round's matrices") from None
