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
import json
from dataclasses import replace
from pathlib import Path

from coterie.engines.threads import narrow
from coterie.methods.advised import ALONE
from coterie.metrics.summary import HIGHER_IS_BETTER
from coterie.runs.advising import Question, advise, bench_of
from coterie.runs.experiment import Builder, experiment_of
from coterie.runs.runner import run
from coterie.runs.settings import Settings
from coterie.storage.atomic import write_whole

STUDIES = {
    "heart-disease": Settings(data="heart-disease"),
    "tcga-brca": Settings(data="tcga-brca"),
    "breast-cancer": Settings(data="breast-cancer", split="dirichlet", clients=5),
    "titanic": Settings(data="titanic", options={"sgd": {"lr": 0.5}}),
    "digits": Settings(data="digits", split="clusters", clients=6, rounds=20, options={"sgd": {"lr": 0.5}}),
}
COLUMNS = ("data", "seed", "client", "rows", "test_rows", "measure", "choice", "same", "promised", "half")
COLUMNS += ("alone", "gain")
HERE = Path(__file__).resolve().parents[1]


@narrow()
def one(name: str, seed: int, work: Path, jobs: int) -> list[dict]:
    """A row for each client: what it was told, and what that and every other way brought on its test rows."""
    done = work / name / f"seed-{seed}.json"
    if done.exists():
        return json.loads(done.read_text())
    settings, builder = STUDIES[name], Builder()
    options = {**settings.options, "advised": {}}
    question = Question(replace(settings, method="advised", seed=seed, options=options))
    advice = advise(question, work / name / f"seed-{seed}", jobs=jobs, builder=builder)
    bench, _ = bench_of(question, builder)
    metric, tested = advice.metric, dict[str, list[float]]()
    for spec, way in bench.ways.items():
        config = {**bench.config, "method": way.name, "evaluate": int(bench.config["rounds"])}
        experiment = experiment_of(
            bench.footing, config, way, connector=bench.connector, engine=bench.engine, command=None
        )
        tested[spec] = run(experiment, None, spec).record.final(metric)
        experiment.net.close()
    sign, rows = 1 if HIGHER_IS_BETTER[metric] else -1, []
    for i, a in enumerate(advice.answers):
        gains = {spec: sign * (found[i] - tested[ALONE][i]) for spec, found in tested.items()}
        member = bench.footing.roster.members[i]
        row = [name, seed, a.client, member.train, member.test, metric, a.choice]
        row += [
            a.repeats.get(a.choice, 0),
            a.expected.mean,
            a.expected.half,
            tested[ALONE][i],
            gains[a.choice],
        ]
        told = dict(zip(COLUMNS, row, strict=True))
        told |= {f"cv {spec}": a.gains[spec].mean for spec in a.gains}
        told |= {f"cv half {spec}": a.gains[spec].half for spec in a.gains}
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
    rows = []
    for seed in range(given.first, given.first + given.seeds):
        for name in given.only:
            rows += one(name, seed, given.work, given.jobs)
            print(f"{name} seed {seed}: done", flush=True)
    write(rows, given.out, f"python benchmarks/advise.py --seeds {given.seeds}", given.first)


def write(rows: list[dict], out: Path, command: str, first: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "advise.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(k for row in rows for k in row)), lineterminator="\n")
        table.writeheader()
        table.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )


if __name__ == "__main__":
    main()
