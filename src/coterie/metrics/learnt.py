"""Is there anything to learn here? What models have against always saying the same, and whether chance would
bring as much (`evidence.py`).

    yes       a model is better by its proper measure, and by more than chance brings
    partly    it is not, but it is right more often, or tells classes apart: its probabilities are no better
    no        neither
    unknown   what always the same answer has is not known
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from coterie.metrics.evidence import ALSO, PROPER, Held, enough, nats
from coterie.metrics.summary import means_of_known
from coterie.metrics.table import METRICS

Verdict = Literal["yes", "partly", "no", "unknown"]


class Figures(NamedTuple):
    """A way's, and those of always the same on the same rows: by measure, [seed, client] each."""

    model: Mapping[str, np.ndarray]
    same: Mapping[str, np.ndarray]


class Shown(NamedTuple):
    """By one measure: the means of a way and of always the same, and how much rows speak for the way."""

    way: str
    metric: str
    model: float
    same: float
    nats: float

    @property
    def better(self) -> bool:
        return self.model > self.same if METRICS[self.metric].higher else self.model < self.same


class Learnt(NamedTuple):
    """`by` is what the answer rests on; `beside`, of a way that learns partly, what its log loss is; `first`
    what the way that is looked at first has by the same measure, where that is not it.
    """

    verdict: Verdict
    by: Shown | None = None
    beside: Shown | None = None
    first: Shown | None = None


UNKNOWN = Learnt("unknown")


def learnt(task: str, ways: Mapping[str, Figures], held: Sequence[Sequence[Held]], first: str = "") -> Learnt:
    """Of figures by way, on rows `held` [seed][client]. Where the way named `first` learns anything, the
    answer is of it; else of the best of the others.
    """
    asked = (PROPER[task], *ALSO.get(task, ()))
    found = {(way, m): s for way, of in ways.items() for m in asked if (s := _shown(way, m, of, held))}
    metrics = [m for m in asked if any(m == metric for _, metric in found)]
    if not metrics:
        return UNKNOWN
    for some in ([first] if first in ways else [], list(ways)):  # one look first, then at all of them
        for metric in metrics:
            each = [found[way, metric] for way in some if (way, metric) in found]
            clear = [s for s in each if s.better and s.nats > enough(len(some) * len(metrics))]
            if clear:
                best = max(clear, key=lambda s: s.nats)
                bold = found.get((best.way, PROPER[task])) if metric != PROPER[task] else None
                alone = found.get((first, metric)) if best.way != first else None
                return Learnt("partly" if bold else "yes", best, bold, alone)
    sign = 1 if METRICS[metrics[0]].higher else -1
    nearest = max((s for (_, m), s in found.items() if m == metrics[0]), key=lambda s: sign * s.model)
    return Learnt("no", nearest)


def _shown(way: str, metric: str, of: Figures, held: Sequence[Sequence[Held]]) -> Shown | None:
    """None where either side has no figure."""
    if metric not in of.model or metric not in of.same:
        return None
    both = np.isfinite(of.model[metric]) & np.isfinite(of.same[metric])
    model, same = (np.where(both, side[metric], math.nan) for side in (of.model, of.same))
    each = [nats(metric, m, s, rows) for m, s, rows in zip(model, same, held, strict=True)]
    known = [value for value in each if not math.isnan(value)]
    if not known:
        return None
    level, other = (float(np.nanmean(means_of_known(side))) for side in (model, same))
    return Shown(way, metric, level, other, float(np.mean(known)))
