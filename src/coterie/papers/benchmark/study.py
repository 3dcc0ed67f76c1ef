"""Cells SETTING/METHOD, and what each of them runs; how is in the package's own text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from coterie.api.folders import digest, origin
from coterie.api.tuning import Builder, Settings, Tuning, run_once, tune
from coterie.core.errors import BadRun, CoterieWarning
from coterie.metrics.table import headline
from coterie.papers.base import Asked, Job, Preset, Scale, Step
from coterie.papers.benchmark.settings import SETTINGS
from coterie.papers.benchmark.ways import WAYS, Way
from coterie.papers.rows import at_hand
from coterie.storage.atomic import append_line, keep_lines, read_lines

COSTS = ("steps", "bytes", "seconds")
TUNING_SEED = 1000  # deals the rows of a search that serves all seeds, as no seed of the table does


class Search(NamedTuple):
    """How many options are tried for each method, and on how many folds each."""

    trials: int
    folds: int


SEARCHES: dict[Scale, Search] = {"full": Search(6, 2), "tiny": Search(2, 2)}


@dataclass(frozen=True)
class Trace:
    """What is kept of one seed of a cell: the options that were found, and figures of each client.

    headline    accuracy or concordance by client;  `loss`, `ece` likewise, without `ece` for a survival
    found       the options with which it ran; `expected` is their figure on held-out training rows
    failed      trials of the search that diverged or were refused
    steps       gradient steps of all clients;  `bytes`: that moved;  `seconds`: of training
    """

    seed: int
    headline: dict[str, float]
    loss: dict[str, float]
    ece: dict[str, float]
    found: dict[str, Any]
    expected: float
    failed: int
    steps: int
    bytes: int
    seconds: float
    settings: str = ""
    origin: dict[str, Any] = field(default_factory=dict)


class Found(NamedTuple):
    """What a search brought: the settings to run with, the options among them, and how they did."""

    settings: Settings
    options: dict[str, Any]
    expected: float
    failed: int


def searched(way: Way, shared: Settings, search: Search, builder: Builder) -> Found:
    """The best options of a method for these settings, by cross-validation on training rows."""
    mine = replace(shared, **way.settings, options={**shared.options, **way.options})
    tuning = Tuning(mine, (way.spec,), way.searches, search.trials, search.folds)
    tuned = tune(tuning, builder=builder)
    best = tuned.best(way.spec)
    if best is None or best.value is None:
        errors = sorted({t.error for t in tuned.trials if t.error})
        raise BadRun(f"{way.spec}: no trial of its search came to an end: {'; '.join(errors)}")
    failed = sum(t.value is None for t in tuned.trials)
    return Found(tuned.settings(way.spec), dict(best.options), best.value, failed)


def trace(found: Found, settings: Settings, builder: Builder) -> Trace:
    """One run on all training rows, scored on test rows."""
    record = run_once(settings, builder)
    names, metric, spent = record.clients, headline(record.about["task"]), record.spent()

    def by_client(figure: str) -> dict[str, float]:
        if figure not in record.metrics[-1]["scores"]["own/test"]:
            return {}
        return {n: v for n, v in zip(names, record.final(figure), strict=True) if v == v}

    return Trace(
        seed=settings.seed,
        headline=by_client(metric),
        loss=by_client("loss"),
        ece=by_client("ece"),
        found=found.options,
        expected=found.expected,
        failed=found.failed,
        steps=int(spent["steps"][-1]),
        bytes=int(spent["bytes"][-1]),
        seconds=float(spent["seconds"][-1]),
    )


def settings_of(name: str, way: str, scale: Scale) -> str:
    """A fingerprint of all that decides a cell but its seed: others' results do not count."""
    setting = SETTINGS[name].scaled(scale)
    return digest({"setting": str(setting), "way": str(WAYS[way]), "search": str(SEARCHES[scale])})


def place(out: Path, scale: Scale, name: str, way: str) -> Path:
    return out / "text" / scale / name / f"{way}.jsonl"


def kept(out: Path, scale: Scale, name: str, way: str) -> list[Trace]:
    """The finished seeds of a cell, each once."""
    wanted = settings_of(name, way, scale)
    lines = [e for e in read_lines(place(out, scale, name, way)) if e["settings"] == wanted]
    return sorted({e["seed"]: Trace(**e) for e in lines}.values(), key=lambda t: t.seed)


@dataclass(frozen=True)
class Benchmark:
    """Cells are setting/method: heart-disease/ditto, mnist-clusters/ifca, ..."""

    name: str = "benchmark"
    citation: str = "Thirty methods in eight settings, each tuned alike, a study of Coterie's own"
    presets: tuple[Preset, ...] = ("text",)
    seeds: int = 5
    scales: tuple[Scale, ...] = ("full", "tiny")

    def cells(self, scale: Scale) -> tuple[str, ...]:
        return tuple(f"{name}/{way}" for name in SETTINGS for way in WAYS)

    def usual(self, scale: Scale) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return at_hand(self.cells(scale), {name: setting.run.data for name, setting in SETTINGS.items()})

    def jobs(self, asked: Asked) -> list[Job]:
        said, builders = cache(origin), cache(lambda name: Builder())
        return [job_of(asked, cell, said, builders) for cell in asked.cells]

    def write(self, asked: Asked) -> list[Path]:
        from coterie.papers.benchmark.report import write_all

        return write_all(self, asked)


def job_of(
    asked: Asked, cell: str, said: Callable[[], dict[str, Any]], builders: Callable[[str], Builder]
) -> Job:
    """All seeds of a cell; each is kept as soon as it is finished."""
    name, _, way = cell.partition("/")
    setting, wanted = SETTINGS[name].scaled(asked.scale), settings_of(name, way, asked.scale)
    path, search = place(asked.out, asked.scale, name, way), SEARCHES[asked.scale]
    have = {t.seed for t in kept(asked.out, asked.scale, name, way)}
    left = [seed for seed in range(asked.seeds) if seed not in have]

    def run_cell(step: Step) -> None:
        keep_lines(path, lambda entry: entry["settings"] == wanted)  # and no half line that a kill left
        builder = builders(name)
        look = partial(searched, WAYS[way].on(setting.run.model), search=search, builder=builder)
        once = look(replace(setting.run, seed=TUNING_SEED)) if setting.published else None
        for done, seed in enumerate(left, start=1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoterieWarning)  # of trials with a rate that is too high
                found = once or look(replace(setting.run, seed=seed))
                traced = trace(found, replace(found.settings, seed=seed, deal=None), builder)
            append_line(path, {**asdict(traced), "settings": wanted, "origin": said()})
            step(done / len(left), f"seed {seed}")

    return Job(cell, float(len(left)), not left, run_cell)


def found_in(out: Path, scale: Scale) -> Mapping[tuple[str, str], list[Trace]]:
    """All cells that have a seed, in the order of the study."""
    cells = {(name, way): kept(out, scale, name, way) for name in SETTINGS for way in WAYS}
    return {cell: traces for cell, traces in cells.items() if traces}


PAPER = Benchmark()
