"""Files that grow by a line a round, and how a matrix stands in one: those of a run, and of a site's part of
it.

    timings.jsonl           from round 0
    collaboration.jsonl     from round 1: {"round": 1, "weights": MATRIX, ...}, where a matrix is
                            {"type": "<f4", "shape": [3, 3], "zlib": TEXT}, and the text is base64 of the
                            numbers, compressed
    metrics.jsonl           from round 0

They are written in this order: a round counts that is in all of them.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadRun
from coterie.storage.atomic import append_line, keep_lines, read_lines

TIMINGS, MATRICES, METRICS = "timings.jsonl", "collaboration.jsonl", "metrics.jsonl"
LINES = {TIMINGS: 0, MATRICES: 1, METRICS: 0}
"""The first round that each has, in the order of writing."""
WEIGHTS = "weights"
PASSED = "traffic"
NAMED = "matrices/"  # before the names that methods choose


def matrix_told(matrix: np.ndarray) -> dict[str, Any]:
    """A matrix as JSON holds it."""
    packed = base64.b64encode(zlib.compress(matrix.tobytes(), level=1)).decode()
    return {"type": matrix.dtype.str, "shape": list(matrix.shape), "zlib": packed}


def matrix_of(told: Mapping[str, Any]) -> np.ndarray:
    """The inverse of `matrix_told`."""
    packed = base64.b64decode(told["zlib"], validate=True)
    numbers = np.frombuffer(zlib.decompress(packed), dtype=told["type"])
    return numbers.reshape(told["shape"]).copy()


def write_round(
    folder: Path,
    line: Mapping[str, Any],
    timing: Mapping[str, Any],
    weights: np.ndarray | None,
    matrices: Mapping[str, np.ndarray],
    passed: np.ndarray,
) -> None:
    append_line(folder / TIMINGS, timing)
    if weights is not None:
        named = {NAMED + name: matrix for name, matrix in matrices.items()}
        kept = {WEIGHTS: weights.astype(np.float32), PASSED: passed, **named}
        found = {name: matrix_told(matrix) for name, matrix in kept.items()}
        append_line(folder / MATRICES, {"round": line["round"], **found})
    append_line(folder / METRICS, line)


def written(folder: Path) -> int:
    """The last round up to which no line is missing; -1 for none."""
    last = []
    for name, first in LINES.items():
        rounds = (line["round"] for line in read_lines(folder / name) if "round" in line)
        wanted = zip(itertools.count(first), rounds, strict=False)
        last.append(first - 1 + sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], wanted)))
    return min(last)


def drop_after(folder: Path, done: int) -> None:
    """Lines of rounds after this one go; those that are of no round stay."""
    for name in LINES:
        keep_lines(folder / name, lambda line: line.get("round", done) <= done)


# read back, when asked for


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
