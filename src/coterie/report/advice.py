"""A sentence for each client: whether training together served it better than training alone, so far as seeds
can tell; and whom it listened to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coterie.methods.baselines import YARDSTICKS
from coterie.metrics.summary import Interval
from coterie.report import views, words
from coterie.report.kinds import covers
from coterie.report.nothing import no_gain
from coterie.runs.record import Record


class Try(NamedTuple):
    """A method, and what it gained one client over training alone: above zero is better. `worthless`: the
    client has no better with it than with always the same answer.
    """

    label: str
    gain: Interval
    worthless: bool = False


def sentences(records: Sequence[Record]) -> list[str]:
    """One for each client, behind its name; none where nobody trained alone."""
    by_label, metric = views.groups(records), views.headline_metric(records)
    alone = views.baseline(by_label)
    if alone is None:
        return []
    tried = {label: runs for label, runs in by_label.items() if together(runs)}
    found = {label: views.gain_by_client(runs, by_label[alone], metric) for label, runs in tried.items()}
    worthless = {label: no_gain(by_label, runs, metric) for label, runs in tried.items()}
    said = []
    for i, name in enumerate(records[0].clients):
        tries = [Try(label, gains[i], bool(worthless[label][i])) for label, gains in found.items()]
        known = [t for t in tries if math.isfinite(t.gain.mean)]
        said.append(f"{name}: {sentence(known, metric)}")
    return said


def together(runs: Sequence[Record]) -> bool:
    """Whether clients could use this method to train together."""
    return views.method(runs[0]) not in YARDSTICKS


def sentence(tries: Sequence[Try], metric: str) -> str:
    """What the best of these methods brings a client, and what the costliest of the others would cost it.

    A gain or a cost is one only where its interval over seeds leaves out 0, and that over test rows does so
    too where there is one.
    """
    if not tries:
        return "no method to compare with training alone."
    best = max(tries, key=lambda t: t.gain.mean)
    name = f"{best.label} (the best of {len(tries)})" if len(tries) > 1 else best.label
    if best.worthless:
        return f"nothing to gain: {name}, the nearest to it, is no better than always the same answer."
    if best.gain.seeds < 2:
        said = f"{name} has {words.more_or_less(best.gain.mean, metric)} than training alone in a single run"
        return f"{said}{words.beside(best.gain, metric)}, which only more seeds can tell from chance."
    if best.gain.side < 0:
        return f"stay alone: even {name} would cost {words.size_of(best.gain, metric)}."
    if best.gain.side > 0:
        said = f"training together seems to pay: {apart(name, best.gain, metric)}"
    else:
        said = f"no clear gain: {apart(name, best.gain, metric)}"
    costly = [t for t in tries if t.gain.side < 0]
    if not costly:
        return f"{said}."
    worst = min(costly, key=lambda t: t.gain.mean)
    return f"{said}; {worst.label} would cost {words.size_of(worst.gain, metric)}."


def apart(name: str, gain: Interval, metric: str) -> str:
    """A difference from training alone, without a verdict."""
    if gain.mean == 0:
        return f"{name} makes {words.no_difference(gain, metric)}"
    return f"{name} {'gains' if gain.mean > 0 else 'loses'} {words.size_of(gain, metric)}"


def legend(records: Sequence[Record]) -> str:
    """How far the sentences can be trusted."""
    by_label = views.groups(records)
    ways = sum(map(together, by_label.values()))
    said = []
    if ways > 1:
        said.append(
            f"The best of {ways} is chosen for each client by these very test rows, so it looks better than "
            f"it is; of {ways * len(records[0].clients)} comparisons with training alone some look clear by "
            "chance."
        )
    if max(map(len, by_label.values())) > 1:
        said.append(f"± is {covers(records)}.")
    return " ".join([*said, *words.beside_legend(records)])


def heard(runs: Sequence[Record]) -> np.ndarray:
    """[receiver, sender] the weight of one's model in the other's, the mean over rounds and seeds."""
    means = [np.mean([np.nan_to_num(w) for w in r.weights.values()], axis=0) for r in runs if r.weights]
    n = len(runs[0].clients)
    return np.asarray(np.mean(means, axis=0)) if means else np.zeros((n, n))


def listened(runs: Sequence[Record], most: int = 2) -> list[list[str]]:
    """For each client those others with the largest weights in its model: "age 21-35 0.41"."""
    weights, names = heard(runs), runs[0].clients
    np.fill_diagonal(weights, 0)
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    return [
        [f"{names[j]} {weights[i, j]:.2f}" for j in row if weights[i, j] >= 0.005]
        for i, row in enumerate(order.tolist())
    ]
