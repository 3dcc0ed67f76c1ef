"""What tells a site's rows again under another name: marks of rows, a digest of all, and their files.

A row's mark is a keyed hash of its inputs in order of size, so that neither the order of rows nor the order
or the names of columns matter; the key (`marks.key`) and the marks never leave the machine. Two tables are of
the same rows if they have a quarter of the smaller one's different rows in common. Of tables with few
different rows (a handful of yes and no) that would say nothing: those are the same only as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coterie.data.dataset import Dataset
from coterie.data.intake import Array
from coterie.federation.rows import digest_of_rows

SHARE = 0.25  # of the smaller table's different rows
FEWEST = 20  # different rows by which a table can be told from others
AT_ONCE = 4096  # rows, so that a large table is not in memory twice


@dataclass(frozen=True)
class RowMarks:
    """`marks` [different row], in order; `digests` and `files` may be several, of earlier tables too."""

    marks: np.ndarray
    digests: frozenset[str]
    files: frozenset[str]

    def same_rows(self, other: RowMarks) -> bool:
        if self.digests & other.digests or self.files & other.files:
            return True
        smaller = min(len(self.marks), len(other.marks))
        common = len(np.intersect1d(self.marks, other.marks, assume_unique=True))
        return smaller >= FEWEST and common >= SHARE * smaller

    def joined(self, other: RowMarks) -> RowMarks:
        """What was a site's stays its own, so that a table that changes bit by bit is still the same."""
        return RowMarks(
            np.union1d(self.marks, other.marks), self.digests | other.digests, self.files | other.files
        )


def row_marks(data: Dataset, key: bytes) -> RowMarks:
    found = [mark for pool in data.pools for mark in marks_in(pool.x, key)]
    return RowMarks(
        np.unique(np.array(found, dtype="<u8")), frozenset({digest_of_rows(data)}), frozenset(files_of(data))
    )


def marks_in(x: Array, key: bytes) -> Iterator[int]:
    flat = np.asarray(x).reshape(len(x), -1)
    for first in range(0, len(flat), AT_ONCE):
        for row in ordered(flat[first : first + AT_ONCE]):
            yield int.from_bytes(hashlib.blake2b(row, digest_size=8, key=key).digest(), "little")


def ordered(rows: np.ndarray) -> Iterator[bytes]:
    """Each row's values by size; unknown ones are all alike, and so are both zeros."""
    if rows.dtype.hasobject:
        return ("\0".join(sorted(map(repr, row))).encode() for row in rows.tolist())
    some = np.sort(rows, axis=1)
    if some.dtype.kind == "f":
        some = np.where(np.isnan(some), np.nan, some + 0.0)
    return (row.tobytes() for row in np.ascontiguousarray(some))


def files_of(data: Dataset) -> Iterator[str]:
    """Files that have rows of this site alone; one that several share tells nothing."""
    recipe = data.recipe
    if recipe is not None and not recipe.site:
        for file in recipe.sites.values() if recipe.sites else [recipe.file]:
            if file:
                yield str((Path(recipe.folder) / file).resolve())
