"""What a site has told of its rows, to whoever led a run, and what it may tell next.

One for the site, whatever runs come and go: row sets (`row_sets.py`), and models that were tried here within
a day.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coterie.core.errors import Refused
from coterie.data.build import units_of
from coterie.data.dataset import Dataset
from coterie.federation.effects import Effects
from coterie.federation.policy_keys import Policy
from coterie.federation.row_sets import Counts, RowSets, marks_of_rows
from coterie.federation.state_folders import kin_of
from coterie.storage.atomic import readable_errors, write_whole

ANSWERED = "answered.txt"
A_DAY = 24 * 3600


class Guard:
    """`places` of rows are those in the site's table: see `Holding.places`."""

    def __init__(self, state: Path, data: Dataset, policy: Policy) -> None:
        self.policy, self.path = policy, state / ANSWERED
        marks = marks_of_rows([(np.asarray(p.x), np.asarray(p.y)) for p in data.pools])
        units = [units_of(p, data.together, np.arange(len(p))) for p in data.pools]
        apart = np.cumsum([0, *(len(p) for p in data.pools)])
        persons = np.concatenate([u + first for u, first in zip(units, apart[:-1], strict=True)])
        self.row_sets = RowSets(state, marks, persons, policy.min_rows, policy.row_leverage)
        self._answers: deque[tuple[float, int]] = deque()
        self._read()

    def tell(self, places: Counts, who: Mapping[str, str]) -> None:
        """A figure of these rows leaves."""
        if len(places):
            self.row_sets.admit(places, who)

    def visit(
        self,
        effects: Effects,
        places: Mapping[str, Counts],
        models: Iterable[str],
        guests: int,
        who: Mapping[str, str],
    ) -> None:
        """A visit by these models, whose effects are within the policy by themselves."""
        if not effects.part or not effects.of:
            return
        self._count(guests)
        mine = places[effects.part]
        if effects.drawn:
            for rows, model in zip(effects.drawn, models, strict=True):
                self.row_sets.admit_draw(mine[rows.numpy()], model, who)
        else:
            self.tell(mine if effects.rows is None else mine[effects.rows.numpy()], who)

    # models tried here within a day

    def _count(self, guests: int) -> None:
        now = time.time()
        while self._answers and self._answers[0][0] < now - A_DAY:
            self._answers.popleft()
        today = sum(many for _, many in self._answers)
        if today + guests > self.policy.answers_a_day:
            raise Refused(
                f"{today} models were tried here within 24 hours, and {guests} more are above the policy's "
                f"{self.policy.answers_a_day}: wait, or raise answers_a_day"
            )
        if self._answers and self._answers[-1][0] > now - 60:
            self._answers[-1] = (self._answers[-1][0], self._answers[-1][1] + guests)
        else:
            self._answers.append((now, guests))
        with readable_errors(self.path), self.path.open("a") as file:
            file.write(f"{now:.0f} {guests}\n")

    def _read(self) -> None:
        """What was tried here, and at others with the same rows, as of when this process began."""
        since, kept = time.time() - A_DAY, list[str]()
        for folder in (self.path.parent, *kin_of(self.path.parent)):
            path = folder / ANSWERED
            if not path.exists():
                continue
            with readable_errors(path):
                for line in path.read_text().splitlines():
                    when, _, many = line.partition(" ")
                    if when.isdecimal() and many.isdecimal() and float(when) > since:
                        self._answers.append((float(when), int(many)))
                        kept += [f"{line}\n"] if path == self.path else []
        self._answers = deque(sorted(self._answers))
        if self.path.exists():
            with readable_errors(self.path):
                write_whole(self.path, "".join(kept))


def mark_of_model(beliefs: Mapping[str, Tensor], row: int) -> str:
    """The same for models that are nearly so: numbers count by their first two digits."""
    total = hashlib.sha256()
    for name in sorted(beliefs):
        t = beliefs[name][row].detach()
        rough = t.to(torch.bfloat16).view(torch.int16) if t.is_floating_point() else t
        total.update(name.encode() + rough.contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def who_asks(leader: str, run: Any) -> dict[str, str]:
    return {"by": leader, "run": str(run)[:64]}


def marks_of_models(beliefs: Mapping[str, Tensor], rows: Sequence[int]) -> list[str]:
    found = {row: mark_of_model(beliefs, row) for row in set(rows)}
    return [found[row] for row in rows]
