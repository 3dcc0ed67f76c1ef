"""Does advice keep its word? Two questions, on real tables:

    null        targets shuffled within each site: nothing can be learnt, so nobody should be sent to others
    coverage    does what following the advice gained on test rows lie within the promised 95 % interval?

    python benchmarks/advise_honest.py null --draws 50
    python benchmarks/advise_honest.py coverage --draws 10

Tables are heart disease (4 hospitals, COTERIE_DATA), diabetes (5 sites by chance) and breast cancer (5 sites
by chance); the last two come with scikit-learn. Each draw deals test rows, and shuffles, anew. Figures go to
the screen, and each answer as a line of CSV to --out, where a run that was cut goes on.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

import coterie
from coterie.core.client import Samples
from coterie.runs.builder import Builder
from coterie.runs.settings import Settings

TABLES = {
    "heart-disease": Settings(data="heart-disease"),
    "diabetes": Settings(data="diabetes", split="iid", clients=5),
    "breast-cancer": Settings(data="breast-cancer", split="iid", clients=5),
}
MODELS = {"classification": "logistic", "regression": "linear"}
COLUMNS = (
    "question",
    "table",
    "draw",
    "client",
    "choice",
    "best",
    "metric",
    "promised",
    "low",
    "high",
    "gain",
)


def clients_of(table: str, draw: int, shuffled: bool) -> list[coterie.Client]:
    """The sites of a table with test rows of that draw; targets in another order if they are shuffled."""
    settings = dataclasses.replace(TABLES[table], seed=draw, test=0.4).resolved()
    clients = Builder().setup(settings, lambda roster, start: ()).clients
    return [mixed(c, draw) for c in clients] if shuffled else list(clients)


def mixed(client: coterie.Client, draw: int) -> coterie.Client:
    rng = np.random.default_rng((draw, len(client.train)))
    parts = {}
    for part in ("train", "test"):
        rows = getattr(client, part)
        parts[part] = Samples(rows.x, rows.y[torch.from_numpy(rng.permutation(len(rows)))])
    return dataclasses.replace(client, **parts)


def answers(question: str, table: str, draw: int) -> list[tuple[object, ...]]:
    clients = clients_of(table, draw, question == "null")
    model = MODELS[clients[0].task]
    advice = coterie.advise(model, clients, seed=draw, progress=False, one_class="allow").advice
    found = []
    for i, a in enumerate(advice.answers):
        low, high = (math.nan, math.nan) if a.expected is None else a.expected.bounds
        mean = math.nan if a.expected is None else a.expected.mean
        found.append(
            [question, table, draw, a.client, a.choice, a.best, advice.metric, mean, low, high, math.nan, i]
        )
    if question == "coverage":
        ways = {a.best for a in advice.answers} | {"local"}
        compared = coterie.compare(
            model, clients, sorted(ways), seeds=1, seed=draw, progress=False, one_class="allow"
        )
        frame = compared.frame().set_index(["label", "client"])
        for row in found:
            there, alone = (float(frame.loc[(way, row[3]), advice.metric]) for way in (row[5], "local"))
            row[10] = (there - alone) * (1 if advice.higher else -1)
    return [tuple(row[:11]) for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("question", choices=("null", "coverage"))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--out", type=Path, default=Path("advise-honest.csv"))
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    rows = list(csv.DictReader(given.out.open())) if given.out.exists() else []
    done = {(r["question"], r["table"], int(r["draw"])) for r in rows}
    todo = [(given.question, t, d) for d in range(given.draws) for t in given.tables]
    with given.out.open("a", newline="") as file, ProcessPoolExecutor(given.jobs) as pool:
        writer = csv.writer(file)
        if not rows:
            writer.writerow(COLUMNS)
        left = [work for work in todo if work not in done]
        for found in pool.map(answers, *zip(*left, strict=True)) if left else ():
            writer.writerows(found)
            file.flush()
            print(found[0][:3], [row[4] for row in found], flush=True)
    told(given.question, [r for r in csv.DictReader(given.out.open()) if r["question"] == given.question])


def told(question: str, rows: list[dict[str, str]]) -> None:
    for table in dict.fromkeys(r["table"] for r in rows):
        mine = [r for r in rows if r["table"] == table]
        joined = [r for r in mine if r["choice"] != "local"]
        print(f"{table}: {len(joined)} of {len(mine)} sites sent to others")
    known = [r for r in rows if r["best"] != "local" and r["low"] not in ("", "nan") and r["gain"] != "nan"]
    if question == "coverage" and known:
        held = [r for r in known if float(r["low"]) <= float(r["gain"]) <= float(r["high"])]
        print(f"promise held for {len(held)} of {len(known)} answers that had one")
        sent = [float(r["gain"]) for r in known if r["choice"] != "local"]
        if sent:
            print(f"those sent to others gained {np.mean(sent):.4f} on test rows in the mean of {len(sent)}")


if __name__ == "__main__":
    main()
