"""Does similarity before training foretell what training together brings? Measured, and written down.

    python benchmarks/similarity.py                        # 10 seeds: docs/results/similarity.csv and .md
    python benchmarks/similarity.py --seeds 2 --studies titanic --out /tmp/here

For every ordered pair (i, j) of sites, four figures from before training: quantile distance and transport
distance, each beyond chance; transfer loss (adapted Ndoye factor); the partner's number of rows. And what
came of it: a model that i and j train together by FedAvg against the one that i trains alone, both on i's
test rows, as a fall of the loss and a rise of accuracy. Rank correlations (Spearman) of the two, for each
seed: over all pairs, and among the partners of one requester (mean over requesters), by which one chooses.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

import coterie
from coterie.core.client import Client
from coterie.core.errors import CoterieWarning
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition.bands import AgeStrict, Bands
from coterie.data.partition.clusters import Clusters
from coterie.data.partition.dirichlet import Dirichlet
from coterie.data.partition.shift import Shift
from coterie.data.partition.silos import Silos
from coterie.data.sources import SOURCES
from coterie.data.tabular import TabularPrepare
from coterie.features.contributions.record import spearman


class Study(NamedTuple):
    """Data, how they are dealt to how many sites, and how numbers are scaled if not as the source has it,
    which is each site by its own mean and deviation.
    """

    data: str
    split: Any
    clients: int | None = None
    scale: Literal["", "shared"] = ""


STUDIES: dict[str, Study] = {
    "four hospitals": Study("heart-disease", Silos()),
    "four hospitals, one scale": Study("heart-disease", Silos(), scale="shared"),
    "their patients by age": Study("heart-disease", Bands("age", (45, 55, 65))),
    "titanic, by age": Study("titanic", AgeStrict()),
    "digits, clusters": Study("digits", Clusters(), 6),
    "digits, shift": Study("digits", Shift(), 6),
    "breast-cancer, alpha 1": Study("breast-cancer", Dirichlet(alpha=1.0), 5),
    "breast-cancer, alpha 10": Study("breast-cancer", Dirichlet(alpha=10.0), 5),
}
ROUNDS = 30
# sign by which a high value says "train with it"
MEASURES = {"quantiles": -1, "transport": -1, "ndoye": -1, "size": 1}
CALLED = {
    "quantiles": "quantile distance",
    "transport": "transport distance",
    "ndoye": "transfer loss (Ndoye)",
    "size": "size alone",
}
GAINS = ("gain_loss", "gain_accuracy")


def clients_of(study: str, seed: int) -> tuple[Client, ...]:
    """The sites of a study, dealt by a seed."""
    asked = STUDIES[study]
    data = SOURCES.make(asked.data).load()
    if asked.scale and isinstance(data.prepare, TabularPrepare):
        data = replace(data, prepare=replace(data.prepare, scale=asked.scale))
    return deal_clients(data, asked.split, asked.clients, Key(seed).at("data"), one_class=True).clients


def scores(clients: Sequence[Client], method: str, seed: int, **options: Any) -> pd.DataFrame:
    """Loss and accuracy after the last round, by client."""
    run = coterie.train(
        "logistic",
        clients,
        method,
        rounds=ROUNDS,
        seed=seed,
        evaluate=ROUNDS,
        one_class="allow",
        progress=False,
        **options,
    )
    last = run.history[(run.history["round"] == ROUNDS) & (run.history["model"] == "own")]
    return last.pivot_table(index="client", columns="metric", values="value")


def pairs_of(study: str, seed: int) -> list[dict[str, Any]]:
    """A line for each requester and partner."""
    clients = clients_of(study, seed)
    found = coterie.similar(clients, seed=seed)
    before = found.pairs.set_index(["site", "other"])
    alone = scores(clients, "local", seed)
    lines = []
    for i, one in enumerate(clients):
        for other in clients[i + 1 :]:
            together = scores([one, other], "fedavg", seed)
            for a, b in ((one, other), (other, one)):
                told = before.loc[(a.name, b.name)]
                lines.append(
                    {
                        "study": study,
                        "seed": seed,
                        "requester": a.name,
                        "other": b.name,
                        "quantiles": told["quantile distance"] - told["quantile distance by chance"],
                        "transport": told["transport distance"] - told["transport distance by chance"],
                        "ndoye": told["transfer loss"],
                        "size": told["rows of the other"],
                        "gain_loss": alone.loc[a.name, "loss"] - together.loc[a.name, "loss"],
                        "gain_accuracy": together.loc[a.name, "accuracy"] - alone.loc[a.name, "accuracy"],
                    }
                )
    return lines


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """By study, seed and measure: rank correlation with each gain over all pairs, and within requesters."""
    lines = []
    for (study, seed), rows in frame.groupby(["study", "seed"], sort=False):
        for measure, sign in MEASURES.items():
            line = {"study": study, "seed": seed, "measure": measure}
            for gain in GAINS:
                line[f"{gain}, pairs"] = spearman(sign * rows[measure].to_numpy(), rows[gain].to_numpy())
                each = [
                    spearman(sign * own[measure].to_numpy(), own[gain].to_numpy())
                    for _, own in rows.groupby("requester")
                ]
                line[f"{gain}, requester"] = float(np.nanmean(each)) if np.isfinite(each).any() else math.nan
            lines.append(line)
    return pd.DataFrame(lines)


def choices(frame: pd.DataFrame) -> pd.DataFrame:
    """By study, seed and way to choose one partner: the mean gain in accuracy over requesters."""
    lines = []
    for (study, seed), rows in frame.groupby(["study", "seed"], sort=False):
        by_requester = [own for _, own in rows.groupby("requester")]
        for measure, sign in MEASURES.items():
            gains = [own.loc[(sign * own[measure]).idxmax(), "gain_accuracy"] for own in by_requester]
            lines.append({"study": study, "seed": seed, "choice": measure, "gain": np.mean(gains)})
        for name in ("mean", "max"):
            gains = [getattr(own["gain_accuracy"], name)() for own in by_requester]
            lines.append({"study": study, "seed": seed, "choice": name, "gain": np.mean(gains)})
    return pd.DataFrame(lines)


def around(values: pd.Series) -> tuple[float, float]:
    """Mean over seeds, and half of its 95 % interval."""
    known = values.dropna().to_numpy()
    if len(known) < 2:
        return (float(known.mean()) if len(known) else math.nan), math.nan
    return float(known.mean()), float(
        student.ppf(0.975, len(known) - 1) * known.std(ddof=1) / len(known) ** 0.5
    )


def cell(values: pd.Series, factor: float = 1.0, digits: int = 2) -> str:
    mean, half = (factor * v for v in around(values))
    return "—" if math.isnan(mean) else f"{mean:+.{digits}f} ± {half:.{digits}f}".replace("-", "−")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    bars = ["---", "---", *["---:"] * (len(header) - 2)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, bars, *rows))


def page(frame: pd.DataFrame, found: pd.DataFrame) -> str:
    """The tables, from a line for each pair and their correlations."""
    picked = choices(frame)
    kinds = [f"{gain}, {over}" for gain in GAINS for over in ("pairs", "requester")]
    first = ["study", "measure", "loss, all pairs", "loss, by requester", "accuracy, all pairs"]
    rows = [
        [study if measure == next(iter(MEASURES)) else "", CALLED[measure], *(cell(own[k]) for k in kinds)]
        for study, of_study in found.groupby("study", sort=False)
        for measure, own in of_study.groupby("measure", sort=False)
    ]
    ways = {**CALLED, "mean": "any partner, by chance", "max": "the best partner, in hindsight"}
    chosen = [
        [str(study), ways[choice], cell(own["gain"], 100, 1)]
        for study, of_study in picked.groupby("study", sort=False)
        for choice, own in of_study.groupby("choice", sort=False)
    ]
    seeds = sorted(frame["seed"].unique())
    return f"""# Similarity against the gain that training brought
{__doc__.split(chr(10))[0]}

For every ordered pair of sites: how alike they are before training, against what a model that both train
together by FedAvg ({ROUNDS} rounds, logistic) brings the first over the one that it trains alone, on its own
test rows. Distances are beyond what chance makes, and count as likeness: +1 says that who is more alike
brings more, 0 that it says nothing, below 0 that the far ones help. *Size alone* ranks by the partner's rows.

## Rank correlation
Spearman's, mean over seeds ± half of a 95 % interval over seeds, which share rows. Over all pairs of a study,
and among the partners of one requester (mean over requesters), by which one chooses.

{table([*first, "accuracy, by requester"], rows)}

## One partner, chosen by it
What the partner that each way ranks first brought in accuracy, in points, mean over requesters.

{table(["study", "chosen by", "gain, points"], chosen)}

{reading(found)}

- command: `{frame["command"].iloc[0]}`
- seeds: {seeds[0]} to {seeds[-1]}; {len(frame)} pairs, one line each in [similarity.csv](similarity.csv)
- commit: {frame["commit"].iloc[0]}
"""


def beyond(mean: float, half: float) -> bool:
    """Whether a mean lies above 0 by more than half of its interval, to the digits that are shown."""
    return round(mean, 2) > round(half, 2)


def reading(found: pd.DataFrame) -> str:
    """For each study which measures foretell the gain in loss better than size does, and than nothing."""
    kind, lines = "gain_loss, requester", []
    for study, rows in found.groupby("study", sort=False):
        by = rows.pivot_table(index="seed", columns="measure", values=kind)
        more = {m: around(by[m] - by["size"]) for m in MEASURES if m != "size"}
        above = [CALLED[m] for m, found_more in more.items() if beyond(*found_more)]
        below = [CALLED[m] for m, (mean, half) in more.items() if beyond(-mean, half)]
        said = [f"better than size alone: {', '.join(above) or 'none'}"]
        said += [f"worse: {', '.join(below)}"] if below else []
        right = [CALLED[m] for m in MEASURES if beyond(*around(by[m]))]
        said += [f"above 0: {', '.join(right) or 'none'}"]
        lines.append(f"- **{study}**: {'; '.join(said)}.")
    head = (
        "Among the partners of one requester, by the fall of the loss; differences are paired by seed, and\n"
        "*better*, *worse* and *above 0* are beyond a 95 % interval, each by itself:"
    )
    return "\n".join(["## What the table says", head, "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="the folder to write into")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CoterieWarning)
    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    lines = []
    for study in asked.studies:
        for seed in range(asked.seeds):
            lines += pairs_of(study, seed)
        print(f"{study}: {sum(line['study'] == study for line in lines)} pairs", flush=True)
    frame = pd.DataFrame(lines)
    some = [] if asked.studies == list(STUDIES) else ["--studies", *(f'"{s}"' for s in asked.studies)]
    command = " ".join(["python benchmarks/similarity.py", f"--seeds {asked.seeds}", *some])
    asked.out.mkdir(parents=True, exist_ok=True)
    table_of_pairs = asked.out / "similarity.csv"
    frame.assign(command=command, commit=commit).to_csv(table_of_pairs, index=False, float_format="%.6g")
    frame = pd.read_csv(table_of_pairs)
    (asked.out / "similarity.md").write_text(page(frame, correlations(frame)))


if __name__ == "__main__":
    main()
