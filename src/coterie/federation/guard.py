"""What a site has told of its rows, to whoever led a run, and what it may tell next.

One for the site, whatever runs come and go: row sets (`row_sets.py`), and models that were tried here within
a day.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from coterie.core.errors import Refused
from coterie.data.build import units_of
from coterie.data.dataset import Dataset
from coterie.federation.budgets import secret_at
from coterie.federation.days import A_DAY
from coterie.federation.effects import Effects
from coterie.federation.policy_keys import Policy
from coterie.federation.row_marks import marks_in
from coterie.federation.row_sets import ROW_SETS, Counts, RowSets, numbered
from coterie.federation.state_folders import kin_of, marks_key, one_at_a_time
from coterie.storage.atomic import readable_errors, write_whole

ANSWERED = "answered.txt"


class Guard:
    """`places` of rows are those in the site's table: see `Holding.places`. What other processes tell of the
    same rows, under other names (`state_folders.py`), counts here as it comes.
    """

    def __init__(self, state: Path, data: Dataset, policy: Policy) -> None:
        self.policy, self.state, self.path = policy, state, state / ANSWERED
        key = secret_at(marks_key(state))
        self.marks = numbered(mark for p in data.pools for mark in marks_in(p.x, key))
        units = [units_of(p, data.together, np.arange(len(p))) for p in data.pools]
        apart = np.cumsum([0, *(len(p) for p in data.pools)])
        self.persons = np.concatenate([u + first for u, first in zip(units, apart[:-1], strict=True)])
        self._file: IO[str] | None = None  # of answers, open while this process lasts
        self._trim()
        self._open()

    def tell(self, places: Counts, who: Mapping[str, str], topic: str = "") -> None:
        """A figure of these rows leaves; of models, or of what the topic is."""
        with self._up_to_date():
            self._tell(places, who, topic)

    def visit(
        self,
        effects: Effects,
        places: Mapping[str, Counts],
        answers: int,
        who: Mapping[str, str],
    ) -> None:
        """A visit that asks for so many answers, whose effects are within the policy by themselves."""
        if not effects.part or not effects.of:
            return
        with self._up_to_date():
            self._count(answers, who)
            mine = places[effects.part]
            if not effects.drawn:  # of which no figure is told
                self._tell(mine if effects.rows is None else mine[effects.rows.numpy()], who)

    def _tell(self, places: Counts, who: Mapping[str, str], topic: str = "") -> None:
        if len(places):
            self.row_sets.admit(places, who, topic)

    # models tried here within a day

    def tried(self, run: str) -> int:
        """How many of a run were, as far back as that."""
        return self._by_run.get(run, 0)

    def _count(self, guests: int, who: Mapping[str, str]) -> None:
        now = time.time()
        while self._answers and self._answers[0][0] < now - A_DAY:
            self._answers.popleft()
        today = sum(many for _, many in self._answers)
        if today + guests > self.policy.answers_a_day:
            raise Refused(
                f"{today} models were tried here within 24 hours, and {guests} more are above the policy's "
                f"{self.policy.answers_a_day}: wait, or raise answers_a_day"
            )
        self._note(now, guests, who["run"])
        with readable_errors(self.path):
            if self._file is None or not self.path.exists():
                self._file = self.path.open("a", buffering=1)
            self._file.write(f"{now:.0f} {guests} {who['run']}\n")

    def _note(self, when: float, many: int, run: str) -> None:
        """By the minute."""
        self._by_run[run] = self._by_run.get(run, 0) + many
        if self._answers and self._answers[-1][0] > when - 60:
            many += self._answers.pop()[1]
        self._answers.append((when, many))

    # what others tell of the same rows

    def _kin(self) -> list[Path]:
        return [folder / name for folder in kin_of(self.state) for name in (ROW_SETS, ANSWERED)]

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        kin = self._kin()
        if not kin:
            yield
            return
        with one_at_a_time(self.state):
            if sizes_of(kin) != self._sizes:
                self._open()
            yield

    def _open(self) -> None:
        self.row_sets = RowSets(
            self.state, self.marks, self.persons, self.policy.min_rows, self.policy.row_leverage
        )
        self._answers: deque[tuple[float, int]] = deque()
        self._by_run: dict[str, int] = {}
        lines = [
            line for folder in (self.state, *kin_of(self.state)) for line in answers_in(folder / ANSWERED)
        ]
        for when, many, run in sorted(lines):
            self._note(when, many, run)
        self._sizes = sizes_of(self._kin())

    def _trim(self) -> None:
        """Lines that are older than a day go."""
        if self.path.exists():
            lines = answers_in(self.path)
            with readable_errors(self.path):
                write_whole(self.path, "".join(f"{w:.0f} {many} {run}\n" for w, many, run in lines))


def answers_in(path: Path) -> list[tuple[float, int, str]]:
    """Of the last day: when, how many, in which run."""
    if not path.exists():
        return []
    since = time.time() - A_DAY
    with readable_errors(path):
        words = [line.split(" ") for line in path.read_text().splitlines()]
    told = [(float(w[0]), int(w[1]), w[2]) for w in words if len(w) == 3 and (w[0] + w[1]).isdecimal()]
    return [line for line in told if line[0] > since]


def sizes_of(paths: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_size for path in paths if path.exists()}


def who_asks(leader: str, run: Any) -> dict[str, str]:
    return {"by": leader, "run": str(run)[:64]}
