"""An answer for each client that asks: with whom, what it brings, how sure, what it gives away.

The gain of the chosen way is too good, as the same folds chose it; what is expected comes from nested folds
(`judge.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coterie.core.method import asking
from coterie.core.roster import Roster
from coterie.features.advice.judge import Choice, Judge
from coterie.features.trials.bench import REASONS, Bench, Place, Trials
from coterie.features.trials.measure import TREES, Outcome, outcome_of
from coterie.methods.advised import ALONE
from coterie.metrics.learnt import UNKNOWN, Learnt, Shown
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.runs.about import commonest
from coterie.runs.record import COORDINATOR

TRUST = ("ece", "brier", "nll", "auc")
LEAST = 0.01  # of a model: whoever counts less is not named


@dataclass(frozen=True)
class Gift:
    """What passes from one party to another in a run of the advised way."""

    sender: str
    receiver: str
    models: int
    bytes: int
    numbers: int


@dataclass(frozen=True)
class Answer:
    """What one client is told.

    choice      the way that it should follow, `local` for alone
    level       {way: mean over folds of the measure}, alone among them
    gains       {way: gain over alone, above 0 is better}, on the folds that chose; intervals hold for all at
                once
    expected    of following such advice, by nested folds; None where there are none
    repeats     {way: in how many outer folds the inner ones chose it}
    partners    {other: its mean weight in the model}, of the advised way
    reasons     {what: {other: figure}}, of rankings among the ways (`bench.REASONS`): the lower, the better
    trust       {figure: (alone, advised)}, of how far its confidence can be trusted
    gifts       what passes from and to this client in a run of the advised way
    epsilon     what such a run costs its rows, the most over folds; None without a bound
    seconds     of such a run's training here, the mean over folds
    rows        numbers of its training rows
    best        what looked best on the folds that chose; another than `choice` where its promise did not hold
    no_model    what always the same answer would have of the measure; NaN where that is not known
    outcome     what most of its rows are, and how many are not; None where nobody knows, or rows are numbers
    learnt      whether there is anything to learn for it
    trees       what boosted trees of its own rows gain over the model alone; None where they were not tried
    without     in how many held-out parts there is none of the rarer kind; None where nobody knows
    """

    client: str
    choice: str
    level: Mapping[str, float]
    gains: Mapping[str, Interval]
    expected: Interval | None
    repeats: Mapping[str, int]
    partners: Mapping[str, float]
    reasons: Mapping[str, Mapping[str, float]]
    trust: Mapping[str, tuple[float, float]]
    gifts: Sequence[Gift]
    epsilon: float | None
    seconds: float
    rows: int
    best: str = ALONE
    no_model: float = math.nan
    outcome: Outcome | None = None
    without: int | None = None
    learnt: Learnt = UNKNOWN
    trees: Interval | None = None

    @property
    def alone(self) -> bool:
        return self.choice == ALONE


@dataclass(frozen=True, eq=False)
class Advice:
    """Answers, and what they rest on. `about` says where and on which clients, as for a run; `measured` why
    the metric is that one, or that it can hardly tell, where there is something to say.
    """

    answers: tuple[Answer, ...]
    metric: str
    ways: tuple[str, ...]
    reveals: Mapping[str, Mapping[str, Any]]
    config: Mapping[str, Any]
    about: Mapping[str, Any]
    folds: int
    inner: int
    sure: float
    spent: Mapping[str, float]
    choice: tuple[str, ...]
    failed: Mapping[str, str]
    measured: str = ""

    @property
    def higher(self) -> bool:
        return METRICS[self.metric].higher

    def of(self, client: str) -> Answer:
        return next(a for a in self.answers if a.client == client)

    def table(self) -> dict[str, Any]:
        """As JSON holds it: what is not finite is null."""
        return _plain(asdict(self))  # type: ignore[no-any-return]


def advice_of(bench: Bench, trials: Trials, about: Mapping[str, Any]) -> Advice:
    names, method = bench.names, bench.method
    judges = [Judge(bench, trials, client) for client in range(len(names))]
    choices = [judge.choice() for judge in judges]
    passed = [entry for trial in trials.values() for entry in trial.passed]
    return Advice(
        answers=tuple(_answer_of(judges[i], choices[i]) for i in asking(method.requester, names).tolist()),
        metric=bench.metric,
        ways=tuple(bench.ways),
        reveals={spec: asdict(way.reveals()) for spec, way in bench.ways.items()},
        config=bench.settings.table(),
        about={**about, "notes": [*about["notes"], *bench.able[1]]},
        folds=method.folds,
        inner=bench.inner,
        sure=method.sure,
        spent={
            "runs": sum(place.spec != TREES for place in trials),
            "models": sum(entry[2] for entry in passed),
            "bytes": sum(entry[3] for entry in passed),
        },
        choice=tuple(choice.way for choice in choices),
        failed={place.spec: trial.error for place, trial in trials.items() if trial.error},
        measured=bench.measure.why,
    )


def _answer_of(judge: Judge, choice: Choice) -> Answer:
    bench, trials, client, way = judge.bench, judge.trials, judge.client, choice.way
    names, folds, figures = bench.names, judge.folds, judge.figures
    parties = [*names, COORDINATOR]
    known = [t for fold in folds if (t := trials[Place(*fold, way)]).weights]
    weights = np.mean([t.weights for t in known], axis=0)[client] if known else np.zeros(len(names))
    heard = {names[j]: float(w) for j, w in enumerate(weights) if j != client and w >= LEAST}
    some = trials[Place(*folds[0], ALONE)].scores
    tried_trees = not any(map(math.isnan, figures(TREES, bench.metric)))
    return Answer(
        client=names[client],
        choice=way,
        level={spec: _mean(figures(spec, bench.metric)) for spec in bench.ways},
        gains=choice.gains,
        expected=choice.promise,
        repeats=dict(Counter(choice.inside)),
        partners=dict(sorted(heard.items(), key=lambda pair: -pair[1])),
        reasons=_reasons(judge),
        trust={n: (_mean(figures(ALONE, n)), _mean(figures(way, n))) for n in TRUST if n in some},
        gifts=[
            Gift(parties[sender], parties[receiver], *map(int, what))
            for sender, receiver, *what in (known[0].passed if known else ())
            if client in (sender, receiver)
        ],
        epsilon=max((e for t in known if t.epsilon and (e := t.epsilon[client]) is not None), default=None),
        seconds=_mean([t.seconds for t in known]),
        rows=int(bench.setup.roster.sizes[client]),
        best=choice.best,
        no_model=choice.no_model,
        outcome=outcome_of(bench.setup.roster, client),
        without=_parts_without([fold.roster for fold in bench.outer], client),
        learnt=choice.learnt,
        trees=judge.gain_over_alone([TREES] * len(folds)) if tried_trees else None,
    )


def _parts_without(folds: Sequence[Roster], client: int) -> int | None:
    """In how many parts that folds hold out for testing there is no row of the rarer kind."""
    members = [roster.members[client].labels for roster in folds]
    if any(labels is None for labels in members):
        return None
    parts = [(labels[0], labels[2]) for labels in members if labels]
    if folds[0].task == "survival":
        return sum(not test[1] for _, test in parts)
    return sum(sum(test) <= test[commonest(train)] for train, test in parts)


def _reasons(judge: Judge) -> dict[str, dict[str, float]]:
    """What rankings among the ways found of each other, the mean over outer folds."""
    found, names = dict[str, dict[str, float]](), judge.bench.names
    tried = [judge.trials[Place(*fold, spec)] for fold in judge.folds for spec in judge.bench.ways]
    for name in REASONS:
        rows = [trial.matrices[name][judge.client] for trial in tried if name in trial.matrices]
        means = [_mean(map(_figure, column)) for column in zip(*rows, strict=True)]
        known = {names[j]: m for j, m in enumerate(means) if j != judge.client and math.isfinite(m)}
        found |= {name: known} if known else {}
    return found


def _mean(values: Iterable[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return float(np.mean(known)) if known else math.nan


# as JSON holds it, and back


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _figure(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _interval(value: Sequence[Any] | None) -> Interval | None:
    if value is None:
        return None
    mean, half, seeds, *bounds = value
    return Interval(_figure(mean), _figure(half), int(seeds), *map(_figure, bounds))


def _answer_in(one: Mapping[str, Any]) -> Answer:
    """Of answers of earlier versions not everything is known."""
    outcome = one.get("outcome")
    verdict, *shown = one.get("learnt") or [UNKNOWN.verdict]
    read = {
        "level": {k: _figure(v) for k, v in one["level"].items()},
        "gains": {k: _interval(v) for k, v in one["gains"].items()},
        "expected": _interval(one["expected"]),
        "trust": {k: (_figure(a), _figure(b)) for k, (a, b) in one["trust"].items()},
        "gifts": [Gift(**gift) for gift in one["gifts"]],
        "seconds": _figure(one["seconds"]),
        "no_model": _figure(one.get("no_model")),
        "outcome": Outcome(*outcome) if outcome else None,
        "learnt": Learnt(verdict, *(Shown(*of) if of else None for of in shown)),
        "trees": _interval(one.get("trees")),
    }
    return Answer(**{**one, **read})


def advice_in(table: Mapping[str, Any]) -> Advice:
    """The inverse of `Advice.table`."""
    lists = {name: tuple(table[name]) for name in ("ways", "choice")}
    return Advice(**{**table, **lists, "answers": tuple(map(_answer_in, table["answers"]))})
