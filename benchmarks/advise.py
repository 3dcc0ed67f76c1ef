"""Is advice worth following? Advice on training rows, held against what following it brought on test rows.

For every data set and seed: `coterie advise` as it is, then every way on all training rows, scored on the
test rows that no trial saw. What is advised scores what its way scores, to the last bit
(tests/methods/test_advised.py), so nothing has to run twice.

    python benchmarks/advise.py --seeds 10                    # writes docs/results/advise.csv and advise.md
    python benchmarks/advise.py --seeds 2 --only titanic --out /tmp/look

It goes on where it was cut off: trials and finished seeds are kept below --work.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from coterie.engines.threads import narrow
from coterie.features.advice.question import Question, advise, bench_of
from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval, interval, telling
from coterie.metrics.table import METRICS, headline
from coterie.runs.builder import Builder
from coterie.runs.experiment import experiment_of
from coterie.runs.loop import run
from coterie.runs.settings import Settings
from coterie.show import numbers
from coterie.storage.atomic import write_whole

STUDIES = {
    "heart-disease": Settings(data="heart-disease"),
    "tcga-brca": Settings(data="tcga-brca"),
    "breast-cancer": Settings(data="breast-cancer", split="dirichlet", clients=5),
    "titanic": Settings(data="titanic"),
    "digits": Settings(data="digits", split="clusters", clients=6, rounds=20, options={"sgd": {"lr": 0.5}}),
}
COLUMNS = (
    "data",
    "seed",
    "client",
    "rows",
    "test_rows",
    "measure",
    "choice",
    "same",
    "promised",
    "low",
    "high",
)
COLUMNS += ("alone", "gain", "commit")
HERE = Path(__file__).resolve().parents[1]


@narrow()
def one(name: str, seed: int, work: Path, jobs: int) -> list[dict]:
    """A row for each client: what it was told, and what that and every other way brought on its test rows."""
    done = work / name / f"seed-{seed}.json"
    if done.exists():
        return json.loads(done.read_text())
    settings, builder = STUDIES[name], Builder()
    # the same measure in every seed, however rows are dealt: else figures could not be averaged
    task = "survival" if name == "tcga-brca" else "classification"
    options = {**settings.options, "advised": {"measure": headline(task)}}
    question = Question(replace(settings, method="advised", seed=seed, options=options))
    advice = advise(question, work / name / f"seed-{seed}", jobs=jobs, builder=builder)
    bench, _ = bench_of(question, builder)
    metric, tested = advice.metric, dict[str, list[float]]()
    for spec, way in bench.ways.items():
        its = replace(bench.settings, method=way.name, evaluate=bench.settings.rounds)
        experiment = experiment_of(
            bench.setup, its, way, connector=bench.connector, engine=bench.engine, command=None
        )
        tested[spec] = run(experiment, None, spec).record.final(metric)
        experiment.net.close()
    sign, rows = 1 if METRICS[metric].higher else -1, []
    for i, a in enumerate(advice.answers):
        gains = {spec: sign * (found[i] - tested[ALONE][i]) for spec, found in tested.items()}
        member = bench.setup.roster.members[i]
        row = [name, seed, a.client, member.train, member.test, metric, a.choice]
        row += [a.repeats.get(a.choice, 0), a.expected.mean, *a.expected.bounds]
        row += [tested[ALONE][i], gains[a.choice], commit()]
        told = dict(zip(COLUMNS, row, strict=True))
        told |= {f"cv {spec}": a.gains[spec].mean for spec in a.gains}
        for end, side in enumerate(("low", "high")):
            told |= {f"cv {side} {spec}": a.gains[spec].bounds[end] for spec in a.gains}
        rows.append(told | {f"test {spec}": gains[spec] for spec in a.gains})
    write_whole(done, json.dumps(rows))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--only", nargs="*", default=list(STUDIES), choices=list(STUDIES))
    asked.add_argument("--work", type=Path, default=Path("runs/advise-study"))
    asked.add_argument("--out", type=Path, default=HERE / "docs" / "results")
    asked.add_argument("--jobs", type=int, default=0)
    given = asked.parse_args()
    commit()
    rows = []
    for seed in range(given.first, given.first + given.seeds):
        for name in given.only:
            rows += one(name, seed, given.work, given.jobs)
            print(f"{name} seed {seed}: done", flush=True)
    write(rows, given.out, f"python benchmarks/advise.py --seeds {given.seeds}")


def write(rows: list[dict], out: Path, command: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "advise.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)), lineterminator="\n")
        table.writeheader()
        table.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )
    (out / "advise.md").write_text(page(rows, command))


# what came out


def page(rows: list[dict], command: str) -> str:
    names = list(dict.fromkeys(row["data"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})
    clients = [line for name in names for line in client_lines(of(rows, data=name))]
    worse = sum(line[-1] == "worse" for line in clients)
    better = sum(line[-1] == "better" for line in clients)
    followed = [row for row in rows if row["choice"] != ALONE and known(row["gain"])]
    at = ", ".join(dict.fromkeys(row["commit"] for row in rows))
    texts = {
        "command": f"`{command}`, seeds {seeds[0]} to {seeds[-1]}, commit {at}",
        "seeds": len(seeds),
        "clients": len(clients),
        "worse": worse,
        "better": better,
        "followed": len(followed),
        "asked": len(rows),
        "then": then(followed),
        "sets": table(SETS, [set_line(name, of(rows, data=name)) for name in names]),
        "table": table(CLIENTS, clients),
    }
    return PAGE.format(**texts)


def then(followed: list[dict]) -> str:
    """What came of answers to join, if there were any."""
    if not followed:
        return "Nobody could be promised a gain, so that nothing was gained or lost by following it."
    gained, lost = (sum(sign * row["gain"] > 0 for row in followed) for sign in (1, -1))
    held = sum(row["low"] <= row["gain"] <= row["high"] for row in followed)
    below = sum(row["gain"] < row["low"] for row in followed)
    return (
        f"On its test rows the client then gained in {gained} of them and lost in {lost}.\n"
        f"- **The promise**: the test figure lay within the promised 95 % interval in {held} of "
        f"{len(followed)}, below it in {below}. A single test set of a few dozen rows adds noise of its own, "
        "so that fewer than 95 % are to be expected inside."
    )


SETS = ("data", "measure", "alone", "advised: gain", "told to join", "then: gain", "promise held")
SETS += ("best single way in hindsight",)
CLIENTS = ("data", "client", "rows", "test rows", "alone", "told to join", "gain over alone", "")


def set_line(name: str, rows: list[dict]) -> list[str]:
    joined = [row for row in rows if row["choice"] != ALONE and known(row["gain"])]
    held = sum(row["low"] <= row["gain"] <= row["high"] for row in joined)
    ways = [k.removeprefix("test ") for k in rows[0] if k.startswith("test ")]
    each = {way: by_seed(rows, f"test {way}") for way in ways}
    best = max(each, key=lambda way: each[way].mean)
    return [
        name,
        numbers.called(rows[0]["measure"]),
        shown(mean([row["alone"] for row in rows]), rows),
        spread(by_seed(rows, "gain"), rows),
        f"{len(joined)} of {len(rows)}",
        shown(mean([row["gain"] for row in joined]), rows, sign=True),
        f"{held} of {len(joined)}",
        f"{best} {spread(each[best], rows)}",
    ]


def client_lines(rows: list[dict]) -> list[list[str]]:
    lines = []
    for client in dict.fromkeys(row["client"] for row in rows):
        mine = of(rows, client=client)
        gain = by_seed(mine, "gain")
        joined = sum(row["choice"] != ALONE for row in mine)
        verdict = {1: "better", -1: "worse"}.get(gain.side, "")
        lines.append(
            [
                mine[0]["data"],
                client,
                *(f"{np.mean([row[k] for row in mine]):.0f}" for k in ("rows", "test_rows")),
                shown(mean([row["alone"] for row in mine]), mine),
                f"{joined} of {len(mine)}",
                spread(gain, mine),
                verdict,
            ]
        )
    return lines


def by_seed(rows: list[dict], column: str) -> Interval:
    """The mean over clients of each seed, then over seeds that split the same rows anew."""
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    values = [mean([row.get(column) for row in of(rows, seed=seed)]) for seed in seeds]
    overlap = np.mean([row["test_rows"] / row["rows"] for row in rows])
    return telling(interval(values, overlap=float(overlap)))


def mean(values: Sequence[float | None]) -> float:
    """Of those that are known; NaN of none."""
    found = [v for v in values if known(v)]
    return float(np.mean(found)) if found else float("nan")


def of(rows: list[dict], **which: object) -> list[dict]:
    return [row for row in rows if all(row[k] == v for k, v in which.items())]


def known(value: float | None) -> bool:
    return value is not None and value == value


def shown(value: float, rows: list[dict], sign: bool = False) -> str:
    return numbers.figure(value, rows[0]["measure"], sign=sign)


def spread(found: Interval, rows: list[dict]) -> str:
    return numbers.spread(found, rows[0]["measure"], sign=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [header, *rows]]
    return "\n".join([lines[0], "| --- | --- " + "| ---: " * (len(header) - 2) + "|", *lines[1:]])


@functools.cache  # of the code that runs: the first call is before the first run
def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=HERE
    )
    return found.stdout.strip() or "unknown"


PAGE = """# Is advice worth following?
`coterie advise` on each client's training rows, then what following it brought on test rows that no trial had
seen. Five data sets, {seeds} seeds that split the rows anew: {asked} answers. [CSV](advise.csv);
{command}.

Settings are the usual ones (5 parts, 3 inside each), with a learning rate of 0.5 for digits as in
the demo. Heart disease, and the survival of breast-cancer patients (TCGA), are real silos; Titanic is split
by age; breast cancer goes to five clients by Dirichlet label skew, digits to six, of which three see them
upside down. Accuracies are in per cent and points. Intervals are 95 %, over seeds that share rows and
corrected for it ([which is which](../measures.md)).

## What following it brought
{sets}

- **Never worse than alone by more than its interval**: of {clients} clients {worse} are. {better} are better
  by more than theirs.
- The advice was to join others in {followed} of {asked} answers. {then}
- **There is little to gain here.** Even the best single way in hindsight, which is picked by the very test
  rows that it is measured on, so that nobody could have followed it, is hardly above alone. Where nothing is
  to be gained the right answer is alone. An answer to join needs a promise whose interval lies above 0
  ([how it is found](../advice.md)); a gain of a point or two is less than so few rows can promise, and the
  answers say so.

## Client by client
{table}

*gain over alone*: the mean over seeds of advised minus alone on the client's own test rows (turned where
lower is better); 0 where the advice was to stay alone.
"""


if __name__ == "__main__":
    main()
