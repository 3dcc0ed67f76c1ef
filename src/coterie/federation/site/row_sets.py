"""Which rows a site has told figures of, ever, and which it may tell of next.

A score is a sum over rows. Two scores of one model over sets of rows that differ by one row tell that row; so
do three of which two add up to the third but for a row. With v_1, v_2, ... how often each row is in each set
that was told of, whoever knows these sums knows those of every combination of the v_k. Two rules keep single
rows out of reach, whichever leads asked, and whenever:

    no combination of sets is about fewer than `least` rows, but for none at all
    h_i = ‖P e_i‖² <= `leverage`      P projects on the span of all v_k, e_i is row i alone

h_i is row i's leverage: how much of what makes the row differ from others the sums explain. If all h_i are at
most 1 / `least`, the first rule holds: a v in the span has v_i² <= h_i ‖v‖², so that at least `least` rows
are in it. Else the combination that leaves fewest rows is searched, by least absolute deviations. Rows about
one person count as one.

Steps of local work on some rows, drawn anew for each visit, are another matter: nothing but the model comes
of them, which is the policy's to give, and no figure is told of them (`session.py`).
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, identity, vstack

from coterie.core.errors import BadRun, Refused
from coterie.data.tables.texts import plain
from coterie.federation.site.budget import append_synced
from coterie.federation.site.state_folders import STATE_FILES, kin_of
from coterie.storage.atomic import readable_errors, write_whole

ROW_SETS = "row_sets.jsonl"
MOST_NUMBERS = 50_000_000  # of a basis, 400 MB
_SEARCHED = 64  # sets, at most, among which a combination is searched; beyond, leverage alone decides
LONGEST = 5.0  # seconds to search for a combination
_TINY = 1e-9
Counts = npt.NDArray[np.int64]
_Numbers = npt.NDArray[np.float64]


@dataclass(eq=False)
class Span:
    """All combinations of some vectors, by an orthonormal basis [row, vector]."""

    basis: _Numbers
    leverage: _Numbers

    @classmethod
    def of(cls, rows: int) -> Span:
        return cls(np.zeros((rows, 0)), np.zeros(rows))

    def beyond(self, counts: Counts) -> _Numbers | None:
        """The direction in which the counts leave the span, of length 1; None if they do not."""
        v = counts.astype(np.float64)
        length = np.linalg.norm(v)
        for _ in range(2):  # once more for the sake of rounding
            v = v - self.basis @ (self.basis.T @ v)
        rest = np.linalg.norm(v)
        return None if rest <= _TINY * max(float(length), 1.0) else v / rest

    def refuse_full(self) -> None:
        """Before a set is written down: one that has no room would keep the site from starting again."""
        if self.basis.size + len(self.basis) > MOST_NUMBERS:
            many = f"rows were looked at in {self.basis.shape[1]} ways, all that can be kept account of"
            raise Refused(f"{many}: take one deal for all seeds (--deal 0)")

    def grow(self, direction: _Numbers) -> None:
        self.basis = np.column_stack([self.basis, direction])
        self.leverage = self.leverage + direction**2


@dataclass(eq=False)
class _Topic:
    """Sets that figures of one kind were told of: those of models, or sums of one column."""

    span: Span
    sets: list[Counts] = field(default_factory=list)
    known: set[str] = field(default_factory=set)


@dataclass(eq=False)
class RowSets:
    """The sets of one site's rows, in its folder. `marks` are of each row's contents, so that rows are known
    again in a table that has grown; rows of the same `units` are about one person.
    """

    folder: Path
    marks: Sequence[str]
    units: Counts
    least: int
    leverage: float = 0.75
    places: dict[str, int] = field(default_factory=dict)  # of all rows there ever were

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / ROW_SETS
        self.topics: dict[str, _Topic] = {}
        self.own: set[str] = set()  # marks that are in this site's file
        told = self._read()
        self._place(self.marks)
        new = [mark for mark in self.places if mark not in self.own]
        if new:  # those of kin too, so that counts are by the places that this file has
            append_synced(self.path, {"rows": new})
        self.here = np.array([self.places[mark] for mark in self.marks], dtype=np.int64)
        persons = np.arange(len(self.places)) + int(self.units.max(initial=0)) + 1
        persons[self.here] = self.units
        self.persons = np.unique(persons, return_inverse=True)[1]
        for name, counts in told:
            more = np.zeros(len(self.places) - len(counts), dtype=counts.dtype)
            topic, wide = self.about(name), np.concatenate([counts, more])
            self._add(topic, wide, topic.span.beyond(wide))

    # what is asked

    def about(self, topic: str = "") -> _Topic:
        """A column is the same however a lead spells its name."""
        return self.topics.setdefault(plain(topic), _Topic(Span.of(len(self.places))))

    def admit(self, rows: Counts, who: Mapping[str, str], topic: str = "") -> None:
        """A figure of these rows, by their places in the table, is to be told; else Refused."""
        counts = np.bincount(self.here[rows], minlength=len(self.places)).astype(np.int64)
        before = self.about(topic)
        if _counts_digest(counts) in before.known:
            return
        if (many := self.persons_in(counts)) < self.least:
            few = f"figures of {many} rows, below the policy's {self.least}"
            raise Refused(f"{few}: ask for more rows, or lower min_rows")
        if (direction := before.span.beyond(counts)) is not None:
            before.span.refuse_full()
            self._check_span(counts, direction, before)
        packed = b64encode(zlib.compress(counts.astype("<u4").tobytes())).decode()
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **who, **({"topic": topic} if topic else {})}
        append_synced(self.path, {**entry, "set": packed})
        self._add(before, counts, direction)

    def _add(self, topic: _Topic, counts: Counts, direction: _Numbers | None) -> None:
        topic.sets.append(counts)
        topic.known.add(_counts_digest(counts))
        if direction is not None:
            topic.span.grow(direction)

    # the rules

    def persons_in(self, vector: npt.NDArray[Any]) -> int:
        return len(np.unique(self.persons[np.abs(vector) > 1e-6]))

    def _check_difference(self, left: npt.NDArray[Any]) -> None:
        if 0 < (many := self.persons_in(left)) < self.least:
            few = f"rows that differ by {many} from rows that figures were told of before"
            remedy = "take one deal for all seeds (--deal 0), other shares or folds, or lower min_rows"
            raise Refused(f"{few}, below the policy's {self.least}: {remedy}")

    def _check_span(self, counts: Counts, direction: _Numbers, before: _Topic) -> None:
        after = before.span.leverage + direction**2
        each: _Numbers = np.bincount(self.persons, weights=after).astype(np.float64)
        if each.max() <= (1 + _TINY) / self.least:
            return
        for other in before.sets:
            self._check_difference(counts - other)
        if each.max() > self.leverage + _TINY:
            own = f"{each.max():.0%} of what is one row's own could be told"
            many = f"rows looked at in so many ways, {len(before.sets)} so far, that {own}"
            remedy = "take one deal for all seeds (--deal 0), fewer folds or candidates"
            raise Refused(f"{many}, above the policy's {self.leverage:.0%}: {remedy}, or raise row_leverage")
        if 0 < len(before.sets) <= _SEARCHED:
            self._check_difference(fewest_left(counts, np.array(before.sets)))

    # what is kept

    def _place(self, marks: Iterable[str]) -> None:
        for mark in marks:
            self.places.setdefault(mark, len(self.places))

    def _read(self) -> list[tuple[str, Counts]]:
        """Topics and sets that this site has told of, and others with the same rows. A line that cannot be
        read ends it: it could not say what was told.
        """
        told = list[tuple[str, Counts]]()
        for folder in (self.folder, *kin_of(self.folder)):
            path, marks = folder / ROW_SETS, list[str]()
            if not path.exists():
                continue
            with readable_errors(path):
                whole, _, torn = path.read_text().rpartition("\n")
            lines = whole.splitlines()
            for number, line in enumerate(lines, 1):
                try:
                    told += self._read_line(json.loads(line), marks, path)
                except (ValueError, TypeError, LookupError, AttributeError, zlib.error, RecursionError):
                    remedy = "restore it, or remove the file, and what was told before counts no more"
                    raise BadRun(f"{path}: line {number} is damaged: {remedy}") from None
            if folder == self.folder:
                self.own = set(marks)
                if torn:  # a last line that is cut short
                    write_whole(path, "".join(f"{line}\n" for line in lines))
        return told

    def _read_line(self, entry: Mapping[str, Any], marks: list[str], path: Path) -> list[tuple[str, Counts]]:
        """A set, if the line has one, of a file whose rows have these marks so far."""
        STATE_FILES.check(entry, path)
        if "rows" in entry:
            marks += map(str, entry["rows"])
            self._place(marks)
            return []
        found = np.frombuffer(zlib.decompress(b64decode(entry["set"])), dtype="<u4").astype(np.int64)
        counts = np.zeros(len(self.places), dtype=np.int64)
        here = np.array([self.places[mark] for mark in marks[: len(found)]], dtype=np.int64)
        if len(here) < len(found):
            raise IndexError
        counts[here] = found
        return [(str(entry.get("topic", "")), counts)]


def _counts_digest(counts: Counts) -> str:
    """The same for the same rows, also once there are more."""
    places = np.flatnonzero(counts)
    return hashlib.sha256(places.tobytes() + counts[places].tobytes()).hexdigest()


def fewest_left(counts: Counts, sets: npt.NDArray[np.int64]) -> _Numbers:
    """What the combination of sets leaves of the counts [row] that leaves least of them, in absolute terms.

    Rows that are in the same sets as often have one term, so that there are few.
    """
    table, which, many = np.unique(np.vstack([sets, counts]), axis=1, return_inverse=True, return_counts=True)
    known, wanted = csr_array(table[:-1].T.astype(np.float64)), table[-1].astype(np.float64)
    terms, some = known.shape
    ones = identity(terms, format="csr")
    above, below = hstack([known, -ones]), hstack([-known, -ones])
    found = linprog(
        np.concatenate([np.zeros(some), many.astype(np.float64)]),
        A_ub=vstack([above, below]),
        b_ub=np.concatenate([wanted, -wanted]),
        bounds=[(None, None)] * some + [(0, None)] * terms,
        method="highs",
        options={"time_limit": LONGEST},
    )
    if found.status != 0:  # a combination that was not searched to its end says nothing
        raise Refused("it cannot be said whether these rows differ from earlier ones by few: ask for others")
    left: _Numbers = (wanted - known @ found.x[:some])[which.reshape(-1)]
    return left


def numbered_marks(marks: Iterable[int]) -> list[str]:
    """Marks of rows (`state.marks_in`), so that of rows that are alike the second has another."""
    found, seen = list[str](), Counter[int]()
    for mark in marks:
        seen[mark] += 1
        found.append(f"{mark:016x}-{seen[mark]}")
    return found
