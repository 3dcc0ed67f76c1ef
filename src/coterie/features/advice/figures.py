"""How answers put figures into words: a gain with its interval, a level in its unit."""

from __future__ import annotations

import math

from coterie.features.advice.answers import Advice, Answer
from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.show import numbers
from coterie.show.words import Figure, said


def other_class(advice: Advice, answer: Answer) -> str:
    """That another class of models matters more than partners, where it does."""
    trees = answer.trees
    if trees is None or not trees.bounds[0] > 0:
        return ""
    partners = max((g.mean for g in answer.gains.values() if not math.isnan(g.mean)), default=0.0)
    if trees.mean <= partners:
        return ""
    return said("advise.trees", change=changed(trees, advice.metric))


def changed(found: Interval, metric: str) -> str:
    """accuracy rises by 3.1 points (95 % interval −0.4 to 6.6)"""
    blanks = {"metric": numbers.called(metric), "between": between(found, metric)}
    if not float(numbers.figure(abs(found.mean), metric).replace("\u202f", "") or 0):
        return said("advise.change.same", **blanks)
    way = "rises" if (found.mean > 0) == METRICS[metric].higher else "falls"
    return said(f"advise.change.{way}", size=_size(abs(found.mean), metric), **blanks)


def between(found: Interval, metric: str) -> str:
    """The interval, as of a gain: above 0 is better."""
    if not (ends := _ends_of(found, metric)):
        return said("advise.no_interval") if found.seeds > 1 else ""
    return said(
        "advise.between" if METRICS[metric].higher else "advise.between_better", low=ends[0], high=ends[1]
    )


def _ends_of(found: Interval, metric: str) -> list[Figure]:
    """Of an interval, as of a gain; nothing where there is none."""
    low, high = found.bounds
    if math.isnan(low):
        return []
    like = found.mean or (high - low) / 2
    return [numbers.figure(end, metric, sign=True, like=like) for end in (low, high)]


def in_brackets(found: Interval, metric: str) -> str:
    """+3.1 [−0.4 to +6.6]"""
    if math.isnan(found.mean):
        return numbers.NONE
    mean, ends = numbers.figure(found.mean, metric, sign=True), _ends_of(found, metric)
    around = said("outcome.bounds", low=ends[0], high=ends[1]) if ends else f" [{numbers.NONE}]"
    return said("list.joined", one=mean, other=around)


def _size(value: float, metric: str) -> str:
    text = numbers.figure(value, metric)
    points = f"difference.points.{'one' if text == '1.0' else 'many'}"
    return said(points, n=text) if numbers.in_percent(metric) else text


def amount(value: float, metric: str) -> str:
    return said("advise.amount", metric=numbers.called(metric), value=figure_of(value, metric))


def figure_of(value: float, metric: str) -> Figure:
    return Figure(numbers.figure(value, metric) + (" %" if numbers.in_percent(metric) else ""))


def called(spec: str) -> str:
    return said("learn.alone") if spec == ALONE else spec
