"""Several methods and seeds on the same clients: a folder of runs.

    compare.toml            the settings they share, methods, seeds
    fedavg/seed-0/          one run folder for each method and seed
    report.html             all of them on one page

Methods see the same clients because clients depend on the data, the split and the seed alone; with `deal`
in the place of the seed, all seeds see the same clients too. Finished runs are not run again, so a comparison
that was cut off goes on where it was.

What always saying the same has, `nothing`, is beside every comparison (`with_nothing`). It is found in one
round, so it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core.errors import BadData, BadInput, BadRun, lines_of, shown
from coterie.core.options import coerced, plain, read_pairs
from coterie.kernels import WORK
from coterie.kernels.natural import AUTO, only_work
from coterie.kernels.nested import names_in, spelled
from coterie.methods import METHODS
from coterie.methods.baselines import NOTHING
from coterie.runs.builder import Builder
from coterie.runs.experiment import Experiment, for_use
from coterie.runs.folder import is_run, read_record, refuse_full, way_on
from coterie.runs.loop import Around, Watch, beside_nothing, run_in
from coterie.runs.record import Record
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.storage.atomic import write_whole
from coterie.storage.events import read_divergence, refuse_without_result

MANY = 10_000  # seeds


@dataclass(frozen=True)
class Comparison:
    """`methods` are names, or names with options: "fedavg:weighted=false,sgd.lr=0.5"; kernel=dp(sgd) among
    them is the method's own local work, rounds=10 its own number of rounds.
    """

    settings: Settings
    methods: tuple[str, ...]
    seeds: int

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BadInput(f"seeds={self.seeds} must be at least 1: try 3")
        if self.seeds > MANY:
            raise BadInput(f"seeds={shown(self.seeds)} must be at most {MANY}: try 3")
        if not self.methods:
            raise BadInput("no methods to compare: try --methods local fedavg finetune")
        for spec in self.methods:
            if [slug(s) for s in self.methods].count(slug(spec)) > 1:
                raise BadInput(f"method {spec!r} is named twice: name each once")

    def cells(self) -> Iterator[tuple[str, Settings]]:
        """Each run: its place in the folder, and its settings."""
        for spec in self.methods:
            for i in range(self.seeds):
                seed = self.settings.seed + i
                yield f"{slug(spec)}/seed-{seed}", replace(self.with_method(spec), seed=seed)

    def with_method(self, spec: str) -> Settings:
        """The shared settings with one method, and only the options that concern it."""
        name, own = parsed(spec)
        shared = AUTO if only_work(METHODS[name]) else self.settings.kernel
        kernel, named = self.work_of(spec), own.pop("kernel", shared)
        rounds = own.pop("rounds", self.settings.rounds)
        others = {m.partition(":")[0] for m in self.methods} - {name}
        mine = set[str]() if only_work(METHODS[name]) else {*names_in(kernel)}
        others |= {n for k in self.kernels() for n in names_in(k)} - mine
        options = {k: dict(v) for k, v in self.settings.options.items() if k not in others}
        for option, value in own.items():
            table, _, key = option.rpartition(".")
            options.setdefault(table or name, {})[key] = value
        given = {k: v for k, v in options.items() if v}
        rounds = 1 if name == NOTHING else rounds
        return replace(self.settings, method=name, kernel=named, rounds=rounds, options=given).resolved()

    def work_of(self, spec: str) -> str:
        """The local work of a method: its own, the shared one, or what is natural for it."""
        name, own = parsed(spec)
        if only := only_work(METHODS[name]):
            return str(own.get("kernel", only))  # another is refused where its settings are made
        given: dict[str, dict[str, Any]] = {o.rpartition(".")[0]: {} for o in own if "." in o}
        settings = replace(self.settings, method=name, options={**self.settings.options, **given})
        work: str = own.get("kernel", "") or settings.with_work().kernel
        return work

    def kernels(self) -> list[str]:
        shared = [] if self.settings.kernel == AUTO else [self.settings.kernel]
        return [*shared, *(self.work_of(spec) for spec in self.methods)]

    def check(self, builder: Builder) -> None:
        """Refuses a method that cannot work, with its local work, before the first one runs."""
        for spec in self.methods:
            builder.check(self.with_method(spec))

    def table(self) -> dict[str, Any]:
        shared = {k: v for k, v in self.settings.table().items() if k != "method"}
        return {"methods": list(self.methods), "seeds": self.seeds, **shared}


def with_nothing(comparison: Comparison, builder: Builder) -> tuple[Comparison, str]:
    """The same with `nothing` before its methods, unless it is one of them; or why these clients, this model
    or these wrappers do without.
    """
    if NOTHING in {spec.partition(":")[0] for spec in comparison.methods}:
        return comparison, ""
    more = replace(comparison, methods=(NOTHING, *comparison.methods))
    try:
        builder.check(more.with_method(NOTHING))
    except (BadInput, BadData) as error:
        return comparison, left_out(error)
    return more, ""


def left_out(error: Exception) -> str:
    return f"{NOTHING} is left out, so what always the same answer has is not known: {lines_of(error)[0]}"


def comparison_from(table: Mapping[str, Any], where: str) -> Comparison:
    shared = {k: v for k, v in table.items() if k not in ("methods", "seeds")}
    _refuse_damaged(table, {"methods": list, "seeds": int}, where)
    return Comparison(from_table(shared, where), tuple(table["methods"]), table["seeds"])


def _refuse_damaged(table: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    """Refuses a file that lacks a key, or has another kind of value under it than was written."""
    for key, kind in kinds.items():
        if key not in table:
            raise BadRun(f"{where} has no {key}: start this comparison anew")
        values = table[key] if isinstance(table[key], list) else []
        if not isinstance(table[key], kind) or not all(isinstance(v, str) for v in values):
            raise BadRun(f"{where}: {key} = {shown(table[key])} is damaged: start this comparison anew")


def create(path: Path, comparison: Comparison, builder: Builder) -> None:
    comparison.check(builder)
    refuse_full(path)
    write_whole(path / "compare.toml", tomli_w.dumps(comparison.table()))


def is_comparison(path: Path) -> bool:
    return (path / "compare.toml").exists()


def read_comparison(path: Path) -> Comparison:
    if "given" in read_toml(path / "compare.toml"):
        raise BadRun(f"{path} was started from Python: {way_on(path)}")
    return comparison_from(read_toml(path / "compare.toml"), str(path / "compare.toml"))


def run_cell(
    path: Path,
    settings: Settings,
    label: str,
    command: str | None,
    watch: Watch,
    builder: Builder | None = None,
    around: Around = beside_nothing,
    in_use: bool = False,
) -> Record:
    """Runs one cell, or what is left of it; a finished one is only read. Models that are only compared are
    not recalibrated; those of one run, `in_use`, are.
    """
    if is_run(path):
        past = read_record(path, label)
        if past.finished and (path / "models.safetensors").exists():
            return past

    def ready() -> Experiment:
        experiment = (builder or Builder()).prepare(settings, command)
        return for_use(experiment) if in_use else experiment

    return run_in(path, ready, label, watch, lambda experiment, outcome: outcome.record, around)


def read_records(path: Path) -> list[Record]:
    """The runs of a comparison that have begun, or the one run of a run folder.

    A run that diverged has no result; nor has its method then, as the mean over its other seeds would be that
    of those in which it happened to go well (`diverged_in` says so).
    """
    if not is_comparison(path):
        refuse_without_result(path)
        return [read_record(path)]
    records = [read_record(place, spec) for place, spec, _ in places_in(path) if is_run(place)]
    failed = {r.label for r in records if r.diverged()}
    begun = [r for r in records if r.metrics and r.label not in failed]
    others = [spec for _, spec, _ in places_in(path) if spec != NOTHING]
    if not begun or (others and all(r.label == NOTHING for r in begun)):  # a yardstick is no result
        for place, _, _ in places_in(path):
            refuse_without_result(place)
        raise BadRun(f"{path} has no results yet: {way_on(path)}")
    return begun


def diverged_in(path: Path) -> list[str]:
    if not is_comparison(path):
        return []
    found = ((spec, seed, read_divergence(place)) for place, spec, seed in places_in(path))
    return [f"{spec} has no result, as it diverged in seed {seed}: {why}" for spec, seed, why in found if why]


def places_in(path: Path) -> list[tuple[Path, str, int]]:
    """(folder, spec, seed) of each run of a comparison, begun or not."""
    table = read_toml(path / "compare.toml")
    _refuse_damaged(table, {"methods": list, "seeds": int, "seed": int}, str(path / "compare.toml"))
    seeds = range(table["seed"], table["seed"] + min(table["seeds"], MANY))
    return [(path / slug(spec) / f"seed-{i}", spec, i) for spec in table["methods"] for i in seeds]


def labelled(comparison: Comparison) -> list[tuple[str, str]]:
    """(spec, place) of each run."""
    specs: Sequence[str] = [spec for spec in comparison.methods for _ in range(comparison.seeds)]
    return list(zip(specs, (place for place, _ in comparison.cells()), strict=True))


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name and the options in a spec such as fedavg:weighted=false,sgd.lr=0.5,kernel=dp(sgd)."""
    name, _, tail = spec.partition(":")
    cls = METHODS[name]
    table = read_pairs(tail, f"method {spec!r}")
    own = {k: table.pop(k) for k in ("kernel",) if k in table}
    own = {k: spelled(names_in(str(v))) for k, v in own.items()}
    if "rounds" in table:
        own |= coerced(Settings, {"rounds": table.pop("rounds")}, f"method {name}")
    values = own | coerced(cls, {k: v for k, v in table.items() if "." not in k}, f"method {name}")
    for option, value in table.items():
        kernel, dot, key = option.partition(".")
        if dot:
            work = coerced(WORK[kernel], {key: value}, f"kernel {kernel}")
            values |= {f"{kernel}.{k}": v for k, v in work.items()}
    return name, {k: plain(v) for k, v in values.items()}


def options_in(spec: str) -> dict[str, Any]:
    """The options that a spec names, numbers and true and false as such."""
    return read_pairs(spec.partition(":")[2], f"method {spec!r}")


def slug(spec: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", spec).strip("-")
