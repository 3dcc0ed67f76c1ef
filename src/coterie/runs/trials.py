"""A tuning as data: what to search for which methods, what was tried, and what came out best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from coterie.core.errors import BadInput, BadRun, Gathered, shown
from coterie.core.options import plain
from coterie.kernels import WORK
from coterie.kernels.natural import AUTO, STEPS
from coterie.kernels.nested import names_in
from coterie.methods import METHODS
from coterie.metrics.table import METRICS
from coterie.runs.compare import Comparison, parsed, slug
from coterie.runs.search import ROUNDS, Axis, Options, default_axes, read_axis
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.storage.atomic import write_whole

MANY = 10_000  # trials of a method, and folds


@dataclass(frozen=True)
class Tuning:
    """What to tune: `methods` as in a comparison, `search` as ("sgd.lr=0.01..1:log", "fedavg.sample=0.5|1").

    Without an entry for the kernel, what matters of it is searched (`search.default_axes`), and of a method
    what it names itself in `searched`, as "pull=0.01..10:log".
    """

    settings: Settings
    methods: tuple[str, ...]
    search: tuple[str, ...] = ()
    trials: int = 20
    folds: int = 3
    metric: str = "auto"

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name, least, try_ in (("trials", 1, 20), ("folds", 2, 3)):
            value = getattr(self, name)
            if value < least:
                wrong.add(f"{name}={value} must be at least {least}: try {try_}")
            if value > MANY:
                wrong.add(f"{name}={shown(value)} must be at most {MANY}: try {try_}")
        wrong.refuse()
        if self.settings.kernel == AUTO and any(entry.startswith(f"{STEPS}.") for entry in self.search):
            object.__setattr__(self, "settings", replace(self.settings, kernel=STEPS))
        for spec in self.shared.methods:
            self.axes(spec)

    @property
    def shared(self) -> Comparison:
        return Comparison(self.settings, self.methods, 1)

    def way(self, spec: str, options: Mapping[str, Any] | None = None) -> Settings:
        """A method's settings, with these options in place of those given."""
        settings = self.shared.with_method(spec)
        tables = {k: dict(v) for k, v in settings.options.items()}
        given = dict(options or {})
        rounds = given.pop(ROUNDS, settings.rounds)
        for name, value in given.items():
            table, _, option = name.partition(".")
            tables.setdefault(table, {})[option] = value
        return replace(settings, options=tables, rounds=rounds)

    def axes(self, spec: str) -> list[Axis]:
        """What is searched for a method; what its spec fixes is not. Work that finds its own strength, as
        ridge does, may leave nothing: then there is one trial.
        """
        name, fixed = parsed(spec)
        around = names_in(self.shared.work_of(spec))
        fixed.pop("kernel", None)
        kernel = around[-1]
        works = {n: WORK[n] for k in self.shared.kernels() for n in names_in(k)}
        classes = {m.partition(":")[0]: METHODS[m.partition(":")[0]] for m in self.methods}
        known = {**works, **classes, "": Settings}
        every = [read_axis(entry, known) for entry in self.search]
        for axis in every:
            if [a.name for a in every].count(axis.name) > 1:
                raise BadInput(f"search names {axis.name!r} twice: name each option once")
        if all(axis.table != kernel for axis in every):
            named = {a.name for a in every}
            own = [] if any(a.table == name for a in every) else getattr(classes[name], "searched", ())
            usual = default_axes(kernel, self.settings.rounds)
            usual += [read_axis(f"{name}.{entry}", known) for entry in own]
            every = [*(a for a in usual if a.name not in named), *every]
        mine = [a for a in every if a.table in (*around, name, "")]
        free = [a for a in mine if (a.option if a.table == name else a.name) not in fixed]
        if not free and (mine or not hasattr(WORK[kernel], "solve")):
            raise BadInput(f"nothing to search for method {spec!r}: name one of its options with --search")
        return free

    def table(self) -> dict[str, Any]:
        shared = {k: v for k, v in self.settings.table().items() if k != "method"}
        own = {k: plain(getattr(self, k)) for k in ("methods", "search", "trials", "folds", "metric")}
        return {**own, **shared}


@dataclass(frozen=True)
class Trial:
    """One attempt, counted from 1: the metric on each held-out fold and their mean, or why there is none."""

    method: str
    number: int
    options: Options
    value: float | None
    folds: list[float]
    error: str | None = None


@dataclass(frozen=True, eq=False)
class Tuned:
    """What came out. `about` says where and on which clients, as for a run."""

    tuning: Tuning
    metric: str
    about: Mapping[str, Any]
    trials: tuple[Trial, ...]

    @property
    def deal(self) -> int:
        """How the trials' rows were dealt: what keeps them out of the tests of other seeds."""
        return self.tuning.settings.dealt_by

    def of(self, spec: str) -> list[Trial]:
        return [t for t in self.trials if t.method == spec]

    def best(self, spec: str) -> Trial | None:
        """The trial with the best mean, the first of equal ones; None if all failed."""
        return best_of(self.of(spec), self.metric)

    def settings(self, spec: str) -> Settings:
        """A run with the best options, on rows dealt as in the trials, whatever its seed."""
        best = self.best(spec)
        return replace(self.tuning.way(spec, best.options if best else None), deal=self.deal)

    def specs(self) -> list[str]:
        """The methods that have a best trial, carrying its options: "fedavg:sgd.lr=0.3,sample=0.5"."""
        made = []
        for spec in self.tuning.methods:
            if best := self.best(spec):
                name = spec.partition(":")[0]
                pairs = [f"{k.removeprefix(f'{name}.')}={_text(v)}" for k, v in best.options.items()]
                made.append(f"{spec.rstrip(':')}{',' if spec.partition(':')[2] else ':'}{','.join(pairs)}")
        return made

    def write(self, path: Path) -> None:
        """best.toml for a comparison of all, and one file for a run of each."""
        if specs := self.specs():
            fixed = replace(self.tuning.settings, deal=self.deal)
            shared = replace(self.tuning.shared, settings=fixed).table() | {"methods": specs, "seeds": 3}
            write_whole(path / "best.toml", tomli_w.dumps(shared))
        for spec in self.tuning.methods:
            if self.best(spec):
                write_whole(path / "best" / f"{slug(spec)}.toml", tomli_w.dumps(self.settings(spec).table()))


def best_of(trials: Sequence[Trial], metric: str) -> Trial | None:
    """The first of those with the best mean."""
    sign = 1 if METRICS[metric].higher else -1
    return max(
        (t for t in trials if t.value is not None), key=lambda t: sign * (t.value or 0.0), default=None
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_tuning(path: Path) -> bool:
    return (path / "tune.toml").exists()


def read_tuning(path: Path) -> Tuning:
    where = path / "tune.toml"
    table = read_toml(where)
    kinds = {"methods": list, "search": list, "trials": int, "folds": int, "metric": str}
    own = {k: table.pop(k, None) for k in kinds}
    texts = [t for v in own.values() if isinstance(v, list) for t in v]
    if not all(isinstance(own[k], kind) for k, kind in kinds.items()) or not all(
        isinstance(t, str) for t in texts
    ):
        raise BadRun(f"{where} is damaged: start this tuning anew with another --out")
    methods, search, trials, folds, metric = own.values()
    return Tuning(from_table(table, str(where)), tuple(methods), tuple(search), trials, folds, metric)
