"""Candidates tried on what folds of the clients' training rows leave, for `advised` and `coterie advise`.

    outer   every candidate on every fold: these choose
    inner   the same inside what an outer fold leaves: these choose as if that fold were not there, so that
            what was chosen can be judged on it (nested cross-validation)

A trial is a run like any other, on clients without a fold, scored after its last round on that fold. It has
the net, the wrappers and the seed of the run that asks; the book of its net says what it would give away.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import BadData, BadInput, BadRun, Diverged, Refused, UnknownName
from coterie.core.method import Method, asking
from coterie.core.seeds import Key
from coterie.engines.base import Engine
from coterie.features.trials.gains import values_by_row
from coterie.features.trials.measure import TREES, Measure, measure_of, trees_on, tries_trees
from coterie.features.trials.trial import measured_by
from coterie.methods.advised import ALONE, Advised
from coterie.methods.baselines import NOTHING
from coterie.methods.baselines.nothing import Nothing
from coterie.methods.ranking.bar import ABOVE
from coterie.methods.ranking.sketched import DISTANCES
from coterie.metrics.own import NOTHING as NOT_OWN
from coterie.metrics.own import Own
from coterie.metrics.table import METRICS
from coterie.nets.ground import Connector
from coterie.runs.about import positive_class
from coterie.runs.experiment import Experiment, experiment_of
from coterie.runs.loop import run
from coterie.runs.record import Record
from coterie.runs.settings import Settings
from coterie.sites.folds import folds_of
from coterie.sites.setup import Setup
from coterie.storage.atomic import write_whole

ALIKE, THEIRS = DISTANCES["quantiles"], ABOVE
REASONS = (ALIKE, THEIRS)
"""Matrices of rankings that say why: how far rows are apart, how much worse others' models do at home."""
OUTER = -1  # in the place of an inner fold: the trial is on the outer fold itself


@dataclass(frozen=True, order=True)
class Place:
    """Which trial: a candidate, on a fold, or on an inner fold of what that one leaves."""

    outer: int
    inner: int
    spec: str

    @property
    def file(self) -> str:
        inner = "" if self.inner == OUTER else f"-{self.inner}"
        return f"fold-{self.outer}{inner}.json"


@dataclass(frozen=True)
class Trial:
    """What came of one: figures by name [client] on the fold, weights [receiver, sender] as the mean over
    rounds, what passed (see `Record.passed_in_all`), matrices of a ranking by name, seconds, epsilon [client]
    where local work has a bound; or why there is nothing. `rows` [client][row] has what came of each row,
    where that is known (`gains.py`).
    """

    scores: Mapping[str, Sequence[float | None]]
    weights: Sequence[Sequence[float]] = ()
    passed: Sequence[Sequence[int]] = ()
    matrices: Mapping[str, Sequence[Sequence[float | None]]] = field(default_factory=dict)
    seconds: float = 0.0
    epsilon: Sequence[float | None] = ()
    error: str | None = None
    rows: Sequence[Sequence[float]] = ()


Trials = Mapping[Place, Trial]


@dataclass(frozen=True, eq=False)
class Bench:
    """What candidates are tried on. `inner` folds inside each outer one; 0: none."""

    method: Advised
    setup: Setup
    settings: Settings
    connector: Connector
    engine: Engine
    own: Own = NOT_OWN
    inner: int = 0

    @cached_property
    def measure(self) -> Measure:
        """What ways are compared by, and why, where that is not the usual one or can hardly tell."""
        method = self.method
        return measure_of(method.measure, self.setup.roster, asking(method.requester, self.names).tolist())

    @property
    def metric(self) -> str:
        return self.measure.name

    @property
    def names(self) -> list[str]:
        return self.setup.roster.names

    @property
    def higher(self) -> bool:
        return METRICS[self.metric].higher

    @cached_property
    def able(self) -> tuple[dict[str, Method], list[str]]:
        key = Key(self.settings.seed, rounds=self.settings.rounds)
        rosters = [fold.roster for fold in (self.setup, *self.outer)]
        if self.inner:
            rosters += [fold.roster for outer in range(self.method.folds) for fold in self.within(outer)]
        return self.method.able(rosters, self.setup.beliefs, key)

    @property
    def ways(self) -> dict[str, Method]:
        return self.able[0]

    @cached_property
    def outer(self) -> list[Setup]:
        """The clients without each fold."""
        return folds_of(self.setup, self.method.folds, Key(self.settings.seed))

    def within(self, outer: int) -> list[Setup]:
        """What an outer fold leaves, without each inner one."""
        seed = Key(self.settings.seed).at("inside", outer).integer()
        return folds_of(self.outer[outer], self.inner, Key(seed))

    def places(self) -> list[Place]:
        """Every trial, those that choose first; always the same answer, on the folds that choose, last."""
        outer, inner = range(self.method.folds), range(self.inner)
        folds = [*((o, OUTER) for o in outer), *((o, i) for o in outer for i in inner)]
        tried = [Place(*fold, spec) for fold in folds for spec in self.ways]
        beside = (NOTHING, TREES) if tries_trees(self.setup.clients, self.metric) else (NOTHING,)
        return [*tried, *(Place(o, OUTER, spec) for spec in beside for o in outer)]

    @property
    def specs(self) -> list[str]:
        return [*self.ways, NOTHING, TREES]

    def setup_at(self, place: Place) -> Setup:
        if place.inner == OUTER:
            return self.outer[place.outer]
        if place.outer not in self._within:  # one at a time: each holds the rows once more
            self._within.clear()
            self._within[place.outer] = self.within(place.outer)
        return self._within[place.outer][place.inner]

    @cached_property
    def _within(self) -> dict[int, list[Setup]]:
        return {}

    def experiment(self, place: Place) -> Experiment:
        way: Method = Nothing(self.method.requester) if place.spec == NOTHING else self.ways[place.spec]
        rounds = 1 if place.spec == NOTHING else self.settings.rounds
        name = str(getattr(way, "name", ""))
        made = experiment_of(
            self.setup_at(place),
            replace(self.settings, method=name, rounds=rounds, evaluate=rounds),
            way,
            connector=self.connector,
            engine=self.engine,
            command=None,
            own=self.own,
        )
        if self.metric != "sensitivity":
            return made
        positive = positive_class(self.setup.roster)
        return replace(made, specificity=self.method.specificity, positive=positive)

    def check(self) -> None:
        """Refuses a measure that there is not, before the first trial; folds that somebody has too few rows
        for have been refused with the clients without them.
        """
        known = measured_by(self.experiment(Place(0, OUTER, ALONE)))
        if self.metric not in known:
            raise UnknownName("measure for this data", self.metric, known)

    def attempt(self, place: Place) -> Trial:
        """One trial; one that diverges has failed and is kept as such, training alone must not. Always the
        same answer, which nobody asked for, may be refused.
        """
        if place.spec == TREES:
            scores, rows = trees_on(self.setup_at(place).clients, self.metric)
            return Trial({self.metric: scores}, rows=rows)
        failures = {NOTHING: (Diverged, BadInput, BadData, Refused), ALONE: ()}.get(place.spec, (Diverged,))
        try:
            experiment = self.experiment(place)
            try:
                outcome = run(experiment, None, place.spec)
            finally:
                experiment.net.close()
        except failures as error:
            return Trial({}, error=str(error))
        if outcome.models.crowd is not None:
            raise BadInput(f"candidate {place.spec!r} makes several models for a client: leave it out")
        return _trial_of(outcome.record, self.metric, bare=place.inner != OUTER)


def _trial_of(record: Record, metric: str, bare: bool) -> Trial:
    """What a run on a fold says; of one that only chooses, the figures it chooses by and what it moved."""
    scores = (record.metrics[-1]["scores"] or {}).get("own/test", {})  # who is away in the end has none
    scores = without_one_class(scores, record.about["clients"])
    figures = {name: values for name, values in scores.items() if not bare or name == metric}
    passed = record.passed_in_all().tolist()
    if bare:
        return Trial(figures, passed=passed)
    rounds = [np.nan_to_num(np.asarray(w, dtype=float)) for w in record.weights.values()]
    weights = np.mean(rounds, axis=0) if rounds else np.zeros((0, 0))
    matrices = {name: record.matrices[name] for name in REASONS if name in record.matrices}
    ranked = {name: _finite(by_round[min(by_round)]) for name, by_round in matrices.items()}
    privacy = record.of("privacy")
    epsilon = [] if privacy is None else [site["epsilon"] for site in privacy["sites"]]
    seconds = record.traffic()["seconds"]
    rows = values_by_row(record, metric)
    return Trial(figures, np.round(weights, 6).tolist(), passed, ranked, seconds, epsilon, rows=rows)


def without_one_class(
    scores: Mapping[str, Sequence[float | None]], clients: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[float | None]]:
    """No balanced accuracy of a part of one class alone: always saying that class would have all of it. Which
    parts these are is in the labels, or, where a site keeps these, in an AUC that there is not.
    """
    if "balanced_accuracy" not in scores:
        return dict(scores)
    balanced = scores["balanced_accuracy"]
    known = [sum(count > 0 for count in c["labels"][2]) if c.get("labels") else 2 for c in clients]
    of_several = [
        value if classes > 1 and auc is not None else None
        for value, classes, auc in zip(balanced, known, scores.get("auc", balanced), strict=True)
    ]
    return {**scores, "balanced_accuracy": of_several}


def _finite(matrix: np.ndarray) -> list[list[float | None]]:
    """As JSON holds it: what is not finite is null."""
    return [[float(v) if math.isfinite(v) else None for v in row] for row in np.round(matrix, 6).tolist()]


class Files:
    """Trials in a folder, a file for each: they are there after a kill, and other processes may write."""

    def __init__(self, folder: Path, ways: Sequence[str]) -> None:
        self.folder, self.number = folder, {spec: i for i, spec in enumerate(ways)}

    def _path(self, place: Place) -> Path:
        return self.folder / f"way-{self.number[place.spec]}" / place.file

    def get(self, place: Place) -> Trial | None:
        path = self._path(place)
        if not path.exists():
            return None
        try:
            return Trial(**json.loads(path.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise BadRun(f"{path} is damaged ({error}): delete it to make it again") from None

    def __setitem__(self, place: Place, trial: Trial) -> None:
        write_whole(self._path(place), json.dumps(asdict(trial)) + "\n")


Tell = Callable[[int, int, str], None]
"""How many trials are over, of how many, and the last one's candidate."""


def all_trials(
    bench: Bench, kept: dict[Place, Trial] | Files, tell: Tell = lambda done, total, spec: None
) -> dict[Place, Trial]:
    """Every trial, those that are kept already as they are, one after the other."""
    found, places = dict[Place, Trial](), bench.places()
    for done, place in enumerate(places, start=1):
        trial = kept.get(place)
        if trial is None or (trial.scores and bench.metric not in trial.scores):  # kept for another measure
            trial = kept[place] = bench.attempt(place)
        found[place] = trial
        tell(done, len(places), place.spec)
    return found
