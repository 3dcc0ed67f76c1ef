"""Studies in folders, read while they grow.

A study is what was trained on the same rows: one run, or the methods and seeds of a comparison. Files of a
run only grow, but for a run that goes on after a cut, which drops rounds first; then all of it is read again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.core.errors import CoterieError
from coterie.features.live.hook import FILE as NOW
from coterie.features.quality.shown import read_quality
from coterie.runs.compare import diverged_in, is_comparison, places_in
from coterie.runs.folder import is_run, kept_files, read_record
from coterie.runs.record import Record
from coterie.show import views
from coterie.show.parts import Runs as Section
from coterie.storage.decisions import FILE as DECISIONS
from coterie.storage.events import FILE as EVENTS
from coterie.storage.rounds import METRICS, TIMINGS, StoredRounds
from coterie.storage.tail import Tail

_NEWS = (METRICS, EVENTS, NOW, DECISIONS, *kept_files(), "models.safetensors")
"""Files by which a folder tells that something has happened in it."""
_Mark = tuple[tuple[int, int], ...]


def _mark_of(folder: Path) -> _Mark:
    """What changes whenever there is news."""
    found = []
    for name in _NEWS:
        try:
            stat = (folder / name).stat()
            found.append((stat.st_size, stat.st_mtime_ns))
        except OSError:
            found.append((-1, 0))
    return tuple(found)


class _Run:
    """A run's record, kept up to date: what is new is read, and nothing twice."""

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path, self.label = path, label
        self.record = self._read()

    def refresh(self) -> bool:
        """Whether rounds that were there have been cut off."""
        (cut, metrics), (recut, timings) = self._metrics.lines(), self._timings.lines()
        if cut or recut:
            self.record = self._read()
            return True
        self._stored.look()
        self.record.metrics.extend(metrics)
        self.record.timings.extend(t for t in timings if "round" in t)
        return False

    def _read(self) -> Record:
        self._metrics, self._timings = Tail(self.path / METRICS), Tail(self.path / TIMINGS)
        self._stored = StoredRounds(self.path, held=True)
        record = read_record(self.path, self.label, self._stored)
        record.metrics = self._metrics.lines()[1]  # so that the next look begins where this one ended
        record.timings = [t for t in self._timings.lines()[1] if "round" in t]
        self._stored.look()
        return record


@dataclass(eq=False)
class Study:
    """`version` grows with every piece of news; `made` is kept until the next, `kept` as long as no round is
    done again. Who reads more than one thing of it holds `lock`, which studies of a library share: a page of
    one looks at others as well.
    """

    path: Path
    runs: dict[Path, _Run] = field(default_factory=dict)
    version: int = 0
    mark: tuple[_Mark, ...] = ()
    looked: float = -math.inf
    lock: threading.RLock = field(default_factory=threading.RLock)
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    kept: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def refresh(self, age: float = 0.0) -> bool:
        """Looks for news, unless somebody did less than `age` seconds ago; whether there is any."""
        with self.lock:
            if time.monotonic() - self.looked < age:
                return False
            self.looked = time.monotonic()
            places = run_places(self.path)
            mark = (_mark_of(self.path), *(_mark_of(place) for place, _ in places))
            if mark == self.mark:
                return False
            for place, label in places:
                if place in self.runs:
                    if self.runs[place].refresh():
                        self.kept.clear()
                elif is_run(place):
                    self.runs[place] = _Run(place, label)
            self.mark, self.version = mark, self.version + 1
            self.made.clear()
            return True

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What is made of a version is made once, however many look at it."""
        with self.lock:
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    @property
    def records(self) -> list[Record]:
        """Of those that have begun; a method that diverged has no figures to show."""
        found = [run.record for run in self.runs.values() if run.record.metrics]
        failed = {record.label for record in found if record.diverged()}
        return [record for record in found if record.label not in failed]

    @property
    def first(self) -> Record:
        return next(iter(self.runs.values())).record

    def groups(self) -> views.Groups:
        return views.groups(self.records)

    def path_of(self, record: Record) -> Path:
        return next(path for path, run in self.runs.items() if run.record is record)

    def section(self, title: str) -> Section:
        """For the parts that the page shares with reports."""
        failed = diverged_in(self.path)
        return Section(title, self.records, self.path, failed=failed, served=True)


def run_places(path: Path) -> Sequence[tuple[Path, str | None]]:
    """The folders of its runs, those that have not begun among them, and what each is called."""
    if not is_comparison(path):
        return [(path, None)]
    return [(place, label) for place, label, _ in places_in(path)]


def quality_of(path: Path) -> Mapping[str, Any] | None:
    """What a check of its data found; one that cannot be read is none."""
    try:
        return read_quality(path)
    except CoterieError:
        return None
