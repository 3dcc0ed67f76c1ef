"""Weight Erosion among clients that are alike and differ in size: do the large ones keep their weight?

    python benchmarks/sizes_alike.py

Two clients of 60 training rows and two of 600, drawn from one population; the first one asks. Prints the
others' weights after ten rounds, the mean over seeds 0 to 2.
"""

from __future__ import annotations

import numpy as np

import coterie

ROWS = {"small-0": 85, "small-1": 85, "large-0": 857, "large-1": 857}  # of which 70 % to train on
WAYS: dict[str, dict[str, int]] = {
    "epochs=1, per_step=false": {"per_step": False},
    "epochs=1": {},
    "steps=5": {"steps": 5},
}


def clients_of(seed: int) -> list[coterie.Client]:
    rng, made = np.random.default_rng(seed), []
    for name, rows in ROWS.items():
        x = rng.normal(size=(rows, 8))
        y = (x.sum(axis=1) + rng.normal(size=rows) > 0).astype(int)
        made.append(coterie.Client.from_arrays(x, y, name=name))
    return made


def main() -> None:
    for said, options in WAYS.items():
        runs = [
            coterie.train("logistic", clients_of(seed), "weight-erosion", rounds=10, seed=seed, **options)
            for seed in range(3)
        ]
        alpha = np.mean([run.matrices["alpha"][-1, 0, 1:] for run in runs], axis=0)
        print(f"{said:26}", *(f"{name} {a:.2f}" for name, a in zip(list(ROWS)[1:], alpha, strict=True)))


if __name__ == "__main__":
    main()
