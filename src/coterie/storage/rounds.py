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
import itertools
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie.storage.atomic import append_line, keep_lines, read_lines

TIMINGS, MATRICES, METRICS = "timings.jsonl", "collaboration.jsonl", "metrics.jsonl"
LINES = {TIMINGS: 0, MATRICES: 1, METRICS: 0}
"""The first round that each has, in the order of writing."""
WEIGHTS = "weights"
PASSED = "traffic"
NAMED = "matrices/"  # before the names that methods choose


def matrix_told(matrix: np.ndarray) -> dict[str, Any]:
    """A matrix as JSON holds it."""
    packed = zlib.compress(matrix.tobytes(), level=1)
    return {
        "type": matrix.dtype.str,
        "shape": list(matrix.shape),
        "zlib": base64.b64encode(packed).decode(),
    }


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
