"""The claims of makni-2022, and the question that it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coterie.papers.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.papers.makni_2022.aggregates import COLUMNS, FL_SWAG, MEAN, TEMPERATURES
from coterie.papers.makni_2022.paper import EXCHANGES
from coterie.papers.makni_2022.results import NAMES, ONE, SERVER, Results

NEAR = 2.0  # points: the paper's FL-SWAG is 0.6 and 1.7 below FedAvg where it "performs very well"


def by_data(
    kinds: Sequence[str], check: Callable[[Results, str], Verdict], row: str | None = None
) -> Callable[[Results], Verdict]:
    """The same check for each data set of these kinds; with a row, for those that have it."""

    def called(cell: str) -> str:
        kind, _, data = cell.partition("/")
        return f"{kind} {NAMES[data]}" if len(kinds) > 1 else NAMES[data]

    def checked(results: Results) -> Verdict:
        cells = [
            f"{k}/{d}"
            for k in kinds
            for d in results.data(k)
            if row is None or results.values(f"{k}/{d}", row)
        ]
        return every({called(c): check(results, c) for c in cells})

    return checked


def over_clients(results: Results, cell: str, statistic: Callable[[list[float]], float]) -> list[float]:
    """Points by which FL-SWAG's mean model is above the median, or the best, client."""
    gains = []
    for found in results.cells[cell].values():
        clients = [found.figures[c]["accuracy"] for c in ONE if c in found.figures]
        gains.append(100 * (found.figures[FL_SWAG + MEAN]["accuracy"] - statistic(clients)))
    return gains


def calmer(results: Results, cell: str, other: str) -> list[float]:
    """By how much another method's ECE x 100 exceeds FL-SWAG's, seed by seed."""
    name = cell.partition("/")[2]
    theirs, ours = results.cells.get(f"{other}/{name}", {}), results.cells[cell]
    pairs = [
        (theirs[s].figures[other]["ece"], f.figures[FL_SWAG]["ece"]) for s, f in ours.items() if s in theirs
    ]
    return [100 * (a - b) for a, b in pairs]


def is_calmer(results: Results, cell: str) -> Verdict:
    return every(
        {
            label: above_zero(calmer(results, cell, k), 2)
            for k, label in (("sgld", "SGLD"), ("psgld", "pSGLD"))
        }
    )


def gap(row: str, other: str, metric: str = "accuracy") -> Callable[[Results, str], Verdict]:
    digits = 2 if metric == "accuracy" else 4
    return lambda results, cell: above_zero(results.differences(cell, row, other, metric), digits)


def nearly(row: str, other: str) -> Callable[[Results, str], Verdict]:
    return lambda results, cell: near_zero(results.differences(cell, row, other), NEAR, 2)


CLAIMS: list[Claim[Results]] = [
    Claim(
        "logistic regression: FL-SWAG is above most clients (their median)",
        "7.1",
        by_data(["logistic"], lambda r, c: above_zero(over_clients(r, c, lambda v: float(np.median(v))), 2)),
    ),
    Claim(
        f"logistic regression: FL-SWAG is near FedAvg, within {NEAR:g} points",
        "7.1",
        by_data(["logistic"], nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "logistic regression: FedAvg is above FL-SWAG",
        "7.1, table",
        by_data(["logistic"], gap("FedAvg", FL_SWAG + MEAN)),
    ),
    Claim(
        "logistic regression: averages by size are above plain ones",
        "7.1, table",
        by_data(["logistic"], gap("wFedAvg", "FedAvg")),
    ),
    Claim(
        f"after the server's training FL-SWAG is near FedAvg, within {NEAR:g} points",
        "8.3, table",
        by_data(["lenet", "resnet"], nearly(FL_SWAG + MEAN, "FedAvg")),
    ),
    Claim(
        "after the server's training FL-SWAG is above every client",
        "10",
        by_data(["lenet", "resnet"], lambda r, c: above_zero(over_clients(r, c, max), 2)),
    ),
    Claim(
        "FL-SWAG is above what the server had without the clients (ours, not the paper's)",
        "8.3",
        by_data(["lenet", "resnet"], gap(FL_SWAG + MEAN, SERVER)),
    ),
    Claim(
        "FL-SWAG's ECE is below SGLD's and pSGLD's",
        "8.3, calibration (MNIST)",
        by_data(["lenet", "resnet"], is_calmer),
    ),
]

QUESTIONS: list[Claim[Results]] = [
    Claim(
        f"low rank ({k}) helps: NLL below FL-SWAG's", "ours",
        by_data(EXCHANGES, gap(FL_SWAG, f"low rank {k}", "nll"), f"low rank {k}"),
    )
    for k in COLUMNS
] + [
    Claim(
        f"a temperature of {T:g} helps: NLL below FL-SWAG's", "ours",
        by_data(EXCHANGES, gap(FL_SWAG, f"{FL_SWAG}, T = {T:g}", "nll")),
    )
    for T in TEMPERATURES
]  # fmt: skip

REASONS: list[Claim[Results]] = [
    Claim(text, "ours", by_data(EXCHANGES, gap(better, worse), better))
    for text, better, worse in (
        (
            "levels do little harm: with them alone, accuracy is above FL-SWAG's",
            "levels alone",
            FL_SWAG + MEAN,
        ),
        (
            "which parameters a client counts in does: the same numbers shuffled are above",
            "coordinates shuffled",
            "coordinates alone",
        ),
        ("it has the wrong sign: by variance is above FL-SWAG", "by variance", FL_SWAG + MEAN),
        ("by variance is above FedAvg", "by variance", "FedAvg"),
    )
]
