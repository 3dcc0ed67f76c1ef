"""A reproduction: cells, each a few runs that are done once and from then on only read.

    OUT/<preset>/<scale>/...     what was computed, one place for each cell: a folder for each run
                                 (`place`), or a file with a line for each (`CellFile`)
    OUT/results.md, results.csv  tables and claims, from all that was ever computed below OUT
    OUT/figures/                 the paper's figures, from the same

A job that was cut off goes on where it was, or begins anew if it takes less than a second; a finished one is
not run again.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from torch import nn

from coterie.api.folders import is_finished, origin
from coterie.api.train import train
from coterie.core.client import Client
from coterie.core.errors import BadData, BadInput, UnknownName
from coterie.core.method import Method
from coterie.core.seeds import Key
from coterie.data.dataset import Dataset
from coterie.data.sources import SOURCES
from coterie.models.base import Model
from coterie.storage.atomic import append_line, keep_lines, read_lines
from coterie.watching import Round

Preset = Literal["text", "as-run"]
Scale = Literal["full", "small", "tiny"]
Format = Literal["svg", "png", "none"]
Step = Callable[[float, str], None]
Watch = Callable[[float, str], None]
R = TypeVar("R")
Case = TypeVar("Case")

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


class Paper:
    """A paper's reproduction; presets and seeds are what it takes if nobody says otherwise."""

    name: ClassVar[str]
    citation: ClassVar[str]
    presets: ClassVar[tuple[Preset, ...]] = ("text",)
    seeds: ClassVar[int] = 5
    scales: ClassVar[tuple[Scale, ...]] = ("full", "small", "tiny")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        """All there are."""
        raise NotImplementedError

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that run if none is named, and notes on what had to be left out."""
        return self.cells(scale), ()

    def jobs(self, asked: Asked) -> list[Job]:
        raise NotImplementedError

    def write(self, asked: Asked) -> list[Path]:
        """Tables, claims and figures of all that is below OUT, by the `report` beside the paper."""
        report = importlib.import_module(f"{type(self).__module__}.report")
        written: list[Path] = report.write_all(self, asked)
        return written


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


# runs in folders


def place(out: Path, preset: Preset, scale: Scale, cell: str, seed: int) -> Path:
    return out / preset / scale / cell / f"seed-{seed}"


def seed_jobs(
    asked: Asked,
    cost: Callable[[str], float],
    compute: Callable[[Path, Preset, Scale, str, int, Step], None],
    is_done: Callable[[Path, str], bool] = lambda path, cell: is_finished(path),
) -> list[Job]:
    """A job for each seed, preset and cell, which computes it in a folder of its own."""
    jobs = []
    for seed, preset, cell in itertools.product(range(asked.seeds), asked.presets, asked.cells):
        path = place(asked.out, preset, asked.scale, cell, seed)
        run = partial(compute, path, preset, asked.scale, cell, seed)
        jobs.append(Job(f"{preset} {cell} seed {seed}", cost(cell), is_done(path, cell), run))
    return jobs


def read_runs(
    asked: Asked, preset: Preset, cells: Iterable[str], read: Callable[[Path, str], R | None]
) -> dict[str, dict[int, R]]:
    """What `read` makes of each run's folder, by cell and seed; what it makes nothing of is left out."""
    found: dict[str, dict[int, R]] = {}
    for cell in cells:
        folders = place(asked.out, preset, asked.scale, cell, 0).parent.glob("seed-[0-9]*")
        for seed, path in sorted((int(path.name.removeprefix("seed-")), path) for path in folders):
            if (run := read(path, cell)) is not None:
                found.setdefault(cell, {})[seed] = run
    return found


def by_preset(read: Callable[[Preset], R]) -> dict[Preset, R]:
    """What there is of each preset, if there is any."""
    return {preset: results for preset in PRESETS if (results := read(preset))}


def first_model(model: Model, client: Client, seed: int) -> nn.Module:
    """The model before training, for data as the client has them."""
    shape = tuple(client.train.x.shape[1:])
    return model.build(shape, len(client.classes), Key(seed).at("model").integer())


def train_in(
    path: Path,
    step: Step,
    model: str | nn.Module,
    clients: Sequence[Client],
    method: Method,
    *,
    rounds: int,
    accuracy: Callable[[Round], float] = lambda seen: seen.metrics["accuracy"],
    **more: Any,
) -> None:
    """A run as any other, in its folder; one that was cut off goes on."""

    def watch(seen: Round) -> None:
        step(seen.round / rounds, f"round {seen.round} {100 * accuracy(seen):.1f} %")

    train(model, clients, method, rounds=rounds, out=path, resume=True, watch=watch, **more)


# runs in lines


@dataclass(frozen=True)
class CellFile(Generic[R]):
    """The finished runs of a cell, a line each. `settings` is a fingerprint of all that decides a run but
    what its line says: lines of other settings do not count.
    """

    path: Path
    settings: str
    kind: type[R]

    def read(self, key: Callable[[R], Any]) -> dict[Any, R]:
        """By key, each once."""
        lines = (self.kind(**e) for e in read_lines(self.path) if e["settings"] == self.settings)
        return {key(run): run for run in lines}

    def job(
        self,
        label: str,
        left: Sequence[Case],
        compute: Callable[[Case], Iterable[Any]],
        words: Callable[[Case], str],
        cost: float | None = None,
    ) -> Job:
        """Computes the cases that are left; each run is kept as soon as it is finished."""

        def run(step: Step) -> None:
            # and no half line that a kill left
            keep_lines(self.path, lambda entry: entry["settings"] == self.settings)
            for done, case in enumerate(left, start=1):
                for found in compute(case):
                    append_line(self.path, {**asdict(found), "settings": self.settings, "origin": _origin()})
                step(done / len(left), words(case))

        return Job(label, float(len(left)) if cost is None else cost, not left, run)


_origin = cache(origin)


# data


def fetch(names: Iterable[str], jobs: Sequence[Job], easier: Scale = "tiny") -> None:
    """What the jobs that are left will read; who cannot have it hears of a scale that needs none of it."""
    if all(job.finished for job in jobs):
        return
    for name in sorted(set(names)):
        try:
            SOURCES.make(name).fetch()
        except BadData as error:
            raise BadData(f"{error}; or see it run with --scale {easier}") from None


def at_hand(cells: Sequence[str], sources: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of cells STUDY/WAY those whose study has its data here or can get them, and a note on each other study;
    `sources` names the data of each.
    """
    there, notes = list[str](), list[str]()
    for study, source in sources.items():
        try:
            getattr(SOURCES.make(source), "fetch", lambda: None)()
            there.append(study)
        except BadData as error:
            notes.append(f"{study} is left out: {error}")
    return tuple(cell for cell in cells if cell.partition("/")[0] in there), tuple(notes)


def with_test(data: Dataset, test: int) -> Dataset:
    """Data that come without a test set: their last rows are."""
    rows = np.arange(len(data.train))
    return replace(data, train=data.train.take(rows[:-test]), test=data.train.take(rows[-test:]))


def cut(data: Dataset, wanted: tuple[int, int] | None, rng: np.random.Generator) -> Dataset:
    """So many rows to learn from, drawn by `rng`, and the first so many to test on; all, if None."""
    if wanted is None:
        return data
    learn, test = wanted
    if data.test is None:
        data = with_test(data, test)
    assert data.test is not None
    drawn = np.sort(rng.permutation(len(data.train))[:learn])
    return replace(data, train=data.train.take(drawn), test=data.test.take(np.arange(test)))
