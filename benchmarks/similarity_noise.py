"""When does noise drown similarity? Distances with noise beside the same without, on sites of many sizes.

    python benchmarks/similarity_noise.py

Six sites of n rows each, nine columns that are normal with means half a deviation apart, labels by the sum of
the columns; seeds 0 to 9, one measure at a time. Prints, for each epsilon (delta 1e-5) and n, the rank
correlation between the 15 distances with noise and those without, and the share of sites that are called
drowned.
"""

from __future__ import annotations

import warnings

import numpy as np

import coterie
from coterie.core.errors import CoterieWarning
from coterie.features.contributions.record import spearman

COLUMNS, SITES, SEEDS = 9, 6, 10
ROWS = (45, 90, 180, 360, 1500)
EPSILONS = (1.0, 3.0, 10.0)
MEASURES = ("quantiles", "transport")


def sites_of(rows: int, seed: int) -> list[coterie.Client]:
    rng, made = np.random.default_rng(seed), []
    for i in range(SITES):
        shift = 0.5 * rng.normal(size=COLUMNS)
        x = rng.normal(size=(rows + 2, COLUMNS)) + shift
        y = ((x - shift).sum(axis=1) + rng.normal(size=rows + 2) > 0).astype(int)
        test = x[rows:], y[rows:]  # never looked at, and a client has some
        made.append(coterie.Client.from_arrays(x[:rows], y[:rows], name=f"site-{i}", test=test))
    return made


def beside(rows: int, epsilon: float, measure: str, seed: int) -> tuple[float, float]:
    """Rank correlation with the distances without noise, and the share of drowned sites."""
    clients, pairs = sites_of(rows, seed), np.triu_indices(SITES, 1)
    clear = coterie.similar(clients, measures=[measure], seed=seed)
    noisy = coterie.similar(clients, measures=[measure], seed=seed, epsilon=epsilon)
    one, other = (found.matrices[measure][pairs] for found in (clear, noisy))
    return spearman(one, other), len(noisy.found.drowned[measure]) / SITES


def main() -> None:
    warnings.simplefilter("ignore", CoterieWarning)
    shown = ("rank correlation", "drowned")
    header = ["epsilon", "rows", *(f"{measure}: {what}" for measure in MEASURES for what in shown)]
    print(f"| {' | '.join(header)} |\n|{' ---: |' * len(header)}")
    for epsilon in EPSILONS:
        for rows in ROWS:
            cells = []
            for measure in MEASURES:
                found = np.array([beside(rows, epsilon, measure, seed) for seed in range(SEEDS)])
                rank, sunk = np.nanmean(found, axis=0)
                cells += [f"{rank:+.2f}".replace("-", "−"), f"{100 * sunk:.0f} %"]
            print(f"| {epsilon:g} | {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
