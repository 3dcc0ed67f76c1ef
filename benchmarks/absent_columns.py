"""Columns that a hospital lacks, by each rule and scale: python benchmarks/absent_columns.py

Heart disease of four hospitals, all 13 columns; Switzerland has no cholesterol, others lack much of slope, ca
and thal. Prints the mean over hospitals of the log loss on their own test rows, over seeds 0 to 4, ± half of
the 95 % interval over these splits of the same rows, corrected for those they share.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

import coterie
from coterie.data.sources import SOURCES
from coterie.metrics.summary import interval

METHODS = ("local", "fedavg", "finetune")
TEST = 0.3  # of each hospital's rows


def patients() -> pd.DataFrame:
    """All hospitals' patients as one frame; categories are texts."""
    data = SOURCES.make("heart-disease", sparse_columns=True).load()
    columns = data.prepare.columns  # type: ignore[union-attr]
    frame = pd.DataFrame(data.train.x, columns=[c.name for c in columns])
    for column in columns:
        if column.kind == "category":
            texts = [None if np.isnan(v) else column.text(v) for v in frame[column.name]]
            frame[column.name] = pd.Series(texts, dtype=object)
    assert data.train.columns is not None
    frame["hospital"] = data.train.columns["hospital"]
    frame["ill"] = np.array(data.classes)[data.train.y]
    return frame


def main() -> None:
    frame = patients()
    for absent, scale in itertools.product(("flag", "mask", "common"), ("shared", "site")):
        found: dict[str, list[float]] = {method: [] for method in METHODS}
        for seed in range(5):
            clients = coterie.clients_from(
                frame,
                target="ill",
                site="hospital",
                missing="median",
                scale=scale,
                absent=absent,
                test=TEST,
                seed=seed,
            )
            for method in METHODS:
                run = coterie.train("logistic", clients, method, rounds=30, seed=seed)
                found[method].append(float(np.mean(run.record.final("nll"))))
        figures = {m: interval(values, overlap=TEST / (1 - TEST)) for m, values in found.items()}
        told = ", ".join(f"{m} {f.mean:.3f} ± {f.half:.3f}" for m, f in figures.items())
        print(f"{absent:7} {scale:7} {told}")


if __name__ == "__main__":
    main()
