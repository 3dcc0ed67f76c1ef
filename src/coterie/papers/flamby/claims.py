"""What FLamby's figures say, put as differences between ways, one for each seed, in points."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from coterie.papers.claims import Claim, Verdict, above_zero, every, near_zero
from coterie.papers.flamby.federations import FEDERATIONS, POOLED

CSV = "its results file of {}, five seeds"
HEART, BRCA = CSV.format("heart disease"), CSV.format("TCGA-BRCA")
ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")
NEAR = 1.0  # points


def means(frame: pd.DataFrame, federation: str, way: str) -> dict[int, float]:
    """By seed the mean over clients, each on its own test rows; seeds that lack a client are left out."""
    clients = FEDERATIONS[federation].clients
    some = frame[(frame["federation"] == federation) & (frame["way"] == way) & frame["test"].isin(clients)]
    whole = some.dropna(subset=["ours"]).groupby("seed")["ours"].agg(["mean", "size"])
    return {int(s): float(row["mean"]) for s, row in whole.iterrows() if row["size"] == len(clients)}


def on(frame: pd.DataFrame, federation: str, way: str, test: str) -> dict[int, float]:
    """By seed the figure on one test set."""
    some = frame[(frame["federation"] == federation) & (frame["way"] == way) & (frame["test"] == test)]
    return {int(s): float(v) for s, v in zip(some["seed"], some["ours"], strict=True)}


def gains(frame: pd.DataFrame, federation: str, way: str, over: str) -> list[float]:
    """What a way has beyond another, means over clients, by seed."""
    return less(means(frame, federation, way), means(frame, federation, over))


def less(one: dict[int, float], other: dict[int, float]) -> list[float]:
    return [one[seed] - other[seed] for seed in one if seed in other]


def pooled_tests(federation: str, *pairs: tuple[str, str]) -> Callable[[pd.DataFrame], Verdict]:
    """Each way above another on all test rows."""

    def check(frame: pd.DataFrame) -> Verdict:
        return every(
            {
                f"{way} over {other}": above_zero(
                    points(less(on(frame, federation, way, POOLED), on(frame, federation, other, POOLED)))
                )
                for way, other in pairs
            }
        )

    return check


def points(values: list[float]) -> list[float]:
    return [100 * value for value in values]


def alike(federation: str, way: str, other: str) -> Callable[[pd.DataFrame], Verdict]:
    def check(frame: pd.DataFrame) -> Verdict:
        return near_zero(
            points(less(on(frame, federation, way, POOLED), on(frame, federation, other, POOLED))), NEAR
        )

    return check


def over_clients(federation: str, way: str, other: str) -> Callable[[pd.DataFrame], Verdict]:
    def check(frame: pd.DataFrame) -> Verdict:
        return above_zero(points(gains(frame, federation, way, other)))

    return check


CLAIMS: tuple[Claim[pd.DataFrame], ...] = (
    Claim(
        "Pooled training is above FedAvg on all test rows",
        HEART,
        pooled_tests("heart", ("pooled", "fedavg")),
    ),
    Claim(
        "The server's adaptive steps are above FedAvg on all test rows",
        HEART,
        pooled_tests("heart", *((way, "fedavg") for way in ADAPTIVE)),
    ),
    Claim("FedProx is within a point of FedAvg", HEART, alike("heart", "fedprox", "fedavg")),
    Claim("SCAFFOLD is within a point of FedAvg", HEART, alike("heart", "scaffold", "fedavg")),
    Claim(
        "Training alone is above FedAvg, mean over clients' own tests",
        HEART,
        over_clients("heart", "alone", "fedavg"),
    ),
    Claim(
        "Fine-tuning is above FedAvg, mean over clients' own tests",
        "its figure of personalisation",
        over_clients("heart", "finetune", "fedavg"),
    ),
    Claim(
        "Cyclic transfer is above FedAvg on all test rows", HEART, pooled_tests("heart", ("cyclic", "fedavg"))
    ),
    Claim(
        "The server's adaptive steps are above FedAvg on all test rows",
        BRCA,
        pooled_tests("brca", *((way, "fedavg") for way in ADAPTIVE)),
    ),
    Claim(
        "The server's adaptive steps are above pooled training on all test rows",
        BRCA,
        pooled_tests("brca", *((way, "pooled") for way in ADAPTIVE)),
    ),
    Claim(
        "FedAdam is above SCAFFOLD and above cyclic transfer on all test rows",
        BRCA,
        pooled_tests("brca", ("fedadam", "scaffold"), ("fedadam", "cyclic")),
    ),
)
