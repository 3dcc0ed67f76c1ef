"""What there is to see in records: final figures, curves, bars, gains and matrices, as plain arrays.

Tables, page and figures all start here, so that no number is worked out in two ways.

    own figure      of a client's own model on its own test data, after the last scored round; who did not
                    ask for a model has none
    mean            over clients that have a figure, each counting once; then over seeds
    interval        95 %, over seeds, corrected where these split the same rows anew (`intervals.py`); none
                    for a single seed
    gain            over training alone (`local`), paired by client and seed; above zero is better. Where its
                    interval over seeds does not cover which test rows there are, it has bounds for that
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from coterie.core.client import EVENTS
from coterie.core.errors import BadInput
from coterie.core.partners import Partners
from coterie.methods import partners_of
from coterie.metrics.summary import Interval, interval, intervals, means_of_known, telling
from coterie.metrics.table import COLLABORATION, METRICS, headline, of_task
from coterie.runs.record import Record
from coterie.show.intervals import bounds_of, overlap, overlaps

Groups = Mapping[str, Sequence[Record]]
T = TypeVar("T")

OWN = "own/test"
TRAIN = "own/train"
MEASURED = "measured"


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs by label, in the order given, each by seed; refuses what cannot stand in one table."""
    if not records:
        raise BadInput("nothing to report: give at least one run")
    first, made = records[0], dict[str, list[Record]]()
    for record in records:
        ours, theirs = task(first), task(record)
        if theirs != ours:
            raise BadInput(f"{first.label!r} is a {ours}, {record.label!r} a {theirs}: report them apart")
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


def kinds(task: str, classes: Sequence[Any]) -> tuple[str, ...]:
    """What rows are counted by: their classes, or whether the event was seen; nothing for a regression."""
    return EVENTS if task == "survival" else tuple(map(str, classes))


def seed(record: Record) -> int:
    return int(record.config.get("seed", 0))


def method(record: Record) -> str:
    return str(record.config.get("method", record.label))


def partners(record: Record, client: int) -> Partners | None:
    """How a client's partners were chosen, as its method says: the run's, or the one that this client follows
    there; None where the method is not installed any more, or says nothing.
    """
    way = followed(record)
    return partners_of(way[client].partition(":")[0] if client < len(way) else method(record))


def followed(record: Record) -> Sequence[str]:
    """By client, the method that each follows, with its options; nothing where all follow the run's."""
    name = method(record)
    chooses = partners_of(name)
    option = chooses.follows if chooses is not None else ""
    return tuple(record.config.get(name, {}).get(option) or ()) if option else ()


def baseline(by_label: Groups) -> str | None:
    """The label of training alone, if it was run; of several the best, as the others are easily beaten."""
    alone = [label for label, runs in by_label.items() if method(runs[0]) == "local"]
    if len(alone) < 2:
        return alone[0] if alone else None
    metric = headline_metric(by_label[alone[0]])
    sign = 1 if METRICS[metric].higher else -1
    means = {label: sign * over_seeds(by_label[label], metric).mean for label in alone}
    return max(alone, key=lambda label: means[label] if math.isfinite(means[label]) else -math.inf)


def positive_name(records: Sequence[Record]) -> str:
    """The class that sensitivity, specificity and net benefit are of."""
    about = records[0].about
    return str(about["classes"][int(about.get("positive", 1))])


def headline_metric(records: Sequence[Record]) -> str:
    return headline(task(records[0]))


def own_metrics(records: Sequence[Record]) -> dict[str, bool]:
    """Metrics of somebody's own by name, and whether higher is better."""
    return {name: better == "higher" for r in records for name, better in r.config.get("metrics", {}).items()}


def better_higher(records: Sequence[Record]) -> dict[str, bool]:
    """Of every metric, whether higher is better."""
    return {name: metric.higher for name, metric in METRICS.items()} | own_metrics(records)


def metrics(records: Sequence[Record], scores: str = OWN) -> list[str]:
    """The metrics that any run has a figure of, the headline first and those of somebody's own last."""
    known = COLLABORATION if scores == MEASURED else (*of_task(task(records[0])), *own_metrics(records))
    return [m for m in known if any(has_figures(r, m, scores) for r in records)]


def metrics_to_show(records: Sequence[Record], scores: str = OWN) -> list[str]:
    """The same without the loss where all have an NLL, which it is: it would be drawn twice."""
    found = metrics(records, scores)
    same = not any("loss" in r.config for r in records)  # nobody brought a loss of their own
    twice = same and "nll" in found and all(has_figures(r, "nll", scores) for r in records)
    return [m for m in found if not (twice and m == "loss")]


def figures(record: Record, metric: str, scores: str = OWN) -> tuple[list[int], np.ndarray]:
    """Rounds that have some, and figures [round, client], NaN where there is none."""
    found = list(_lines(record, metric, scores))
    values = np.array([row for _, row in found], dtype=float)  # None becomes NaN
    return [int(round) for round, _ in found], values.reshape(len(found), len(record.clients))


def has_figures(record: Record, metric: str, scores: str = OWN) -> bool:
    """Whether any client has one in any round."""
    rows = (row for _, row in _lines(record, metric, scores))
    return any(value is not None and math.isfinite(value) for row in rows for value in row)


def _lines(record: Record, metric: str, scores: str = OWN) -> Iterator[tuple[int, Sequence[float | None]]]:
    """Rounds that have figures, with one for each client."""
    if scores == TRAIN:
        found = ((m["round"], m["train_loss"]) for m in record.metrics)
    elif scores == MEASURED:  # runs of earlier versions measured nothing
        found = ((m["round"], m.get("measures", {}).get(metric)) for m in record.metrics)
    else:
        # a run may lack a split or a metric altogether
        found = ((m["round"], m["scores"].get(scores, {}).get(metric)) for m in record.evaluated())
    return ((round, values) for round, values in found if values is not None)


def final(record: Record, metric: str, scores: str = OWN) -> np.ndarray:
    """Each client's last figure: [client], NaN before the first scored round.

    Of one that was away when models were scored last, an earlier round's.
    """
    if scores not in (TRAIN, MEASURED):
        return np.asarray(record.final(metric, scores), dtype=float)
    rounds, values = figures(record, metric, scores)
    return values[-1] if rounds else np.full(len(record.clients), math.nan)


def over_seeds(
    runs: Sequence[Record], metric: str, scores: str = OWN, among: np.ndarray | None = None
) -> Interval:
    """Mean over clients, or `among` some [client] of them, then over seeds."""
    values = _among(np.stack([final(r, metric, scores) for r in runs]), among)
    return telling(_over_seeds(runs, values))


def _over_seeds(runs: Sequence[Record], values: np.ndarray) -> Interval:
    """Of figures [seed, client] of these runs."""
    shared = overlap(runs, np.isfinite(values).any(axis=0))
    return interval(means_of_known(values), overlap=shared)


def over_splits(runs: Sequence[Record], values: Sequence[float]) -> Interval:
    """Of one figure a seed that all clients have a part in."""
    return telling(interval(values, overlap=overlap(runs, np.ones(len(runs[0].clients), dtype=bool))))


def _among(values: np.ndarray, some: np.ndarray | None) -> np.ndarray:
    """Figures [seed, client] of some clients, NaN for the others."""
    return values if some is None else np.where(some, values, math.nan)


def with_figure(runs: Sequence[Record], metric: str) -> np.ndarray:
    """[client] who has a figure of its own in any of these runs."""
    known: np.ndarray = np.isfinite(np.stack([final(r, metric) for r in runs])).any(axis=0)
    return known


def mean_traffic(runs: Sequence[Record]) -> dict[str, float]:
    """What passed in a whole run, and its seconds: the means over seeds."""
    traffic = [r.traffic() for r in runs]
    return {key: float(np.mean([t[key] for t in traffic])) for key in traffic[0]}


@dataclass(frozen=True, eq=False)
class Curve:
    """A method by round: mean, and a band [low, high] that is NaN where there is none."""

    label: str
    rounds: Sequence[float]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: list[int]


Band = Literal["seeds", "clients"]
Over = Callable[[np.ndarray], np.ndarray]


def band_kind(by_label: Groups) -> Band:
    """What bands show: the interval over seeds, or the middle half of the clients if each method has one."""
    return "seeds" if any(len(runs) > 1 for runs in by_label.values()) else "clients"


def curve(
    label: str,
    runs: Sequence[Record],
    band: Band,
    metric: str,
    scores: str = OWN,
    over: Over = means_of_known,
) -> Curve:
    """Means by round over the seeds that have it; rounds without any figure are left out. `over` makes one
    figure of those of all clients [round, client].
    """
    drawn = []  # of each run the rounds in which anybody has a figure
    for known, values in (figures(record, metric, scores) for record in runs):
        some = np.isfinite(values).any(axis=1)
        drawn.append(([known[i] for i in np.flatnonzero(some)], values[some]))
    rounds = sorted({round for known, _ in drawn for round in known})
    means = np.full((len(rounds), len(runs)), math.nan)
    seeds = np.zeros(len(rounds), dtype=int)
    for i, (known, values) in enumerate(drawn):
        places = np.searchsorted(rounds, known)
        means[places, i] = over(values)
        seeds[places] += 1
    scored = np.isfinite(np.concatenate([values for _, values in drawn])).any(axis=0)
    mean, half, _ = intervals(means, overlap=overlap(runs, scored))
    low, high = mean - half, mean + half
    if band == "clients":  # then there is one seed
        rows = [np.quantile(row[np.isfinite(row)], [0.25, 0.75]) for row in drawn[0][1]]
        low, high = np.array(rows).reshape(-1, 2).T
    return Curve(label, rounds, mean, low, high, seeds.tolist())


@dataclass(frozen=True, eq=False)
class Bars:
    """A method by client: mean over seeds, and half its interval, NaN for one seed or where all agree."""

    label: str
    mean: np.ndarray
    half: np.ndarray


def bars(label: str, runs: Sequence[Record], metric: str) -> Bars:
    """Each client's final figure."""
    return _bars(label, runs, np.stack([final(r, metric) for r in runs]))


def gain_bars(label: str, runs: Sequence[Record], alone: Sequence[Record], metric: str) -> Bars:
    """Each client's gain over training alone."""
    return _bars(label, runs, gains(runs, alone, metric))


def _bars(label: str, runs: Sequence[Record], values: np.ndarray) -> Bars:
    mean, half, _ = telling(intervals(values.T, overlap=overlaps(runs)))
    return Bars(label, mean, half)


def gains(runs: Sequence[Record], alone: Sequence[Record], metric: str) -> np.ndarray:
    """Differences to training alone on the same seeds, above zero if better: [seed, client]."""
    sign = 1 if better_higher(runs)[metric] else -1
    found = [sign * (final(r, metric) - final(b, metric)) for r, b in _pairs(runs, alone)]
    return np.stack(found) if found else np.full((1, len(runs[0].clients)), math.nan)


def _pairs(runs: Sequence[Record], alone: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Each run with that of training alone on the same seed, where there is one."""
    base = {seed(r): r for r in alone}
    return [(r, base[seed(r)]) for r in runs if seed(r) in base]


def gain_over_seeds(
    runs: Sequence[Record], alone: Sequence[Record], metric: str, among: np.ndarray | None = None
) -> Interval:
    """The mean gain over clients that have figures in both, then over the seeds both have."""
    values = _among(gains(runs, alone, metric), among)
    found = bounds_of(_pairs(runs, alone), metric, np.isfinite(values).any(axis=0))
    return telling(_over_seeds(runs, values))._replace(low=float(found.mean[0]), high=float(found.mean[1]))


def gain_by_client(runs: Sequence[Record], alone: Sequence[Record], metric: str) -> list[Interval]:
    """Each client's gain, over the seeds both have."""
    values = gains(runs, alone, metric)
    over = telling(intervals(values.T, overlap=overlaps(runs)))
    found = bounds_of(_pairs(runs, alone), metric, np.isfinite(values).any(axis=0))
    return [
        Interval(float(mean), float(half), int(seeds), float(low), float(high))
        for mean, half, seeds, low, high in zip(*over, *found.each, strict=True)
    ]


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
    """Class names, or with and without an event, and counts [class, client] by split; None where targets are
    numbers.
    """
    tables: list[Any] = [c.get("labels") for c in record.about["clients"]]
    if not tables or any(t is None for t in tables):
        return None
    names = list(kinds(task(record), record.about.get("classes") or ()))
    width = max(len(names), *(len(row) for table in tables for row in table))
    filled = [[list(row) + [0] * (width - len(row)) for row in table] for table in tables]
    counts = np.array(filled, dtype=int)
    names += [str(i) for i in range(len(names), width)]
    by_split = {s: counts[:, i, :].T for i, s in enumerate(("train", "validation", "test"))}
    return names, {s: c for s, c in by_split.items() if s != "validation" or c.any()}
