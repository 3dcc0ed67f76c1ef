"""A survival over a real federation: two sites with times and events give the numbers of one machine."""

from __future__ import annotations

import csv
import json
import random

import pytest
from ward import LONG, Ward

from coterie.cli.main import main

RECIPE = """\
target = "days"
event = "died"
[sites]
a = "a.csv"
b = "b.csv"
[columns.age]
use = "number"
[columns.dose]
use = "number"
[columns.days]
use = "number"
[columns.died]
use = "flag"
values = ["no", "yes"]
"""


def write_tables(folder) -> None:
    for i, name in enumerate("ab"):
        draws = random.Random(i)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["age", "dose", "days", "died"])
            for _ in range(40 + 9 * i):
                age, dose = draws.gauss(0, 1), draws.gauss(i, 1)
                event, watched = draws.expovariate(2.0**age), draws.uniform(0.1, 3)
                days = max(0.01, round(min(event, watched), 2))
                table.writerow([f"{age:.3f}", f"{dose:.3f}", days, "yes" if event <= watched else "no"])
    (folder / "recipe.toml").write_text(RECIPE)


@pytest.mark.slow
def test_sites_give_the_numbers_of_one_machine(here_of, tmp_path):
    ward = Ward(here_of("relay", "a", "b"), tmp_path / "ward", ("a", "b"))
    write_tables(ward.folder)
    ward.open()
    for method in ("fedavg", "ndoye", "greedy"):
        words = ["--method", method, "--rounds", "2"]  # and the natural model of a survival
        assert ward.run(method, *words).wait(LONG) == 0
        near = tmp_path / method
        where = ["--recipe", str(ward.recipe), "--engine", "loop", "--out", str(near)]
        assert main(["run", *words, *where]) == 0
        alone = [json.loads(line) for line in (near / "metrics.jsonl").read_text().splitlines()]
        for far, one in zip(ward.numbers(method), alone, strict=True):
            assert far["scores"] == one["scores"]
        assert all(0 <= c <= 1 for c in alone[-1]["scores"]["own/test"]["concordance"])
    refused = ward.run("dp", "--method", "fedavg", "--model", "linear", "--kernel", "dp(sgd)")
    assert refused.wait(LONG) == 2
    assert any("dp cannot train a survival" in line for line in refused.lines)
