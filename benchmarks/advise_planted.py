"""Does advice send those to others whom others help? Sites that are all alike and too small to learn alone.

Nothing is written: a line for each case, with how many of those asked are told to join. Whether anybody is
sent to others for nothing is asked by `advise_honest.py null`.

    python benchmarks/advise_planted.py
"""

from __future__ import annotations

import numpy as np

import coterie
from coterie.methods.advised import ALONE, SOLVED

CASES = ((16, 60, 40, 0.1), (12, 150, 100, 0.1), (8, 60, 20, 0.2))
"""Sites, rows, columns, and how much noise there is."""


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


def told(case: tuple[int, int, int, float], inner: int) -> str:
    sites, rows, columns, _ = case
    advice = coterie.advise("logistic", all_alike(*case), inner=inner, rounds=10, progress=False).advice
    answers = advice.answers
    joined, looked = (sum(getattr(a, name) != ALONE for a in answers) for name in ("choice", "best"))
    ways = {way: np.mean([a.level[way] for a in answers]) for way in (ALONE, *SOLVED)}
    levels = ", ".join(f"{way} {level:.3f}" for way, level in ways.items())
    return (
        f"{sites} alike of {rows} rows, {columns} columns, {advice.metric}, inner {inner}: {joined} of "
        f"{len(answers)} told to join, {looked} looked better; {levels}"
    )


def main() -> None:
    for inner in (3, 0):
        for case in CASES:
            print(told(case, inner), flush=True)


if __name__ == "__main__":
    main()
