"""Gains over training alone, and which test rows there happened to be (`metrics/bootstrap.py`).

Where seeds have the same test rows, a row's outcomes are averaged over seeds before rows are drawn. Where
each seed has others, every seed has bounds of its own and their mean is given, as if all had the same rows:
too wide rather than too narrow. Of several splits of the same rows there are none, for their interval over
seeds covers rows already.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.core.seeds import Key
from coterie.metrics.bootstrap import Outcomes, bounds_by_client, bounds_of_mean, differences
from coterie.metrics.table import BY_ROW, METRICS
from coterie.report.kinds import kind_of
from coterie.runs.record import Record

Pair = tuple[Record, Record]
KEPT = 256  # comparisons whose bounds are kept: table, page and sentences ask for the same


class Bounds(NamedTuple):
    """Between which gains lie, over rows, NaN where that is not known: [low, high] of the mean over clients,
    and of each client [low and high, client].
    """

    mean: np.ndarray
    each: np.ndarray


def unknown(clients: int) -> Bounds:
    return Bounds(np.full(2, math.nan), np.full((2, clients), math.nan))


_known: dict[tuple[object, ...], tuple[list[weakref.ref[Record]], Bounds]] = {}


def bounds_of(pairs: Sequence[Pair], metric: str, among: np.ndarray) -> Bounds:
    """Of runs and training alone, a pair for each seed; the mean is over `among` [client]."""
    nothing, records = unknown(len(among)), [r for pair in pairs for r in pair]
    if metric not in BY_ROW or not pairs:
        return nothing
    kind = kind_of(records)
    if kind == "splits" and len(pairs) > 1:
        return nothing
    mark = (*map(id, records), metric, among.tobytes())
    refs, found = _known.get(mark, ([], nothing))
    if refs and all(ref() is record for ref, record in zip(refs, records, strict=True)):
        return found
    came = [_both(pair) for pair in pairs]
    if any(both is None for both in came):
        return nothing
    each = [came] if kind == "training" else [[both] for both in came]
    some = [_bounds(part, metric, among, Key(_seed(pairs[i][0])).at("rows")) for i, part in enumerate(each)]
    found = Bounds(*(np.mean(np.stack(parts), axis=0) for parts in zip(*some, strict=True)))
    if len(_known) == KEPT:
        _known.clear()
    _known[mark] = ([weakref.ref(r) for r in records], found)
    return found


def _both(pair: Pair) -> tuple[Outcomes, Outcomes] | None:
    """What came of each row in both runs, if that was kept and they have the same rows."""
    ours, theirs = (r.outcomes() for r in pair)
    alike = pair[0].about.get("rows", "") == pair[1].about.get("rows", "") != ""
    return (ours, theirs) if ours is not None and theirs is not None and alike else None


def _bounds(
    came: Sequence[tuple[Outcomes, Outcomes] | None], metric: str, among: np.ndarray, key: Key
) -> Bounds:
    """Of seeds with the same rows."""
    runs = [both for both in came if both is not None]
    sizes = np.stack([o.sizes for both in runs for o in both])
    # of one row the spread is not known, and who was not scored in all runs is not compared
    clients = (sizes > 1).all(axis=0) & (sizes == sizes[0]).all(axis=0)
    found = unknown(len(among))
    if clients.any():
        ours, theirs = (np.stack([both[i].only(clients) for both in runs]) for i in (0, 1))
        if not METRICS[metric].higher:
            ours, theirs = theirs, ours
        tested, figure = sizes[0][clients], BY_ROW[metric]
        draws = differences(ours, theirs, tested, figure, key.numpy())
        found.each[:, clients] = bounds_by_client(draws, tested, figure)
        if among.any() and clients[among].all():
            some = among[clients]
            found.mean[:] = bounds_of_mean(draws[:, some], tested[some], figure)
    return found


def _seed(record: Record) -> int:
    return int(record.config.get("seed", 0))
