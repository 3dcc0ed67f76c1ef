"""Options picked by cross-validation on the clients' training rows, for each method by itself: what to search
(`Tuning`), what was tried and came out best (`Tuned`), and the trials in a folder (`tune`).

    tune.toml      what is tuned: settings, methods, what is searched, trials, folds
    run.json       versions, commit, machine, clients: where and on what
    trials.jsonl   one line a finished trial, the same each time the tuning is repeated
    best.toml      the methods with their best options, for `coterie compare --config`; `deal` in it keeps
                   the rows of the trials out of the tests of every seed
    best/          one file a method, for `coterie run --config`
    report.html    what was tried

The first trial of a method takes its options as given, if they lie within what is searched. Those of the i-th
follow from the trials before it and from (run seed, method, i) alone, see `search.suggest`. So the same
tuning makes the same trials, and one that was cut off makes those it would have made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from coterie.core.errors import BadInput, BadRun, Diverged, Gathered, UnknownName, shown
from coterie.core.method import Method, check_method
from coterie.core.options import plain
from coterie.core.seeds import Key
from coterie.features.trials.trial import begin, measured_by, same_data
from coterie.features.tuning.search import (
    ROUNDS,
    Axis,
    Options,
    default_axes,
    need_optuna,
    read_axis,
    suggest,
)
from coterie.kernels import WORK
from coterie.kernels.natural import AUTO, STEPS
from coterie.kernels.nested import names_in
from coterie.methods import METHODS
from coterie.metrics.summary import mean_over_clients
from coterie.metrics.table import METRICS, headline
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison, parsed, slug
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.folder import Folder
from coterie.runs.loop import Watch as RunWatch
from coterie.runs.loop import run
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.sites.folds import folds_of
from coterie.sites.setup import Setup
from coterie.storage.atomic import append_line, keep_lines, read_lines, write_whole

MANY = 10_000  # trials of a method, and folds
TUNING = "tune.toml"


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
                name, _, given = spec.partition(":")
                options = {k.removeprefix(f"{name}."): v for k, v in best.options.items()}
                texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
                pairs = ",".join(f"{k}={text}" for k, text in texts.items())
                made.append(f"{spec},{pairs}" if given else f"{name}:{pairs}")
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
    sign, fine = 1 if METRICS[metric].higher else -1, [t for t in trials if t.value is not None]
    return max(fine, key=lambda t: sign * (t.value or 0.0), default=None)


def read_tuning(path: Path) -> Tuning:
    where = path / TUNING
    table = read_toml(where)
    kinds = {"methods": list, "search": list, "trials": int, "folds": int, "metric": str}
    own = {name: table.pop(name, None) for name in kinds}
    texts = all(isinstance(text, str) for v in own.values() if isinstance(v, list) for text in v)
    if not texts or not all(isinstance(own[name], kind) for name, kind in kinds.items()):
        raise BadRun(f"{where} is damaged: start this tuning anew with another --out")
    own = {name: tuple(v) if isinstance(v, list) else v for name, v in own.items()}
    return Tuning(from_table(table, str(where)), **own)


# the trials


class Step(NamedTuple):
    """How far a tuning is: rounds `done` of `total`; the method's best trial so far, by this metric."""

    method: str
    number: int
    done: int
    total: int
    best: Trial | None
    metric: str


Watch = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class _Bench:
    """A tuning, checked and in memory: what it is on, whole and without each fold, where, and the metric."""

    tuning: Tuning
    whole: Setup
    folds: list[Setup]
    about: Mapping[str, Any]
    metric: str

    @property
    def rounds(self) -> int:
        """Of one trial."""
        return self.tuning.folds * self.tuning.settings.rounds


def tune(
    tuning: Tuning,
    out: str | Path | None = None,
    watch: Watch = lambda step: None,
    command: str | None = None,
    builder: Builder | None = None,
) -> Tuned:
    """Tunes each method by itself; with a folder, goes on where an earlier call was cut off. A builder that
    has the data already saves loading them again.

    A trial that diverges, or whose options do not go together, has failed and is kept as such.
    """
    bench = _ready(tuning, command, builder or Builder())
    if out is None:
        return Tuned(tuning, bench.metric, bench.about, tuple(_trials_of(bench, (), watch)))
    path = Path(out)
    begin(path, TUNING, tuning.table(), "tuning", free="trials")
    with closing(Folder(path)):
        about = same_data(path, bench.about)
        lines = path / "trials.jsonl"
        keep_lines(lines, lambda entry: True)  # a last one cut short would spoil the next
        try:
            past = [Trial(**entry) for entry in read_lines(lines)]
        except TypeError as error:
            raise BadRun(f"{lines} is damaged ({error}): start this tuning anew with another --out") from None
        made: list[Trial] = []
        for trial in _trials_of(bench, past, watch):
            made.append(trial)
            if trial not in past:
                append_line(lines, asdict(trial))
        tuned = Tuned(tuning, bench.metric, about, tuple(made))
        tuned.write(path)
    return tuned


def _ready(tuning: Tuning, command: str | None, builder: Builder) -> _Bench:
    """Refuses every mistake before anything is written."""
    need_optuna()
    settings = tuning.shared.with_method("local")  # sites are the same for any method
    experiment = builder.prepare(settings, command)
    whole = builder.setup(settings, lambda roster, start: ())
    for spec in tuning.methods:
        _check_ends(tuning, spec, whole)
    metric = headline(whole.roster.task) if tuning.metric == "auto" else tuning.metric
    folds = folds_of(whole, tuning.folds, experiment.key)
    first = fold_experiment(settings, folds[0], experiment.method)
    experiment.net.close()
    known = measured_by(first)
    if metric not in known:
        raise UnknownName("metric for this data", metric, known)
    return _Bench(tuning, whole, folds, experiment.about, metric)


def _trials_of(bench: _Bench, past: Sequence[Trial], watch: Watch) -> Iterator[Trial]:
    """Every trial in order, those of the past as they were."""
    known = {(t.method, t.number): t for t in past}
    places = list(itertools.product(bench.tuning.methods, range(1, bench.tuning.trials + 1)))
    seen: dict[str, list[Trial]] = {spec: [] for spec in bench.tuning.methods}

    def tell(place: int, done: int) -> None:
        spec, number = places[place]
        rounds, total = place * bench.rounds + done, len(places) * bench.rounds
        watch(Step(spec, number, rounds, total, best_of(seen[spec], bench.metric), bench.metric))

    for place, (spec, number) in enumerate(places):
        trial = known.get((spec, number))
        trial = trial or _attempt(bench, spec, number, seen[spec], partial(tell, place))
        seen[spec].append(trial)
        tell(place, bench.rounds)
        yield trial


def _attempt(
    bench: _Bench, spec: str, number: int, seen: Sequence[Trial], tell: Callable[[int], None]
) -> Trial:
    """One trial; where nothing new is left to try, options bring what they brought before."""
    tuning, rounds = bench.tuning, bench.tuning.settings.rounds
    axes = tuning.axes(spec)
    settings = tuning.way(spec)
    tables: Mapping[str, Mapping[str, Any]] = {"": vars(settings), **settings.options}
    options = {a.name: tables.get(a.table, {}).get(a.option) for a in axes}  # as given
    if number > 1 or not all(a.holds(options[a.name]) for a in axes):
        tried = [(t.options, t.value) for t in seen]
        key = Key(tuning.settings.seed).at("tune", spec, number)
        options = suggest(axes, tried, key, METRICS[bench.metric].higher)
    for trial in seen:
        if trial.options == options:
            return replace(trial, number=number)

    def score(i: int) -> float:
        experiment = fold_experiment(tuning.way(spec, options), bench.folds[i], method)
        return validate(experiment, bench.metric, lambda record: tell(i * rounds + record.done))

    try:
        method = _made(tuning.way(spec, options), bench.whole)
        scores = [score(i) for i in range(tuning.folds)]
    except (Diverged, BadInput) as failure:
        return Trial(spec, number, options, None, [], str(failure))
    return Trial(spec, number, options, sum(scores) / len(scores), scores)


def _made(settings: Settings, setup: Setup) -> Method:
    method: Method = settings.made("method", local=settings.made("kernel"))
    check_method(method, setup.roster, setup.beliefs, Key(settings.seed, rounds=settings.rounds))
    return method


def fold_experiment(settings: Settings, fold: Setup, method: Method) -> Experiment:
    """A run of these settings on what a fold leaves to train on, scored after its last round."""
    settings = replace(settings, evaluate=settings.rounds)
    connector, engine = settings.made("net"), settings.made("engine")
    return experiment_of(fold, settings, method, connector=connector, engine=engine, command=None)


def validate(experiment: Experiment, metric: str, watch: RunWatch) -> float:
    """The mean over clients of a metric on the fold that was left out."""
    try:
        outcome = run(experiment, None, "fold", watch)
    finally:
        experiment.net.close()
    record, losses = outcome.record, outcome.record.final("loss")
    if any(math.isnan(losses[i]) for i in outcome.models.owners.tolist()):
        raise Diverged("the loss on held-out rows is not finite: lower the learning rate")
    value = mean_over_clients(record.final(metric))
    if math.isnan(value):
        raise BadInput(f"{metric} is not defined on any client's held-out rows: lower folds or use loss")
    return value


def _check_ends(tuning: Tuning, spec: str, whole: Setup) -> None:
    """Refuses a bound or a value that no choice of the other searched options goes with, where a person gave
    it.
    """
    axes, given = tuning.axes(spec), {entry.partition("=")[0].strip() for entry in tuning.search}
    named = [a for a in axes if {a.name, a.name.replace("_", "-")} & given]
    for axis, end in ((a, e) for a in named for e in a.ends()):
        others = [[(a.name, e) for e in a.ends()] for a in axes if a is not axis]
        refusal = None
        for choice in itertools.product(*others):
            try:
                _made(tuning.way(spec, {**dict(choice), axis.name: end}), whole)
                break
            except BadInput as error:
                refusal = error
        else:
            raise BadInput(f"search of {axis.name}: {refusal}")
