"""From trials to a choice for one client: what it should follow, and what that promises.

    looks best   the largest gain of those above κ standard errors, on the folds that choose
    gains        of all ways over training alone, with intervals that hold for all of them at once
    promise      of following such choices on rows that neither training nor choosing saw: for each outer
                 fold, inner folds of the rest choose, and the outer fold judges what they chose

Nobody is sent to others for a model that does no better than always the same answer, which is tried on the
same folds (`methods/baselines/nothing.py`; else `trials/measure.py` says what it has), nor where no way at
all shows more than chance brings (`metrics/learnt.py`), nor on a gain that may be chance: either the gain of
some way has an interval above 0 that is as wide as a choice among C ways asks for, 1 - 0.05 / C instead of
95 % (Bonferroni), or what nested folds chose has one of 95 %. The promise that is shown is wider: it is of
what as many rows as are held back for testing will show. Which intervals there are: `trials/gains.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coterie.core.roster import Member
from coterie.features.trials.bench import OUTER, Bench, Place, Trials
from coterie.features.trials.gains import (
    LEVEL,
    SHARES,
    Gain,
    gain_by_row,
    interval_of_shares,
    interval_over_folds,
    interval_over_rows,
)
from coterie.features.trials.measure import balanced_always_the_same
from coterie.methods.advised import ALONE
from coterie.methods.baselines import NOTHING
from coterie.metrics import no_model
from coterie.metrics.learnt import ALSO, PROPER, UNKNOWN, Figures, Held, Learnt, learnt
from coterie.metrics.summary import Interval
from coterie.runs.about import SEEING, labels_of

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


def choose(gains: Mapping[str, Gain], sure: float) -> str:
    """The candidate of largest gain among those that exceed the bar, the first of equals; else alone."""
    able = {spec: gain.mean for spec, gain in gains.items() if gain.exceeds(sure)}
    return max(able, key=lambda spec: able[spec]) if able else ALONE


def _mean_of(values: Sequence[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


@dataclass(frozen=True, eq=False)
class Judge:
    """What all trials on a bench say for one client, by its number."""

    bench: Bench
    trials: Trials
    client: int

    @property
    def member(self) -> Member:
        return self.bench.setup.roster.members[self.client]

    @cached_property
    def folds(self) -> list[Fold]:
        """Those that choose."""
        return [(outer, OUTER) for outer in range(self.bench.method.folds)]

    def figures(self, spec: str, metric: str, folds: Sequence[Fold] | None = None) -> list[float]:
        """[fold] what a candidate's model for the client scored; NaN where there is nothing."""
        places = [Place(*fold, spec) for fold in folds or self.folds]
        found = [t.scores.get(metric) if (t := self.trials.get(place)) else None for place in places]
        return [math.nan if f is None or (v := f[self.client]) is None else float(v) for f in found]

    def gains(self, folds: Sequence[Fold]) -> dict[str, Gain]:
        """What each candidate gained over training alone, on these folds."""
        scores = {spec: self.figures(spec, self.bench.metric, folds) for spec in self.bench.ways}
        alone = scores.pop(ALONE)
        return {spec: Gain(found, alone, self.bench.higher) for spec, found in scores.items()}

    def choice(self) -> Choice:
        bench, sure = self.bench, self.bench.method.sure
        tried, nothing, known = self.gains(self.folds), self.always_the_same(), self.learnt()
        gains = {way: self.gain_over_alone([way] * len(self.folds), len(tried)) for way in tried}
        worth = {way: gain for way, gain in tried.items() if self._beats(way, nothing)}
        worth = {} if known.verdict == "no" else worth
        clear = {way: gain for way, gain in worth.items() if gains[way].bounds[0] > 0}
        way, inside, promise = choose(clear, sure), tuple[str, ...](), None
        if bench.inner:
            inner = [[(outer, i) for i in range(bench.inner)] for outer, _ in self.folds]
            inside = tuple(choose(self.gains(folds), sure) for folds in inner)
            if way == ALONE and self.gain_over_alone(inside).bounds[0] > 0:
                way = choose(worth, sure)
            promise = self.gain_over_alone(inside, coming=self.member.test or self.member.train)
        best = choose(tried, sure) if way == ALONE else way
        return Choice(way, best, gains, _mean_of(nothing), known, inside, promise)

    def always_the_same(self) -> list[float]:
        """[fold] what always the same answer has, as it was tried, or [1] as follows from what is known:
        counts of classes and the specificity at which a sensitivity is read or, for numbers, RMSE and R² of a
        model.
        """
        bench, metric, task = self.bench, self.bench.metric, self.bench.setup.roster.task
        found = self.figures(NOTHING, metric)
        if not math.isnan(_mean_of(found)):
            return found
        if metric == "balanced_accuracy":
            return [balanced_always_the_same([fold.roster for fold in bench.outer], self.client)]
        if metric == "rmse":
            rmse, r2 = (self.figures(ALONE, name) for name in ("rmse", "r2"))
            held = [fold.roster.members[self.client].test for fold in bench.outer]
            same = [no_model.of_figures(*fold) for fold in zip(rmse, r2, held, strict=True)]
            return [_mean_of([value for value in same if math.isfinite(value)])]
        if metric == "loss" and task == "classification" and bench.own.loss is None:
            metric = SEEING  # which it is, unless somebody brought another
        return [no_model.of_labels(metric, labels_of(self.member), bench.method.specificity)]

    def learnt(self) -> Learnt:
        """Whether any way shows the client more than always the same answer: on its training rows, each of
        which is held out once.
        """
        task = self.bench.setup.roster.task
        metrics = (PROPER[task], *ALSO.get(task, ()))

        def level(spec: str, metric: str) -> np.ndarray:
            return np.array([[_mean_of(self.figures(spec, metric))]])

        same = {m: level(NOTHING, m) for m in metrics}
        ways = {spec: Figures({m: level(spec, m) for m in metrics}, same) for spec in self.bench.ways}
        return learnt(task, ways, [[Held(self.member.train, labels_of(self.member))]], ALONE)

    def _beats(self, way: str, nothing: Sequence[float]) -> bool:
        """Whether a way does better than always the same answer, in the mean over folds, as far as known."""
        if math.isnan(_mean_of(nothing)):
            return True
        return Gain(self.figures(way, self.bench.metric), nothing, self.bench.higher).mean > 0

    def gain_over_alone(self, specs: Sequence[str], ways: int = 1, coming: int = 0) -> Interval:
        """Of following specs [outer fold] on these folds, as one of so many ways; with so many rows `coming`,
        of what these will show.
        """
        metric, level = self.bench.metric, 1 - (1 - LEVEL) / ways
        each = [self.figures(s, metric, [f])[0] for f, s in zip(self.folds, specs, strict=True)]
        there, alone = np.array(each), np.array(self.figures(ALONE, metric))
        by_fold = Gain(each, alone.tolist(), self.bench.higher).by_fold
        known = int((~np.isnan(by_fold)).sum())
        if known == len(self.folds) and set(specs) != {ALONE} and (gains := self._by_row(specs)) is not None:
            return interval_over_rows(gains, float(by_fold.mean()), known, level, metric, coming)
        # held-out rows that the measure is a share of, over all folds, if it is one and anybody knows
        labels = labels_of(self.member)
        counted = {"accuracy": self.member.train, "sensitivity": labels[1] if len(labels) > 1 else math.nan}
        rows = counted[metric] if metric in SHARES else math.nan
        if math.isnan(rows):
            held_out = self.member.train / self.bench.method.folds
            return interval_over_folds(by_fold, level, held_out / coming if coming else 0.0)
        differs = ~np.isnan(by_fold) & (np.array(specs) != ALONE)
        return interval_of_shares(there[differs], alone[differs], known, rows, level, coming)

    def _by_row(self, specs: Sequence[str]) -> np.ndarray | None:
        """[row] what each gained over training alone; None where rows are not known one by one."""
        clients = self.bench.setup.clients
        units = clients[self.client].units if clients else None
        if units is not None and len(np.unique(units)) < len(units):
            return None  # several rows of one patient are no rows of their own
        found: dict[bool, list[Sequence[float]]] = {False: [], True: []}
        for fold, spec in zip(self.folds, specs, strict=True):
            for there in (False, True):
                rows = self.trials[Place(*fold, spec if there else ALONE)].rows
                if len(rows) <= self.client:
                    return None
                found[there].append(rows[self.client])
        return gain_by_row(found[True], found[False], self.bench.metric, self.bench.higher)
