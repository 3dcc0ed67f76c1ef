"""What there is to see in records: final figures, curves, bars, gains and matrices, as plain arrays.

Tables, page and figures all start here, so that no number is worked out in two ways.

    own figure      of a client's own model on its own test data, after the last scored round
    mean            over clients, each counting once; then over seeds
    interval        95 %, Student's t over seeds; none for a single seed
    gain            over training alone (`local`), paired by client and seed; above zero is better
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from coterie.core.errors import BadInput
from coterie.metrics.summary import HEADLINE, HIGHER_IS_BETTER, Interval, interval, mean_over_clients
from coterie.runs.measures import MEASURES
from coterie.runs.record import Record

Groups = Mapping[str, Sequence[Record]]
T = TypeVar("T")

OWN = "own/test"
TRAIN = "own/train"
MEASURED = "measured"
METRICS = {
    "classification": ("accuracy", "ece", "nll", "brier", "balanced_accuracy", "auc", "loss"),
    "regression": ("rmse", "r2", "loss"),
}


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs by label, in the order given, each by seed; refuses what cannot stand in one table."""
    if not records:
        raise BadInput("nothing to report: give at least one run")
    first, made = records[0], dict[str, list[Record]]()
    for record in records:
        if task(record) != task(first):
            raise BadInput(
                f"{first.label!r} is a {task(first)}, {record.label!r} a {task(record)}: report them apart"
            )
        if record.clients != first.clients:
            raise BadInput(
                f"{first.label!r} and {record.label!r} ran on different clients: report them apart"
            )
        made.setdefault(record.label, []).append(record)
    for label, runs in made.items():
        runs.sort(key=seed)
        seeds = [seed(r) for r in runs]
        twice = next((s for s in seeds if seeds.count(s) > 1), None)
        if twice is not None:
            raise BadInput(
                f"{label!r} is there {seeds.count(twice)} times with seed {twice}: leave one out, or label "
                "them differently"
            )
    return made


def task(record: Record) -> str:
    return str(record.about.get("task", "classification"))


def seed(record: Record) -> int:
    return int(record.config.get("seed", 0))


def method(record: Record) -> str:
    return str(record.config.get("method", record.label))


def baseline(by_label: Groups) -> str | None:
    """The label of training alone, if it was run."""
    return next((label for label, runs in by_label.items() if method(runs[0]) == "local"), None)


def headline_metric(records: Sequence[Record]) -> str:
    return HEADLINE[task(records[0])]


def metrics(records: Sequence[Record], scores: str = OWN) -> list[str]:
    """The metrics that any run has a figure of, the headline first."""
    known = MEASURES if scores == MEASURED else METRICS[task(records[0])]
    return [m for m in known if any(np.isfinite(figures(r, m, scores)[1]).any() for r in records)]


def shown(records: Sequence[Record], scores: str = OWN) -> list[str]:
    """The same without the loss where all have an NLL: it would be drawn twice."""
    found = metrics(records, scores)
    twice = "nll" in found and all(np.isfinite(figures(r, "nll", scores)[1]).any() for r in records)
    return [m for m in found if not (twice and m == "loss")]


def figures(record: Record, metric: str, scores: str = OWN) -> tuple[list[int], np.ndarray]:
    """Rounds that have some, and figures [round, client], NaN where there is none."""
    if scores == TRAIN:
        tables = [(m["round"], m["train_loss"]) for m in record.metrics]
    elif scores == MEASURED:  # runs of earlier versions measured nothing
        tables = [(m["round"], m.get("measures", {}).get(metric)) for m in record.metrics]
    else:
        # a run may lack a split or a metric altogether
        tables = [(m["round"], m["scores"].get(scores, {}).get(metric)) for m in record.evaluated()]
    lines = [(round, values) for round, values in tables if values is not None]
    values = [[math.nan if v is None else float(v) for v in row] for _, row in lines]
    return [int(round) for round, _ in lines], np.asarray(values).reshape(len(lines), len(record.clients))


def final(record: Record, metric: str, scores: str = OWN) -> np.ndarray:
    """Each client's last figure: [client], NaN before the first scored round.

    Of one that was away when models were scored last, an earlier round's.
    """
    if scores not in (TRAIN, MEASURED):
        return np.asarray(record.final(metric, scores), dtype=float)
    rounds, values = figures(record, metric, scores)
    return values[-1] if rounds else np.full(len(record.clients), math.nan)


def over_seeds(runs: Sequence[Record], metric: str, scores: str = OWN) -> Interval:
    """Mean over clients, then over seeds."""
    return interval([mean_over_clients(list(final(r, metric, scores))) for r in runs])


@dataclass(frozen=True, eq=False)
class Curve:
    """A method by round: mean, and a band [low, high] that is NaN where there is none."""

    label: str
    rounds: list[int]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: list[int]


Band = Literal["seeds", "clients"]


def band_kind(by_label: Groups) -> Band:
    """What bands show: the interval over seeds, or the middle half of the clients if each method has one."""
    return "seeds" if any(len(runs) > 1 for runs in by_label.values()) else "clients"


def curve(label: str, runs: Sequence[Record], band: Band, metric: str, scores: str = OWN) -> Curve:
    """Means by round over the seeds that have it; rounds without any figure are left out."""
    found: dict[int, list[np.ndarray]] = {}
    for record in runs:
        for round, values in zip(*figures(record, metric, scores), strict=True):
            if np.isfinite(values).any():
                found.setdefault(round, []).append(values)
    rounds, rows = sorted(found), list[tuple[float, float, float]]()
    for round in rounds:
        spread = interval([mean_over_clients(list(values)) for values in found[round]])
        low, high = spread.mean - spread.half, spread.mean + spread.half
        if band == "clients":
            low, high = np.quantile(found[round][0][np.isfinite(found[round][0])], [0.25, 0.75])
        rows.append((spread.mean, low, high))
    mean, low_, high_ = np.asarray(rows, dtype=float).reshape(-1, 3).T
    return Curve(label, rounds, mean, low_, high_, [len(found[r]) for r in rounds])


@dataclass(frozen=True, eq=False)
class Bars:
    """A method by client: mean over seeds, and half its interval, NaN for one seed."""

    label: str
    mean: np.ndarray
    half: np.ndarray


def bars(label: str, runs: Sequence[Record], metric: str, scores: str = OWN) -> Bars:
    """Each client's final figure."""
    return _bars(label, np.stack([final(r, metric, scores) for r in runs]))


def gain_bars(label: str, runs: Sequence[Record], alone: Sequence[Record], metric: str) -> Bars:
    """Each client's gain over training alone."""
    return _bars(label, gains(runs, alone, metric))


def gains(runs: Sequence[Record], alone: Sequence[Record], metric: str) -> np.ndarray:
    """Differences to training alone on the same seeds, above zero if better: [seed, client]."""
    base = {seed(r): r for r in alone}
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    pairs = [(r, base[seed(r)]) for r in runs if seed(r) in base]
    rows = [sign * (final(r, metric) - final(b, metric)) for r, b in pairs]
    return np.stack(rows) if rows else np.full((1, len(runs[0].clients)), math.nan)


def gain_over_seeds(runs: Sequence[Record], alone: Sequence[Record], metric: str) -> Interval:
    """The mean gain over clients, then over the seeds both have."""
    return interval([mean_over_clients(row) for row in gains(runs, alone, metric)])


def _bars(label: str, values: np.ndarray) -> Bars:
    spread = [interval(column) for column in values.T]
    return Bars(label, np.array([s.mean for s in spread]), np.array([s.half for s in spread]))


@dataclass(frozen=True, eq=False)
class Matrices:
    """Who listened to whom in one run: [frame, receiver, sender], for some of its rounds.

    `edges` are the places between the names where one group of clients ends and the next begins.
    """

    label: str
    seed: int
    rounds: list[int]
    of_rounds: int
    values: np.ndarray
    names: list[str]
    edges: list[float]


def matrices(
    label: str, runs: Sequence[Record], order: Sequence[int], frames: int = 1, side: int = 10**9
) -> Matrices | None:
    """The first seed's weights, clients in this order: at most `frames`, evenly chosen, and the last."""
    record = next((r for r in runs if r.weights), None)
    if record is None:
        return None
    chosen = thin(sorted(record.weights), frames)
    values = np.stack([np.asarray(record.weights[round], dtype=float) for round in chosen])
    return _drawn(label, record, chosen, values, order, side)


def collected(label: str, runs: Sequence[Record], order: Sequence[int], side: int = 10**9) -> Matrices | None:
    """In how many rounds, of all of the first seed, each gave each other a weight above 0: one frame."""
    record = next((r for r in runs if r.weights), None)
    if record is None:
        return None
    rounds = sorted(record.weights)
    times = record.collected()
    np.fill_diagonal(times, math.nan)
    return _drawn(label, record, rounds, times[None], order, side)


def _drawn(
    label: str, record: Record, rounds: list[int], values: np.ndarray, order: Sequence[int], side: int
) -> Matrices:
    """Clients in this order; more than `side` as means of neighbours, so that a thousand fit on a screen."""
    step = math.ceil(len(order) / side)
    starts = range(0, len(order), step)
    blocks = [order[i : i + step] for i in starts]
    values = values[:, order][:, :, order]
    if step > 1:  # means of what is known
        known = np.isfinite(values)
        total, count = (
            np.add.reduceat(np.add.reduceat(part, starts, axis=1), starts, axis=2)
            for part in (np.where(known, values, 0.0), known.astype(float))
        )
        values = np.divide(total, count, out=np.full(total.shape, math.nan), where=count > 0)
    names = [" … ".join(dict.fromkeys((record.clients[b[0]], record.clients[b[-1]]))) for b in blocks]
    group = [record.about["clients"][i].get("cluster") for i in order]
    borders = [i for i in range(1, len(group)) if None not in group and group[i] != group[i - 1]]
    edges = [i / step - 0.5 for i in borders]
    return Matrices(label, seed(record), rounds, len(record.weights), values, names, edges)


def client_order(record: Record) -> list[int]:
    """Clients by the group that a split put them in, if it did; otherwise as given."""
    clusters = [c.get("cluster") for c in record.about["clients"]]
    if any(c is None for c in clusters):
        return list(range(len(clusters)))
    return sorted(range(len(clusters)), key=lambda i: clusters[i])


def thin(items: Sequence[T], limit: int) -> list[T]:
    """At most `limit` of the items, evenly chosen, the last always among them."""
    if len(items) <= limit:
        return list(items)
    if limit == 1:
        return [items[-1]]
    places = np.linspace(0, len(items) - 1, limit).round().astype(int)
    return [items[i] for i in np.unique(places)]


def sizes(record: Record) -> dict[str, list[int]]:
    """Samples of each client by split; validation only where somebody has it."""
    clients = record.about["clients"]
    made = {split: [int(c.get(split) or 0) for c in clients] for split in ("train", "validation", "test")}
    return {split: counts for split, counts in made.items() if split != "validation" or any(counts)}


def labels(record: Record) -> tuple[list[str], dict[str, np.ndarray]] | None:
    """Class names, and counts [class, client] by split; None where targets are numbers."""
    tables: list[Any] = [c.get("labels") for c in record.about["clients"]]
    if not tables or any(t is None for t in tables):
        return None
    names = [str(c) for c in record.about.get("classes") or ()]
    width = max(len(names), *(len(row) for table in tables for row in table))
    counts = np.array(
        [[list(row) + [0] * (width - len(row)) for row in table] for table in tables], dtype=int
    )
    names += [str(i) for i in range(len(names), width)]
    by_split = {s: counts[:, i, :].T for i, s in enumerate(("train", "validation", "test"))}
    return names, {s: c for s, c in by_split.items() if s != "validation" or c.any()}
