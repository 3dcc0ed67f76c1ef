"""What runs spent, as plain numbers, in the summary and in a file of its own.

spent at a round    by all clients together, up to its end (`hook.py`); the mean over seeds
equal cost          the smallest total that any run of the comparison came to, of those that spent any
within it           the figure after the last scored round that had spent no more
best within it      of all scored rounds up to there; chosen on test rows, so it flatters
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.metrics.summary import Interval, means_of_known, worst
from coterie.runs.budget import KINDS, read_budget
from coterie.runs.record import Record
from coterie.show import views

if TYPE_CHECKING:
    import pandas as pd


def counted(records: Sequence[Record]) -> list[str]:
    """The kinds of cost that every run knows, of which any spent something."""
    totals = [total(r) for r in records]
    return [k for k in KINDS if all(k in t for t in totals) and any(t[k] for t in totals)]


def total(record: Record) -> dict[str, float]:
    """What a run has spent in all, by kind."""
    return {kind: float(spent[-1]) for kind, spent in record.spent().items() if len(spent)}


def mean_total(runs: Sequence[Record], kind: str) -> float:
    """Of a whole run, the mean over seeds; NaN where it was not counted."""
    return float(np.mean([total(r).get(kind, math.nan) for r in runs]))


def budgeted(records: Sequence[Record]) -> list[str]:
    """The kinds that any run had a budget of, as far as they were counted."""
    given = {kind for r in records for kind in read_budget(r.settings.budget)}
    return [kind for kind in counted(records) if kind in given]


class Within(NamedTuple):
    """Of a method: its figure within some cost, and the best until then."""

    last: Interval
    best: Interval


def smallest(records: Sequence[Record], kind: str) -> float:
    """The smallest total of those that spent any."""
    return min((t for t in (total(r)[kind] for r in records) if t > 0), default=0.0)


def within(runs: Sequence[Record], kind: str, most: float) -> Within:
    """The mean over clients within a cost, over seeds."""
    metric = views.headline_metric(runs)
    pick = max if views.better_higher(runs)[metric] else min
    last, best = list[float](), list[float]()
    for record in runs:
        rounds, values = views.figures(record, metric)
        cost = dict(zip((m["round"] for m in record.metrics), record.spent()[kind], strict=True))
        found = [v for r, v in zip(rounds, means_of_known(values), strict=True) if cost[r] <= most]
        known = [float(v) for v in found if math.isfinite(v)]
        last.append(known[-1] if known else math.nan)
        best.append(pick(known) if known else math.nan)
    return Within(views.over_splits(runs, last), views.over_splits(runs, best))


def costs_frame(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each run and round: what was spent up to its end by kind, and the headline figure if it was
    scored: the mean over clients and the worst client's.
    """
    import pandas as pd

    metric = views.headline_metric(records)
    higher, parts = views.better_higher(records)[metric], []
    for label, runs in views.groups(records).items():
        for record in runs:
            spent, rounds = record.spent(), [m["round"] for m in record.metrics]
            known, values = views.figures(record, metric)
            mean = dict(zip(known, means_of_known(values), strict=True))
            least = {r: worst(list(row), higher) for r, row in zip(known, values, strict=True)}
            made: dict[str, Any] = {"label": label, "seed": views.seed(record), "round": rounds}
            made |= {kind: spent.get(kind, math.nan) for kind in KINDS}
            made[metric] = [mean.get(r, math.nan) for r in rounds]
            made[f"worst_{metric}"] = [least.get(r, math.nan) for r in rounds]
            parts.append(pd.DataFrame(made))
    return pd.concat(parts, ignore_index=True)


COLUMNS = {"steps": partial(mean_total, kind="steps"), "kwh": partial(mean_total, kind="kwh")}
FRAMES = {"costs.csv": costs_frame}
