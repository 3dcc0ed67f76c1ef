"""Estimates of contributions beside exact Shapley values: how often intervals hold, agreement, price.

    python benchmarks/contributions.py                     # 30 federations of 6, then the tables: 4 minutes
    python benchmarks/contributions.py --rows train --larger 0

Each federation has clients with a logistic model and rows of a mixture of their own: how many clusters there
are, how far they differ, how noisy labels are and how many rows each client has is drawn from its seed (0, 1,
2, ...). By turns they train by weight-erosion (a model for each client) and by fedavg (one for all), two
rounds each. Values are judged on validation rows, or on training rows if there are no others. An estimate
holds if every figure of a federation, [receiver, sender] and given to others, is within its interval.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
from typing import NamedTuple

import numpy as np
import torch

from coterie.core.client import Client, Samples
from coterie.core.seeds import Key
from coterie.features.contributions.record import WEIGHT, Contributed, spearman, without_own
from coterie.runs.record import Record

EVERY = "first-order+leave-one-out+shapley+gtg+exact-shapley"
DRAWN = ("shapley", "gtg")
EXACT = "exact-shapley"
LEVELS = (0.8, 0.95, 0.99, 0.999)


class Held(NamedTuple):
    """Of one estimate of one federation: figures, how many lie outside, and the median half width as a share
    of the mean size of exact values.
    """

    figures: int
    outside: int
    width: float


def federation(seed: int, clients: int, rows: str) -> list[Client]:
    """Clients of random, differing data, with validation rows or without."""
    rng = Key(seed, ("federation",)).numpy()
    features, groups = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    truths = rng.normal(size=(groups, features)) * rng.uniform(0.5, 3)
    shift, flips = rng.uniform(0, 1.5), rng.uniform(0, 0.2)
    made = []
    for i in range(clients):
        many = int(rng.integers(24, 120))
        x = rng.normal(size=(many, features)) + shift * rng.normal(size=features)
        y = (x @ truths[i % groups] + rng.logistic(size=many) > 0) ^ (rng.random(many) < flips)
        train, test = many - many // 3, many - many // 6  # then validation rows, then test rows
        held_out = slice(train, test if rows == "validation" else train)
        parts = [
            Samples(torch.tensor(x[c], dtype=torch.float32), torch.tensor(y[c], dtype=torch.int64))
            for c in (slice(0, train), slice(test, many), held_out)
        ]
        made.append(Client(f"client-{i}", *parts))
    return made


def played(
    seed: int, method: str, by: str, rounds: int = 2, clients: int = 6, rows: str = "validation"
) -> Record:
    """A run of that federation, valued."""
    from torch import nn

    from coterie.core import belief as tree
    from coterie.core.options import table_of
    from coterie.core.roster import roster_of
    from coterie.engines import ENGINES
    from coterie.kernels import SGD
    from coterie.methods import METHODS
    from coterie.nets import NETS
    from coterie.runs.experiment import experiment_of
    from coterie.runs.loop import run
    from coterie.runs.settings import recorded
    from coterie.sites.setup import Setup

    sites = federation(seed, clients, rows)
    torch.manual_seed(seed)
    model = nn.Linear(sites[0].train.x.shape[1], 2)
    local = SGD(lr=0.3, batch=16)
    way = METHODS.make(method, local=local)
    config = {"method": method, "rounds": rounds, "seed": seed, "evaluate": rounds, "checkpoint": rounds}
    config |= {"wrap": [f"contributions:by={by}"], method: table_of(way), "sgd": table_of(local)}
    setup = Setup(tuple(sites), roster_of(sites), model, tree.stack([tree.belief_of(model)]), ())
    made = experiment_of(
        setup,
        recorded(config),
        way,
        connector=NETS.make("in-process"),
        engine=ENGINES.make("auto"),
        command=None,
    )
    return run(made, None, method).record


def held(found: Contributed, name: str) -> Held:
    """An estimate against exact values of the same run."""
    mine, truth = found.estimates[name], found.estimates[EXACT]
    far = np.concatenate([np.abs(mine.value - truth.value).ravel(), np.abs(mine.given - truth.given)])
    half = np.concatenate([mine.half.ravel(), mine.around])
    known = np.isfinite(far)
    size = np.abs(np.concatenate([truth.value.ravel(), truth.given])[known]).mean()
    outside = far[known] > half[known] + 1e-12
    return Held(int(known.sum()), int(outside.sum()), float(np.median(half[known]) / size))


def method_of(seed: int) -> str:
    return ("weight-erosion", "fedavg")[seed % 2]


def at_level(record: Record, level: float) -> Contributed:
    """The same run, its intervals at another level."""
    for line in record.metrics:
        if "contributions" in line["extras"]:
            line["extras"]["contributions"]["level"] = level
    return record.contributions()


def coverage(seeds: range, rows: str) -> None:
    """How often intervals hold, at several levels."""
    by = "+".join((*DRAWN, EXACT))
    records = [played(seed, method_of(seed), by, rows=rows) for seed in seeds]
    for level in LEVELS:
        found = [at_level(record, level) for record in records]
        for name in DRAWN:
            mine = [held(c, name) for c in found]
            kept, figures = sum(h.outside == 0 for h in mine), sum(h.figures for h in mine)
            print(
                f"level {level:g}, {name}: all within their intervals in {kept} of {len(mine)} federations; "
                f"{sum(h.outside for h in mine)} of {figures} figures outside; median half width "
                f"{100 * np.median([h.width for h in mine]):.1f} % of the mean size of values"
            )


def table(method: str, seeds: range, clients: int, rows: str) -> None:
    """Agreement with exact values and price, the mean over federations."""
    found = [played(seed, method, EVERY, clients=clients, rows=rows).contributions() for seed in seeds]
    print(f"\n{method}, mean of {len(found)} federations of {clients}, 2 rounds, judged on {rows} rows\n")
    header = ["estimate", "rank correlation, given", "of pairs", "largest difference"]
    header += ["looks at sites", "models sent", "ms"]
    print(f"| {' | '.join(header)} |\n|{' --- |' * len(header)}")
    for name in ("weight", *EVERY.split("+")):
        given, pairs, far, looks, sent, spent = np.nanmean([beside_exact(c, name) for c in found], axis=0)
        apart = "—" if name == "weight" else f"{100 * far:.0f} %"
        print(f"| {name} | {given:.2f} | {pairs:.2f} | {apart} | {looks:.0f} | {sent:.0f} | {spent:.0f} |")


def beside_exact(found: Contributed, name: str) -> list[float]:
    """Rank correlations of what was given and of pairs, the largest difference of a pair as a share of the
    largest value, looks, models sent, milliseconds.
    """
    truth = found.estimates[EXACT]
    exact = without_own(truth.value)
    if name == "weight":
        ranks = spearman(found.kinds()[WEIGHT].given, truth.given), spearman(without_own(found.weight), exact)
        return [*ranks, 0.0, 0.0, 0.0, 0.0]
    mine = found.estimates[name]
    others = without_own(mine.value)
    far = float(np.nanmax(np.abs(others - exact)) / np.nanmax(np.abs(exact)))
    ranks = spearman(mine.given, truth.given), spearman(others, exact)
    return [*ranks, far, float(mine.looks), float(mine.sent), 1000 * mine.seconds]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--federations", type=int, default=30)
    parser.add_argument("--larger", type=int, default=4, help="federations of 12, in the last tables")
    parser.add_argument("--rows", choices=["validation", "train"], default="validation")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    print(f"commit {commit.stdout.strip()}, torch {torch.__version__}, {platform.machine()}, one thread")
    coverage(range(asked.federations), asked.rows)
    for clients, many in ((6, asked.federations), (12, asked.larger)):
        for method in ("weight-erosion", "fedavg"):
            if many:
                table(method, range(many), clients, asked.rows)


if __name__ == "__main__":
    main()
