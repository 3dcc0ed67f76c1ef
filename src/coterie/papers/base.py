"""A reproduction: cells, each a few runs that are done once and from then on only read.

    OUT/<preset>/<scale>/...     what was computed, one place for each cell
    OUT/results.md, results.csv  tables and claims, from all that was ever computed below OUT
    OUT/figures/                 the paper's figures, from the same

A job that was cut off goes on where it was, or begins anew if it takes less than a second; a finished one is
not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from coterie.core.errors import BadInput, UnknownName

Preset = Literal["text", "as-run"]
Scale = Literal["full", "small", "tiny"]
Format = Literal["svg", "png", "none"]
Step = Callable[[float, str], None]
Watch = Callable[[float, str], None]

PRESETS: tuple[Preset, ...] = ("text", "as-run")


@dataclass(frozen=True)
class Asked:
    """What to reproduce. `cells` are those to run; tables and figures show all that are there."""

    presets: tuple[Preset, ...]
    scale: Scale
    cells: tuple[str, ...]
    seeds: int
    out: Path
    figures: Format = "svg"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BadInput(f"seeds={self.seeds} must be at least 1: try 3")


@dataclass(frozen=True)
class Job:
    """Something to compute: `run` tells how far it is, from 0 to 1, and a few words; `cost` is relative."""

    label: str
    cost: float
    finished: bool
    run: Callable[[Step], None]


class Paper(Protocol):
    """A paper's reproduction; presets and seeds are what it takes if nobody says otherwise."""

    @property
    def name(self) -> str: ...

    @property
    def citation(self) -> str: ...

    @property
    def presets(self) -> tuple[Preset, ...]: ...

    @property
    def seeds(self) -> int: ...

    @property
    def scales(self) -> tuple[Scale, ...]: ...

    def cells(self, scale: Scale) -> tuple[str, ...]:
        """All there are."""
        ...

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that run if none is named, and notes on what had to be left out."""
        ...

    def jobs(self, asked: Asked) -> list[Job]: ...

    def write(self, asked: Asked) -> list[Path]:
        """Tables, claims and figures of all that is below OUT."""
        ...


def pick(text: str, cells: Sequence[str]) -> tuple[str, ...]:
    """Cells from "B/100,A", where A means all that begin with A/; in the paper's order."""
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for word in wanted:
        if not any(_matches(cell, word) for cell in cells):
            kind = [cell for cell in cells if _matches(cell, word.partition("/")[0])]
            raise UnknownName("cell", word, kind or cells)
    return tuple(cell for cell in cells if any(_matches(cell, word) for word in wanted))


def _matches(cell: str, word: str) -> bool:
    return word.lower() in (cell.lower(), cell.lower().partition("/")[0])


def run_jobs(jobs: Iterable[Job], watch: Watch) -> int:
    """Runs what is not finished, one job after the other, and returns how many ran.

    `watch` hears how much of all the work that is left has been done, in the jobs' own units of cost.
    """
    left = [job for job in jobs if not job.finished]
    done = 0.0
    for job in left:

        def step(share: float, said: str, job: Job = job, before: float = done) -> None:
            watch(before + share * job.cost, f"{job.label} {said}".strip())

        job.run(step)
        done += job.cost
        watch(done, job.label)
    return len(left)
