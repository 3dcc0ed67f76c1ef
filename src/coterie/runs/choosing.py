"""From trials to a choice for each client: whom it follows, and what that promises.

    looks best   the largest gain of those above κ standard errors, on the folds that choose
    gains        of all ways over training alone, with intervals that hold for all of them at once
    promise      of following such choices on rows that neither training nor choosing saw, by nested folds

Nobody is sent to others for a model that does no better than always the same answer, which is tried on the
same folds (`methods/baselines/nothing.py`; else `yardstick.py` says what it has), nor where no way at all
shows more than chance brings (`metrics/learnt.py`), nor on a gain that may be chance: either the gain of some
way has an interval above 0 that is as wide as a choice among C ways asks for, 1 - 0.05 / C instead of 95 %
(Bonferroni), or what nested folds chose has one of 95 %. The promise that is shown is wider: it is of what as
many rows as are held back for testing will show.

Intervals are of one of three kinds:

    over rows        where it is known what came of each row (`row_gains.py`)
    shares of rows   accuracy, sensitivity: every row is held out once, so that k and l of n rows are right
                     with the way and alone. Newcombe's of two shares (`operating.difference`), as if they
                     were of different rows: models that are tried on the same rows mostly fail on the same
                     ones, so that it is wider than need be. A fold in which alone was chosen has the same
                     model twice, and its rows count as no difference
    other figures    Student's t over folds that share rows (Nadeau and Bengio, 2003). Folds that agree to the
                     last digit tell nothing: there is none then
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from coterie.methods.advised import ALONE, Advised, Gain, choose, overlap_of
from coterie.methods.baselines import NOTHING
from coterie.metrics import operating
from coterie.metrics.evidence import ALSO, PROPER, Held
from coterie.metrics.learnt import UNKNOWN, Figures, Learnt, learnt
from coterie.metrics.summary import Interval, interval, telling
from coterie.runs.row_gains import gained, interval_over_rows
from coterie.runs.trying import OUTER, Bench, Memory, Place, Trials, every
from coterie.runs.yardstick import balanced_always_the_same, labels_of, no_model_at

LEVEL = 0.95
SHARES = ("accuracy", "sensitivity")
"""Figures that are shares of rows: of all, or of those of class 1."""
Fold = tuple[int, int]
"""(outer, inner), as in a place."""


@dataclass(frozen=True)
class Choice:
    """
    way        what a client should follow
    best       what looked best on the folds that choose; another than `way` where it is not worth following
    gains      {way: gain over training alone}, on the folds that choose
    no_model   what the client would have without any model; NaN where that is not known
    learnt     whether there is anything to learn for it
    inside     [outer fold] what its inner folds chose; empty without
    promise    what following such choices will have gained on as many rows as are held back for testing, by
               nested folds; None without
    """

    way: str
    best: str
    gains: dict[str, Interval]
    no_model: float = math.nan
    learnt: Learnt = UNKNOWN
    inside: tuple[str, ...] = ()
    promise: Interval | None = None


def choice_of(trials: Trials, bench: Bench, client: int) -> Choice:
    folds, sure = outer_folds(bench), bench.method.sure
    tried = gains_of(trials, bench, client, folds)
    gains = {way: gain_over_alone(trials, bench, client, [way] * len(folds), len(tried)) for way in tried}
    nothing, known = nothing_at(trials, bench, client), learnt_at(trials, bench, client)
    worth = {way: tried[way] for way in tried if beats(trials, bench, client, way, nothing)}
    worth = {} if known.verdict == "no" else worth
    looked, level = choose(tried, sure), mean_of(nothing)
    clear = {way: gain for way, gain in worth.items() if gains[way].bounds[0] > 0}
    if not bench.inner:
        way = choose(clear, sure)
        return Choice(way, looked if way == ALONE else way, gains, level, known)
    inside = tuple(chosen_within(trials, bench, client, outer) for outer, _ in folds)
    way = choose(clear, sure)
    if way == ALONE and gain_over_alone(trials, bench, client, inside).bounds[0] > 0:
        way = choose(worth, sure)
    coming = bench.footing.roster.members[client].test or bench.footing.roster.members[client].train
    promise = gain_over_alone(trials, bench, client, inside, coming=coming)
    return Choice(way, looked if way == ALONE else way, gains, level, known, inside, promise)


def nothing_at(trials: Trials, bench: Bench, client: int) -> list[float]:
    """[fold] what always the same answer has, as it was tried, or [1] as it follows from what is known."""
    folds = outer_folds(bench)
    found = figures(trials, NOTHING, bench.metric, client, folds)
    if not math.isnan(mean_of(found)):
        return found
    if bench.metric == "balanced_accuracy":
        return [balanced_always_the_same([fold.roster for fold in bench.outer], client)]
    rmse, r2 = (figures(trials, ALONE, name, client, folds) for name in ("rmse", "r2"))
    held = [fold.roster.members[client].test for fold in bench.outer]
    scored, own_loss = list(zip(rmse, r2, held, strict=True)), bench.own.loss is not None
    at = bench.method.specificity
    return [no_model_at(bench.metric, bench.footing.roster, client, own_loss, scored, at)]


def learnt_at(trials: Trials, bench: Bench, client: int) -> Learnt:
    """Whether any way shows a client more than always the same answer: on its training rows, each of which is
    held out once.
    """
    member, task, folds = bench.footing.roster.members[client], bench.footing.roster.task, outer_folds(bench)
    metrics = (PROPER[task], *ALSO.get(task, ()))

    def level(spec: str, metric: str) -> np.ndarray:
        return np.array([[mean_of(figures(trials, spec, metric, client, folds))]])

    same = {m: level(NOTHING, m) for m in metrics}
    ways = {spec: Figures({m: level(spec, m) for m in metrics}, same) for spec in bench.ways}
    return learnt(task, ways, [[Held(member.train, labels_of(member))]], ALONE)


def beats(trials: Trials, bench: Bench, client: int, way: str, nothing: Sequence[float]) -> bool:
    """Whether a way does better than always the same answer, in the mean over folds, as far as is known."""
    gain = Gain(figures(trials, way, bench.metric, client, outer_folds(bench)), nothing, bench.higher)
    return math.isnan(mean_of(nothing)) or gain.mean > 0


def mean_of(values: Sequence[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def gain_over_alone(
    trials: Trials, bench: Bench, client: int, specs: Sequence[str], ways: int = 1, coming: int = 0
) -> Interval:
    """Of following specs [outer fold] on these folds, as one of so many ways; with so many rows `coming`, of
    what these will show.
    """
    folds = outer_folds(bench)
    there = np.array(
        [figures(trials, s, bench.metric, client, [f])[0] for f, s in zip(folds, specs, strict=True)]
    )
    alone = np.array(figures(trials, ALONE, bench.metric, client, folds))
    level, rows = 1 - (1 - LEVEL) / ways, rows_of(bench, client)
    by_fold = Gain(there.tolist(), alone.tolist(), bench.higher).by_fold
    known = int((~np.isnan(by_fold)).sum())
    if (
        known == len(folds)
        and set(specs) != {ALONE}
        and (gains := by_rows(trials, bench, client, specs)) is not None
    ):
        return interval_over_rows(gains, float(by_fold.mean()), known, level, bench.metric, coming)
    if math.isnan(rows):
        return interval_of(by_fold, level, held_out(bench, client) / coming if coming else 0.0)
    differs = ~np.isnan(by_fold) & (np.array(specs) != ALONE)
    return interval_of_shares(there[differs], alone[differs], known, rows, level, coming)


def held_out(bench: Bench, client: int) -> float:
    """Rows of a fold, in the mean."""
    return bench.footing.roster.members[client].train / bench.method.folds


def by_rows(trials: Trials, bench: Bench, client: int, specs: Sequence[str]) -> np.ndarray | None:
    """[row] what each gained over training alone; None where rows are not known one by one."""
    clients = bench.footing.clients
    if clients and clients[client].units is not None:
        units = clients[client].units
        if len(np.unique(units)) < len(units):  # several rows of one patient are no rows of their own
            return None
    there, alone = list[Sequence[float]](), list[Sequence[float]]()
    for fold, spec in zip(outer_folds(bench), specs, strict=True):
        for found, name in ((there, spec), (alone, ALONE)):
            rows = trials[Place(*fold, name)].rows
            if len(rows) <= client:
                return None
            found.append(rows[client])
    return gained(there, alone, bench.metric, bench.higher)


def interval_of(by_fold: np.ndarray, level: float = LEVEL, more: float = 0.0) -> Interval:
    """Of a mean over folds that share rows; `more` is the share of a fold's rows in those to come."""
    known = by_fold[~np.isnan(by_fold)]
    return telling(interval(known, level, overlap_of(len(known)) + more))


def interval_of_shares(
    there: np.ndarray, alone: np.ndarray, folds: int, rows: float, level: float = LEVEL, coming: int = 0
) -> Interval:
    """Of the mean over folds, from shares [fold] of the folds in which the two could differ; all of them have
    so many rows together.
    """
    if not folds:
        return Interval(math.nan, math.nan, 0)
    part, z = len(there) / folds, NormalDist().inv_cdf((1 + level) / 2)
    if not part:  # alone in every fold: nothing was gained, and nothing is known of what might be
        return Interval(0.0, math.nan, folds)
    some = rows * part
    some = 1 / (1 / some + 1 / coming) if coming else some  # these and those to come
    shares = [operating.share(float(values.mean()) * some, some, z) for values in (there, alone)]
    low, high = (part * end for end in operating.difference(shares[0], shares[1]))
    return Interval(part * float((there - alone).mean()), math.nan, folds, low, high)


def rows_of(bench: Bench, client: int) -> float:
    """Held-out rows that the measure is a share of, over all folds; NaN if it is none, or nobody knows."""
    member = bench.footing.roster.members[client]
    labels = labels_of(member)
    counted = {"accuracy": member.train, "sensitivity": labels[1] if len(labels) > 1 else math.nan}
    return counted[bench.metric] if bench.metric in SHARES else math.nan


def outer_folds(bench: Bench) -> list[Fold]:
    return [(outer, OUTER) for outer in range(bench.method.folds)]


def figures(trials: Trials, spec: str, metric: str, client: int, folds: Sequence[Fold]) -> list[float]:
    """[fold] what a candidate's model for one client scored; NaN where there is nothing."""
    there = [trials.get(Place(*fold, spec)) for fold in folds]
    found = [None if trial is None else trial.scores.get(metric) for trial in there]
    return [math.nan if f is None or f[client] is None else float(f[client]) for f in found]  # type: ignore[arg-type]


def gains_of(trials: Trials, bench: Bench, client: int, folds: Sequence[Fold]) -> dict[str, Gain]:
    """What each candidate gained one client over training alone, on these folds."""
    scores = {spec: figures(trials, spec, bench.metric, client, folds) for spec in bench.ways}
    alone = scores.pop(ALONE)
    return {spec: Gain(found, alone, bench.higher) for spec, found in scores.items()}


def chosen_within(trials: Trials, bench: Bench, client: int, outer: int) -> str:
    """What looked best by inner folds, as if the outer one were not there."""
    inner = [(outer, i) for i in range(bench.inner)]
    return choose(gains_of(trials, bench, client, inner), bench.method.sure)


def decided(bench: Bench) -> tuple[Advised, list[str]]:
    """The method with a choice for each client, from trials; and what to say of it."""
    bench.check()
    trials = every(bench, Memory())
    choices = {name: choice_of(trials, bench, i) for i, name in enumerate(bench.names)}
    told = ", ".join(f"{name}: {choice.way}" for name, choice in choices.items())
    models = sum(entry[2] for trial in trials.values() for entry in trial.passed)
    note = (
        f"advised follows, by {bench.metric}: {told}; tried were {len(bench.ways)} ways on "
        f"{bench.method.folds} folds of each client's training rows, for which {models} models passed"
    )
    said = [*bench.able[1], note]
    if bench.measure.why:
        said.append(f"advised: {bench.measure.why}")
    if kept := [f"{name} ({choice.best})" for name, choice in choices.items() if choice.way != choice.best]:
        said.append(
            f"advised: another way looked better for {', '.join(kept)}, but by no more than the best of "
            f"{len(bench.ways) - 1} may by chance, or no better than always the same answer: each stays alone"
        )
    return replace(bench.method, choice=tuple(choice.way for choice in choices.values())), said
