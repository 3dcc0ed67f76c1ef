"""Options picked by cross-validation on the clients' training rows, for each method by itself.

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
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from coterie.core.errors import BadInput, BadRun, Diverged, UnknownName
from coterie.core.method import Method, check_method
from coterie.core.seeds import Key
from coterie.metrics.table import METRICS, headline
from coterie.runs.experiment import Builder
from coterie.runs.folder import Folder
from coterie.runs.record import Record
from coterie.runs.runner import same_threads
from coterie.runs.search import Axis, Options, need_optuna, suggest
from coterie.runs.settings import Settings, read_toml
from coterie.runs.trials import Trial, Tuned, Tuning, best_of, is_tuning
from coterie.runs.validation import fold_experiment, measured_by, validate
from coterie.sites.folds import folds_of
from coterie.sites.footing import Footing
from coterie.storage.atomic import append_line, keep_lines, read_lines, write_whole


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
class Bench:
    """A tuning, checked and in memory: what it is on, whole and without each fold, where, and the metric."""

    tuning: Tuning
    whole: Footing
    folds: list[Footing]
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
    bench = ready(tuning, command, builder or Builder())
    if out is None:
        return Tuned(tuning, bench.metric, bench.about, tuple(trials_of(bench, (), watch)))
    path = Path(out)
    begin(path, tuning)
    with closing(Folder(path)):
        about = same_data(path, bench.about)
        lines = path / "trials.jsonl"
        keep_lines(lines, lambda entry: True)  # a last one cut short would spoil the next
        past = read_trials(lines)
        made: list[Trial] = []
        for trial in trials_of(bench, past, watch):
            made.append(trial)
            if trial not in past:
                append_line(lines, asdict(trial))
        tuned = Tuned(tuning, bench.metric, about, tuple(made))
        tuned.write(path)
    return tuned


def ready(tuning: Tuning, command: str | None, builder: Builder) -> Bench:
    """Refuses every mistake before anything is written."""
    need_optuna()
    settings = tuning.shared.with_method("local")  # sites are the same for any method
    experiment = builder.prepare(settings, command)
    whole = builder.footing(settings, lambda roster, start: ())
    for spec in tuning.methods:
        check_ends(tuning, spec, whole)
    metric = headline(whole.roster.task) if tuning.metric == "auto" else tuning.metric
    folds = folds_of(whole, tuning.folds, experiment.key)
    first = fold_experiment(settings, folds[0], experiment.method)
    experiment.net.close()
    known = measured_by(first)
    if metric not in known:
        raise UnknownName("metric for this data", metric, known)
    return Bench(tuning, whole, folds, experiment.about, metric)


def trials_of(bench: Bench, past: Sequence[Trial], watch: Watch) -> Iterator[Trial]:
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
        trial = trial or attempt(bench, spec, number, seen[spec], partial(tell, place))
        seen[spec].append(trial)
        tell(place, bench.rounds)
        yield trial


def attempt(
    bench: Bench, spec: str, number: int, seen: Sequence[Trial], tell: Callable[[int], None]
) -> Trial:
    """One trial; where nothing new is left to try, options bring what they brought before."""
    tuning, rounds = bench.tuning, bench.tuning.settings.rounds
    axes = tuning.axes(spec)
    options = as_given(tuning.way(spec), axes) if number == 1 else None
    if options is None:
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
        method = made(tuning.way(spec, options), bench.whole)
        scores = [score(i) for i in range(tuning.folds)]
    except (Diverged, BadInput) as failure:
        return Trial(spec, number, options, None, [], str(failure))
    return Trial(spec, number, options, sum(scores) / len(scores), scores)


def as_given(settings: Settings, axes: Sequence[Axis]) -> Options | None:
    """The options that the settings have now, if all of them lie within what is searched."""
    tables: Mapping[str, Mapping[str, Any]] = {"": vars(settings), **settings.options}
    now = {a.name: tables.get(a.table, {}).get(a.option) for a in axes}
    return now if all(a.holds(now[a.name]) for a in axes) else None


def made(settings: Settings, footing: Footing) -> Method:
    method: Method = settings.made("method", local=settings.made("kernel"))
    check_method(method, footing.roster, footing.beliefs, Key(settings.seed, rounds=settings.rounds))
    return method


def check_ends(tuning: Tuning, spec: str, whole: Footing) -> None:
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
                made(tuning.way(spec, {**dict(choice), axis.name: end}), whole)
                break
            except BadInput as error:
                refusal = error
        else:
            raise BadInput(f"search of {axis.name}: {refusal}")


def read_trials(path: Path) -> list[Trial]:
    try:
        return [Trial(**entry) for entry in read_lines(path)]
    except TypeError as error:
        raise BadRun(f"{path} is damaged ({error}): start this tuning anew with another --out") from None


def begin(path: Path, tuning: Tuning) -> None:
    """Writes what is tuned, or finds the same again; only the number of trials may differ."""
    table = tuning.table()
    if path.is_dir() and any(path.iterdir()):
        if not is_tuning(path):
            raise BadRun(f"output folder {path} is not empty: choose another --out")
        if read_toml(path / "tune.toml") | {"trials": tuning.trials} != table:
            raise BadRun(
                f"{path} holds another tuning: go on with 'coterie resume {shlex.quote(str(path))}' or "
                "choose another --out"
            )
    write_whole(path / "tune.toml", tomli_w.dumps(table))


def same_data(path: Path, about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where and on what the tuning began: kept from the first call, and its data compared with ours."""
    for past in read_lines(path / "run.json"):
        if past.get("fingerprint") != about["fingerprint"]:
            raise BadRun(f"{path}: the data or the first model differ from those it began with: start anew")
        same_threads(Record("", {}, past))
        return past
    write_whole(path / "run.json", json.dumps(about) + "\n")
    return about
