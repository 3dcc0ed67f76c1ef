"""A reproduction: cells, each a few runs that are done once and from then on only read.

    OUT/<preset>/<scale>/...     what was computed, one place for each cell: a folder for each run
                                 (`place`), or a file with a line for each (`CellFile`)
    OUT/results.md, results.csv  tables and claims, from all that was ever computed below OUT
    OUT/figures/                 the paper's figures, from the same

A job that was cut off goes on where it was, or begins anew if it takes less than a second; a finished one is
not run again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
    """A paper's reproduction; presets and seeds are what it takes if nobody says otherwise.

    The module `report` beside it has its tables and figures, as a `pages.Report`.
    """

    name: ClassVar[str]
    citation: ClassVar[str]
    presets: ClassVar[tuple[Preset, ...]] = ("text",)
    seeds: ClassVar[int] = 5
    scales: ClassVar[tuple[Scale, ...]] = ("full", "small", "tiny")
    nothing: ClassVar[str] = "no finished runs of {}"
    """What an empty folder has, said of the paper's name."""

    def cells(self, scale: Scale) -> tuple[str, ...]:
        """All there are."""
        raise NotImplementedError

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those that run if none is named, and notes on what had to be left out."""
        return self.cells(scale), ()

    def jobs(self, asked: Asked) -> list[Job]:
        raise NotImplementedError

    def write(self, asked: Asked) -> list[Path]:
        """Tables, claims and figures of all that is below OUT."""
        from coterie.studies import pages  # only here: pandas takes a while to import

        return pages.write(self, asked)


def pick(text: str, cells: Sequence[str]) -> tuple[str, ...]:
    """Cells from "B/100,A", where A means all that begin with A/; in the paper's order."""

    def called(word: str) -> list[str]:
        names = {cell: (cell.lower(), cell.lower().partition("/")[0]) for cell in cells}
        return [cell for cell, either in names.items() if word.lower() in either]

    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for word in wanted:
        if not called(word):
            raise UnknownName("cell", word, called(word.partition("/")[0]) or cells)
    chosen = {cell for word in wanted for cell in called(word)}
    return tuple(cell for cell in cells if cell in chosen)


def run_jobs(jobs: Iterable[Job], watch: Step) -> int:
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
    what its line says, its `key`: lines of other settings do not count.
    """

    path: Path
    settings: str
    kind: type[R]
    key: Callable[[R], Hashable]

    def read(self) -> dict[Any, R]:
        """By key, each once."""
        lines = (self.kind(**e) for e in read_lines(self.path) if e["settings"] == self.settings)
        return {self.key(run): run for run in lines}

    def job(
        self,
        label: str,
        cases: Iterable[Case],
        compute: Callable[[Case], Iterable[Any]],
        words: Callable[[Case], str],
        cost: float | None = None,
    ) -> Job:
        """Computes the cases that no finished run has for key; each run is kept as soon as it is finished."""
        have = self.read()
        left = [case for case in cases if case not in have]

        def run(step: Step) -> None:
            # and no half line that a kill left
            keep_lines(self.path, lambda entry: entry["settings"] == self.settings)
            for done, case in enumerate(left, start=1):
                for found in compute(case):
                    append_line(self.path, {**asdict(found), "settings": self.settings, "origin": _origin()})
                step(done / len(left), words(case))

        return Job(label, float(len(left)) if cost is None else cost, not left, run)


_origin = cache(origin)


class LineStudy(Paper, Generic[R]):
    """A study whose cells STUDY/WAY keep their runs in lines; `sources` has each study and its data."""

    scales = ("full", "tiny")
    sources: ClassVar[Mapping[str, str]]
    ways: ClassVar[tuple[str, ...]]

    def file(self, out: Path, scale: Scale, study: str, way: str) -> CellFile[R]:
        raise NotImplementedError

    def job(self, asked: Asked, study: str, way: str) -> Job:
        """All runs of a cell."""
        raise NotImplementedError

    def kept(self, out: Path, scale: Scale) -> dict[tuple[str, str], list[R]]:
        """All cells that have a finished run, in the order of the study."""
        cells = itertools.product(self.sources, self.ways)
        runs = {cell: list(self.file(out, scale, *cell).read().values()) for cell in cells}
        return {cell: found for cell, found in runs.items() if found}

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{study}/{way}" for study in self.sources for way in self.ways)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Cells whose study has its data here or can get them, and a note on each other study."""
        there, notes = list[str](), list[str]()
        for study, source in self.sources.items():
            try:
                getattr(SOURCES.make(source), "fetch", lambda: None)()
                there.append(study)
            except BadData as error:
                notes.append(f"{study} is left out: {error}")
        return tuple(cell for cell in self.cells(scale) if cell.partition("/")[0] in there), tuple(notes)

    def jobs(self, asked: Asked) -> list[Job]:
        return [self.job(asked, *cell.split("/", 1)) for cell in asked.cells]


# data and published figures


def printed(text: str) -> dict[str, dict[str, str]]:
    """A table of a paper, as printed: words by row and column. Columns lie two spaces or more apart; what a
    line lacks at its end is left out.
    """
    head, *lines = (re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines())
    return {row: dict(zip(head, words, strict=False)) for row, *words in lines}


def fetch(names: Iterable[str], jobs: Sequence[Job], easier: Scale = "tiny") -> None:
    """What the jobs that are left will read; who cannot have it hears of a scale that needs none of it."""
    if all(job.finished for job in jobs):
        return
    for name in sorted(set(names)):
        try:
            SOURCES.make(name).fetch()
        except BadData as error:
            raise BadData(f"{error}; or see it run with --scale {easier}") from None


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
