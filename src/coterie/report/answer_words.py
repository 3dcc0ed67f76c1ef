"""How answers put figures into words: a gain with its interval, a level in its unit."""

from __future__ import annotations

import math

from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.report import words
from coterie.runs.answers import Advice, Answer


def other_class(advice: Advice, answer: Answer) -> str:
    """That another class of models matters more than partners, where it does."""
    trees = answer.trees
    if trees is None or not trees.bounds[0] > 0:
        return ""
    partners = max((g.mean for g in answer.gains.values() if not math.isnan(g.mean)), default=0.0)
    if trees.mean <= partners:
        return ""
    return (
        "Model: another class of models matters more than partners here: with boosted trees of your own "
        f"rows alone, {changed(trees, advice.metric)}."
    )


def changed(found: Interval, metric: str) -> str:
    """accuracy rises by 3.1 points (95 % interval −0.4 to 6.6)"""
    name, higher = words.called(metric), METRICS[metric].higher
    if not float(words.figure(abs(found.mean), metric).replace("\u202f", "") or 0):
        return f"{name} stays as it is{between(found, metric)}"
    way = "rises" if (found.mean > 0) == higher else "falls"
    return f"{name} {way} by {size(abs(found.mean), metric)}{between(found, metric)}"


def between(found: Interval, metric: str) -> str:
    """The interval, as of a gain: above 0 is better."""
    if not (ends := ends_of(found, metric)):
        return " (no interval: all parts say the same)" if found.seeds > 1 else ""
    better = "" if METRICS[metric].higher else ", above 0 is better"
    return f" (95 % interval {ends[0]} to {ends[1]}{better})"


def ends_of(found: Interval, metric: str) -> list[str]:
    """Of an interval, as of a gain; nothing where there is none."""
    low, high = found.bounds
    if math.isnan(low):
        return []
    like = found.mean or (high - low) / 2
    return [words.figure(end, metric, sign=True, like=like) for end in (low, high)]


def in_brackets(found: Interval, metric: str) -> str:
    """+3.1 [−0.4 to +6.6]"""
    if math.isnan(found.mean):
        return words.NONE
    return (
        f"{words.figure(found.mean, metric, sign=True)} [{' to '.join(ends_of(found, metric)) or words.NONE}]"
    )


def size(value: float, metric: str) -> str:
    text = words.figure(value, metric)
    return f"{text} point{'' if text == '1.0' else 's'}" if words.in_percent(metric) else text


def amount(value: float, metric: str) -> str:
    return f"{words.called(metric)} {figure_of(value, metric)}"


def figure_of(value: float, metric: str) -> str:
    return words.figure(value, metric) + (" %" if words.in_percent(metric) else "")


def called(spec: str) -> str:
    return "alone" if spec == ALONE else spec
