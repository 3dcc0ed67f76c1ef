"""What differs between the seeds of a comparison, and so what the interval over them covers.

    splits     every seed deals the same rows anew to training and testing: Student's t, corrected for the
               rows that splits share (Nadeau and Bengio, 2003; `metrics/summary.py`)
    dealing    a published test set, dealt to clients anew with the training rows: Student's t; test rows are
               the same as a whole, so other test rows are a matter of their own (below)
    training   the same clients with the same rows: Student's t; other test rows likewise

Clients given in Python may be others for every seed. Where they come from is not known, so they are taken for
splits: too careful if each seed drew data of its own.

A gain over training alone also has bounds for which test rows there happened to be (`metrics/bootstrap.py`).
Where seeds have the same test rows, a row's outcomes are averaged over seeds before rows are drawn. Where
each seed has others, every seed has bounds of its own and their mean is given, as if all had the same rows:
too wide rather than too narrow. Of several splits of the same rows there are none, for their interval over
seeds covers rows already.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from coterie.core.seeds import Key
from coterie.metrics.bootstrap import Outcomes, bounds_by_client, bounds_of_mean, differences
from coterie.metrics.table import BY_ROW, METRICS
from coterie.runs.record import Record
from coterie.show.words import Saying, said

Kind = Literal["splits", "dealing", "training"]
KEPT = 256  # comparisons whose bounds are kept: table, page and sentences ask for the same


def kind_of(records: Sequence[Record]) -> Kind:
    """Rows are the same for all seeds if they look the same, or were dealt by one seed for all (`deal`)."""
    rows = {r.about.get("rows", "") for r in records}
    same = len(rows) == 1 and rows != {""}
    if not same and all(r.about["clients"] == records[0].about["clients"] for r in records):
        told = {(r.config.get("deal"), r.config.get("data")) for r in records}
        if all(deal not in (None, "") for deal, _ in told):
            same = len(told) == 1
        else:  # runs of earlier versions do not say what their rows look like
            same = rows == {""} and all("given" in r.config for r in records)
    if same:
        return "training"
    return "dealing" if all(r.about.get("published_tests") for r in records) else "splits"


def overlaps(runs: Sequence[Record]) -> np.ndarray:
    """n_test / n_train of each client [client], over all seeds; 0 where seeds do not share rows by splitting
    them anew. Rows for validation count as training rows: it is the share of test rows that matters.
    """
    if len(runs) < 2 or kind_of(runs) != "splits":
        return np.zeros(len(runs[0].clients))
    return _ratio(*_sizes(runs))


def overlap(runs: Sequence[Record], among: np.ndarray) -> float:
    """The same for a mean over some clients [client]: of all their rows together."""
    if len(runs) < 2 or kind_of(runs) != "splits" or not among.any():
        return 0.0
    tests, others = (rows[among].sum(keepdims=True) for rows in _sizes(runs))
    return float(_ratio(tests, others)[0])


def _sizes(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """[client] test rows, and all others, summed over seeds."""
    parts = ("test", "train", "validation")
    found = np.array([[[int(c.get(p) or 0) for p in parts] for c in r.about["clients"]] for r in runs])
    tests, train, validation = found.sum(axis=0).T
    return tests, train + validation


def _ratio(tests: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Without rows to train on there is no spread to go by: infinite."""
    return np.asarray(np.divide(tests, others, out=np.full(len(tests), np.inf), where=others > 0))


def covers(records: Sequence[Record]) -> Saying:
    """What the interval over seeds is, what it can tell of, and what not."""
    most = max(Counter(r.label for r in records).values())
    return said(f"covers.{kind_of(records)}", n=most)


def over(records: Sequence[Record]) -> Saying:
    """What the interval over seeds is taken over."""
    return said(f"covers.over.{kind_of(records)}")


class _Bounds(NamedTuple):
    """Between which gains lie, over rows, NaN where that is not known: [low, high] of the mean over clients,
    and of each client [low and high, client].
    """

    mean: np.ndarray
    each: np.ndarray


def _unknown(clients: int) -> _Bounds:
    return _Bounds(np.full(2, math.nan), np.full((2, clients), math.nan))


_known: dict[tuple[object, ...], tuple[list[weakref.ref[Record]], _Bounds]] = {}


def bounds_of(pairs: Sequence[tuple[Record, Record]], metric: str, among: np.ndarray) -> _Bounds:
    """Of runs and training alone, a pair for each seed; the mean is over `among` [client]."""
    nothing, records = _unknown(len(among)), [r for pair in pairs for r in pair]
    if metric not in BY_ROW or not pairs:
        return nothing
    kind = kind_of(records)
    if kind == "splits" and len(pairs) > 1:
        return nothing
    mark = (*map(id, records), metric, among.tobytes())
    refs, found = _known.get(mark, ([], nothing))
    if refs and all(ref() is record for ref, record in zip(refs, records, strict=True)):
        return found
    came = list[tuple[Outcomes, Outcomes]]()  # what came of each row in both runs
    for pair in pairs:
        ours, theirs = (r.of("outcomes") for r in pair)
        alike = pair[0].about.get("rows", "") == pair[1].about.get("rows", "") != ""
        if ours is None or theirs is None or not alike:
            return nothing
        came.append((ours, theirs))
    each = [came] if kind == "training" else [[both] for both in came]
    keys = [Key(int(run.config.get("seed", 0))).at("rows") for run, _ in pairs]
    some = [_bounds(part, metric, among, key) for part, key in zip(each, keys, strict=False)]
    found = _Bounds(*(np.mean(np.stack(parts), axis=0) for parts in zip(*some, strict=True)))
    if len(_known) == KEPT:
        _known.clear()
    _known[mark] = ([weakref.ref(r) for r in records], found)
    return found


def _bounds(runs: Sequence[tuple[Outcomes, Outcomes]], metric: str, among: np.ndarray, key: Key) -> _Bounds:
    """Of seeds with the same rows."""
    sizes = np.stack([o.sizes for both in runs for o in both])
    # of one row the spread is not known, and who was not scored in all runs is not compared
    clients = (sizes > 1).all(axis=0) & (sizes == sizes[0]).all(axis=0)
    found = _unknown(len(among))
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
