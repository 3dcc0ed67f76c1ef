"""What differs between the seeds of a comparison, and so what the interval over them covers.

    splits     every seed deals the same rows anew to training and testing: Student's t, corrected for the
               rows that splits share (Nadeau and Bengio, 2003; `metrics/summary.py`)
    dealing    a published test set, dealt to clients anew with the training rows: Student's t; test rows are
               the same as a whole, so other test rows are a matter of their own (`report/rows.py`)
    training   the same clients with the same rows: Student's t; other test rows likewise

Clients given in Python may be others for every seed. Where they come from is not known, so they are taken for
splits: too careful if each seed drew data of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from coterie.runs.record import Record

Kind = Literal["splits", "dealing", "training"]


class Covers(NamedTuple):
    """What an interval is taken over, and what it can tell of."""

    over: str
    what: str


COVERS = {
    "splits": Covers(
        "splits of the same rows, corrected for the rows they share",
        "which rows were trained and tested on, and how models were trained",
    ),
    "dealing": Covers(
        "seeds that share test rows", "how rows were dealt and models trained, not other test rows"
    ),
    "training": Covers("seeds on the same rows", "how models were trained, not other test rows"),
}


def kind_of(records: Sequence[Record]) -> Kind:
    if same_rows(records):
        return "training"
    return "dealing" if all(r.about.get("published_tests") for r in records) else "splits"


def same_rows(records: Sequence[Record]) -> bool:
    """Whether all seeds are trained and tested on the same rows: these look the same, or were dealt by one
    seed for all (`deal`).
    """
    rows = {r.about.get("rows", "") for r in records}
    if len(rows) == 1 and rows != {""}:
        return True
    told = [(r.config.get("deal"), r.config.get("data")) for r in records]
    if all(deal not in (None, "") for deal, _ in told):
        return len(set(told)) == 1 and _alike(records)
    # runs of earlier versions do not say what their rows look like
    return rows == {""} and all("given" in r.config for r in records) and _alike(records)


def _alike(records: Sequence[Record]) -> bool:
    return all(r.about["clients"] == records[0].about["clients"] for r in records)


def overlaps(runs: Sequence[Record]) -> np.ndarray:
    """n_test / n_train of each client [client], over all seeds; 0 where seeds do not share rows by splitting
    them anew. Rows for validation count as training rows: it is the share of test rows that matters.
    """
    if not _splits(runs):
        return np.zeros(len(runs[0].clients))
    return _ratio(*_sizes(runs))


def overlap(runs: Sequence[Record], among: np.ndarray) -> float:
    """The same for a mean over some clients [client]: of all their rows together."""
    if not _splits(runs) or not among.any():
        return 0.0
    tests, others = (rows[among].sum(keepdims=True) for rows in _sizes(runs))
    return float(_ratio(tests, others)[0])


def _splits(runs: Sequence[Record]) -> bool:
    return len(runs) > 1 and kind_of(runs) == "splits"


def _sizes(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """[client] test rows, and all others, summed over seeds."""
    parts = ("test", "train", "validation")
    found = np.array([[[int(c.get(p) or 0) for p in parts] for c in r.about["clients"]] for r in runs])
    tests, train, validation = found.sum(axis=0).T
    return tests, train + validation


def _ratio(tests: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Without rows to train on there is no spread to go by: infinite."""
    return np.asarray(np.divide(tests, others, out=np.full(len(tests), np.inf), where=others > 0))


def covers(records: Sequence[Record]) -> str:
    """What the interval over seeds is, what it can tell of, and what not."""
    most, found = max(Counter(r.label for r in records).values()), COVERS[kind_of(records)]
    return f"the 95 % interval over {most} {found.over}: it covers {found.what}"


def over(records: Sequence[Record]) -> str:
    """What the interval over seeds is taken over."""
    return f"over {COVERS[kind_of(records)].over}"
