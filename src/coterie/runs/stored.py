"""Matrices of a run: one line for each round, read from the folder when asked for; for many clients all of
them would not fit into memory. How a matrix stands in its line is in `storage/rounds.py`.
"""

from __future__ import annotations

import binascii
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadRun
from coterie.storage.rounds import MATRICES, NAMED, WEIGHTS, matrix_of


class StoredRounds:
    """The lines of a run's file by round; one that a kill cut short does not count. What is new counts at
    once, or where it is `held`, from the next `look` on: who shows a run that goes on needs the same from
    beginning to end.
    """

    def __init__(self, path: Path, held: bool = False) -> None:
        self._file, self._held = path / MATRICES, held
        self._places: dict[int, int] = {}  # where a round's line begins; what is written never changes
        self._names: dict[int, list[str]] = {}
        self._end = 0

    def rounds(self) -> list[int]:
        """Those that are written down by now."""
        if not self._held:
            self.look()
        return list(self._places)

    def entry(self, round: int) -> dict[str, Any]:
        self.rounds()
        with self._file.open("rb") as file:
            file.seek(self._places[round])
            try:
                entry: dict[str, Any] = json.loads(file.readline())
            except ValueError as error:
                raise self.damaged(round, error) from None
            return entry

    def matrix(self, round: int, name: str) -> np.ndarray:
        entry = self.entry(round)
        if name not in entry:
            raise KeyError(round)
        try:
            return matrix_of(entry[name])
        except (binascii.Error, zlib.error, KeyError, TypeError, ValueError) as error:
            raise self.damaged(round, error) from None

    def names(self, round: int) -> list[str]:
        if round not in self._names:
            self._names[round] = [name for name in self.entry(round) if name != "round"]
        return self._names[round]

    def damaged(self, round: int, error: Exception) -> BadRun:
        return BadRun(f"{self._file}, round {round}, is damaged ({error}): delete the file to do without it")

    def look(self) -> None:
        size = self._file.stat().st_size if self._file.exists() else self._end
        if size == self._end:
            return
        if size < self._end:  # cut, to go on from an earlier round
            self._places, self._names, self._end = {}, {}, 0
        with self._file.open("rb") as file:
            file.seek(self._end)
            for line in file:
                found = re.match(rb'\{"round": (\d+),', line)
                if not line.endswith(b"\n") or found is None:
                    break
                self._places[int(found[1])] = self._end
                self._end += len(line)


class StoredMatrices(Mapping[int, np.ndarray]):
    """One matrix by round."""

    def __init__(self, stored: StoredRounds, key: str = WEIGHTS, rounds: list[int] | None = None) -> None:
        self._stored, self._key, self._rounds = stored, key, rounds

    def __getitem__(self, round: int) -> np.ndarray:
        return self._stored.matrix(round, self._key)

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored.rounds() if self._rounds is None else self._rounds)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class StoredByName(Mapping[str, Mapping[int, np.ndarray]]):
    """Further matrices by name; a round may have others than the next."""

    def __init__(self, stored: StoredRounds) -> None:
        self._stored = stored
        self._last: tuple[list[int], dict[str, list[int]]] = [], {}

    def __getitem__(self, name: str) -> StoredMatrices:
        return StoredMatrices(self._stored, NAMED + name, self._found()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, list[int]]:
        """The rounds that have each name; worked out anew when there are others."""
        rounds, found = self._stored.rounds(), dict[str, list[int]]()
        if rounds == self._last[0]:
            return self._last[1]
        for round in rounds:
            for key in self._stored.names(round):
                if key.startswith(NAMED):
                    found.setdefault(key.removeprefix(NAMED), []).append(round)
        self._last = rounds, found
        return found
