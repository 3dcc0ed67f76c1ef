"""Does advice send nobody to others where nothing can be learnt, and most where others help?

Sites whose targets are drawn by chance, balanced and rare, beside sites that are all alike and too small to
learn alone. Nothing is written: a line for each case, with how many of those asked are told to join.

    python benchmarks/advise_planted.py
"""

from __future__ import annotations

import numpy as np

import coterie
from coterie.methods.advised import ALONE

CANDIDATES = ("fedavg", "finetune", "weight-erosion", "similar")


def by_chance(draw: int, share: float, columns: int) -> list[coterie.Client]:
    """Six sites of 60 rows; so many targets are 1, whatever the inputs, and two of either at least."""
    rng, made = np.random.default_rng([draw, 77]), []
    for i in range(6):
        x, y = rng.normal(size=(60, columns)), (rng.random(60) < share).astype(int)
        y[:4] = 1, 1, 0, 0
        made.append(coterie.Client.from_arrays(x, rng.permutation(y), name=f"site {i}", seed=0))
    return made


def all_alike(sites: int, rows: int, columns: int, noise: float) -> list[coterie.Client]:
    """The same plane parts the classes everywhere."""
    rng, made = np.random.default_rng(5), []
    plane = rng.normal(size=columns)
    plane /= np.linalg.norm(plane)
    for i in range(sites):
        x = rng.normal(size=(rows, columns))
        y = (x @ plane + noise * rng.normal(size=rows) > 0).astype(int)
        made.append(coterie.Client.from_arrays(x, y, name=f"site {i}", seed=0))
    return made


def told(name: str, draws: list[list[coterie.Client]], inner: int, **options: float) -> None:
    asked = [
        coterie.advise("logistic", clients, candidates=CANDIDATES, inner=inner, progress=False, **options)
        for clients in draws
    ]
    answers = [answer for advice in asked for answer in advice.answers.values()]
    joined, looked = (sum(getattr(a, name) != ALONE for a in answers) for name in ("choice", "best"))
    levels = np.mean([(a.level[ALONE], a.level["fedavg"]) for a in answers], axis=0)
    print(
        f"{name}, {asked[0].advice.metric}, inner {inner}: {joined} of {len(answers)} told to join, "
        f"{looked} looked better; alone {levels[0]:.3f}, fedavg {levels[1]:.3f}",
        flush=True,
    )


def main() -> None:
    for inner in (3, 0):
        told("balanced by chance", [by_chance(d, 0.5, 5) for d in range(10)], inner, rounds=8, lr=0.3)
        told("rare by chance", [by_chance(d, 0.06, 20) for d in range(10)], inner, rounds=8, lr=0.3)
        for sites, rows, columns, noise in ((16, 60, 40, 0.1), (12, 150, 100, 0.1), (8, 60, 20, 0.2)):
            name = f"{sites} alike of {rows} rows, {columns} columns"
            told(name, [all_alike(sites, rows, columns, noise)], inner, rounds=15, lr=0.5)


if __name__ == "__main__":
    main()
