"""What a site's own work takes: CPU seconds of its process, by run, in energy.jsonl of its folder.

They tell how fast a hospital's machine is and what it does beside, so they stay with the site: nobody is sent
them. A line is added when a round is kept, and when a run ends; a kill loses those of one round.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coterie.core.errors import BadRun
from coterie.storage.atomic import append_line, read_lines

FILE = "energy.jsonl"


class Effort:
    """CPU seconds of this process for what runs ask of it."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE
        self.unwritten: dict[tuple[str, str], float] = {}  # by run and who leads it

    @contextlib.contextmanager
    def of(self, run: str, leader: str) -> Iterator[None]:
        """Inside, CPU seconds count for a run."""
        before = time.process_time()
        try:
            yield
        finally:
            took = time.process_time() - before
            self.unwritten[run, leader] = self.unwritten.get((run, leader), 0.0) + took

    def write(self) -> None:
        """A line for each run that took any; a full disk leaves them for later."""
        for (run, leader), seconds in list(self.unwritten.items()):
            told = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "run": run, "by": leader}
            with contextlib.suppress(BadRun):
                append_line(self.path, {**told, "cpu_seconds": seconds})
                del self.unwritten[run, leader]


class Spent(NamedTuple):
    """On one run: who led it, when it was last kept, and CPU seconds of this site."""

    by: str
    last: str
    cpu_seconds: float


def site_energy(state: Path) -> dict[str, Spent]:
    """By run, in the order in which they began; nothing where no run was kept yet."""
    found = dict[str, Spent]()
    for line in read_lines(state / FILE):
        if not {"time", "run", "by", "cpu_seconds"} <= line.keys():
            raise BadRun(f"{state / FILE} is damaged (a line lacks something): delete it to do without")
        run, before = str(line["run"]), found.get(str(line["run"]))
        seconds = float(line["cpu_seconds"]) + (before.cpu_seconds if before else 0.0)
        found[run] = Spent(str(line["by"]), str(line["time"]), seconds)
    return found
