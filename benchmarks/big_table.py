"""A table of a million rows: inspecting it, training on it and predicting with the model, beside pandas and
scikit-learn on the same file in the same run: python benchmarks/big_table.py [--rows 1000000]

Each command runs in a process of its own; its seconds are those of the clock from start to end, its memory
the most that it ever held. Beside it stands what scikit-learn takes in a process of its own, with imports:
read_csv, gaps filled in with medians, numbers standardised, words as indicators, LogisticRegression, score.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

NUMBERS, WHOLE, WORDS, FLAGS = 22, 6, 6, 5  # columns of each kind; with the site and the target 41
SITES = 8
SCIKIT = """
import sys
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

frame = pd.read_csv(sys.argv[1])
y, x = frame["ill"] == "yes", pd.get_dummies(frame.drop(columns=["ill", "hospital"]), dtype=float)
train, test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
middle = train.median()
train, test = train.fillna(middle), test.fillna(middle)
mean, deviation = train.mean(), train.std()
model = LogisticRegression().fit(((train - mean) / deviation).to_numpy(), y_train)
print(model.score(((test - mean) / deviation).to_numpy(), y_test))
"""
PANDAS = "import sys, pandas; pandas.read_csv(sys.argv[1])"


ASKED = "site 1"


def big_table(rows: int, seed: int = 0, sites: int = SITES) -> pd.DataFrame:
    """Numbers of one to three decimals and two that are as precise as they get, whole numbers, words, no and
    yes; some cells missing; a hospital, and an outcome that depends on most of the columns.
    """
    draw = np.random.default_rng(seed)
    columns = dict[str, object]()
    score = np.zeros(rows)
    for i in range(NUMBERS):
        values = draw.normal(10.0 * (i + 1), 1.0 + i / 2, rows)
        score += draw.normal(0, 0.3) * (values - values.mean()) / values.std()
        columns[f"lab_{i + 1}"] = values if i < 2 else values.round(1 + i % 3)
    for i in range(WHOLE):
        columns[f"amount_{i + 1}"] = draw.poisson(5 * (i + 1), rows)
    for i in range(WORDS):
        words = np.array([f"kind {chr(97 + k)}" for k in range(3 + i)])
        columns[f"group_{i + 1}"] = words[draw.integers(0, len(words), rows)]
    for i in range(FLAGS):
        hit = draw.random(rows) < 0.2 + 0.1 * i
        score += 0.2 * hit
        columns[f"sign_{i + 1}"] = np.where(hit, "yes", "no")
    frame = pd.DataFrame(columns)
    for name in [c for c in frame.columns if c.endswith(("3", "4"))]:
        frame[name] = frame[name].astype(object).where(draw.random(rows) > 0.03, None)
    frame["hospital"] = np.array([f"site {k + 1}" for k in range(sites)])[draw.integers(0, sites, rows)]
    frame["ill"] = np.where(draw.random(rows) < 1 / (1 + np.exp(1.0 - score)), "yes", "no")
    return frame


class Cost(NamedTuple):
    seconds: float
    gigabytes: float


def cost(command: list[str]) -> Cost:
    """Of a process of its own, with all that it starts; what it prints is shown where it fails."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{printed}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - begin, used.ru_maxrss * unit / 1e9)


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--rows", type=int, default=1_000_000)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--sites", type=int, default=SITES)
    asked.add_argument("--method", default="local")
    asked.add_argument("--rounds", default="", help="of the run, where its default is not meant")
    asked.add_argument("--parts", nargs="+", default=["inspect", "run", "predict"])
    asked.add_argument("--make", default="", help="only write the table, to this file")
    given = asked.parse_args()
    table = big_table(given.rows, given.seed, given.sites)
    if given.make:
        table.to_csv(given.make, index=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.csv"
        table.to_csv(file, index=False)
        asked_of = Path(folder) / "asked.csv"  # a model is of one site, and is asked about rows of that site
        table.assign(hospital=ASKED).to_csv(asked_of, index=False)
        print(f"{len(table):,} rows x {table.shape[1]} columns, {file.stat().st_size / 1e6:.0f} MB")
        del table
        measure(file, Path(folder), given)


def measure(file: Path, folder: Path, given: argparse.Namespace) -> None:
    """Prints a line for each part, with what it is beside."""
    coterie, python = [sys.executable, "-m", "coterie"], [sys.executable, "-c"]
    pandas, scikit = cost([*python, PANDAS, str(file)]), cost([*python, SCIKIT, str(file)])
    print(f"{'':24}{'seconds':>9}{'GB':>7}")
    print(f"{'pandas.read_csv':24}{pandas.seconds:9.1f}{pandas.gigabytes:7.2f}")
    print(f"{'scikit-learn':24}{scikit.seconds:9.1f}{scikit.gigabytes:7.2f}")
    recipe, run = folder / "recipe.toml", folder / "run"
    rounds = ["--rounds", given.rounds] if given.rounds else []
    commands = {
        "inspect": [
            "table",
            "inspect",
            str(file),
            "--target",
            "ill",
            "--site",
            "hospital",
            "--out",
            str(recipe),
        ],
        "run": ["run", "--recipe", str(recipe), "--method", given.method, *rounds, "--out", str(run)],
        "predict": [
            "predict",
            str(run),
            str(folder / "asked.csv"),
            "--client",
            ASKED,
            "--out",
            str(folder / "predicted.csv"),
        ],
    }
    beside = {
        "inspect": ("pandas.read_csv", pandas),
        "run": ("scikit-learn", scikit),
        "predict": ("pandas.read_csv", pandas),
    }
    for name in given.parts:
        found, (other, reference) = cost([*coterie, *commands[name]]), beside[name]
        ratio = f"{found.seconds / reference.seconds:.1f} x {other}"
        print(f"{'coterie ' + name:24}{found.seconds:9.1f}{found.gigabytes:7.2f}   {ratio}", flush=True)


if __name__ == "__main__":
    main()
