"""What commands print as the next one to run does run, as it is printed."""

from __future__ import annotations

import csv
import random
import shlex
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.runs.settings import read_toml

GOALS = {
    "classification": (["--target", "ill"], "logistic"),
    "several classes": (["--target", "stage of it"], "logistic"),
    "regression": (["--target", "days"], "linear"),
    "survival": (["--target", "days", "--event", "ill"], "linear"),
}


@pytest.fixture
def two_sites(tmp_path, monkeypatch):
    """Files of two sites, in a folder with a blank in its name."""
    rng, folder = random.Random(0), tmp_path / "my tables"
    folder.mkdir()
    for name in ("north", "south"):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "crp", "ill", "stage of it", "days"])
            for _ in range(40):
                ill, stage = rng.choice(["yes", "no"]), rng.choice("ABC")
                writer.writerow(
                    [
                        rng.randint(30, 90),
                        f"{rng.gauss(9, 3):.1f}",
                        ill,
                        stage,
                        f"{rng.expovariate(1):.2f}",
                    ]
                )
    monkeypatch.chdir(tmp_path)
    return ["my tables/north.csv", "my tables/south.csv"]


def next_command(said: str) -> list[str]:
    (line,) = (line for line in said.splitlines() if line.startswith("next: "))
    return shlex.split(line[line.index("coterie ") :])[1:]


@pytest.mark.parametrize("goal", GOALS)
def test_the_next_line_of_inspect_runs_as_printed(two_sites, capsys, goal):
    words, model = GOALS[goal]
    assert main(["table", "inspect", *two_sites, *words, "--out", "my tables/recipe.toml"]) == 0
    command = next_command(capsys.readouterr().out)
    assert main([*command, "--rounds", "2", "--out", "run"]) == 0, capsys.readouterr().err
    assert read_toml(Path("run") / "config.toml")["model"] == model  # the record names what auto was


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("regression", ["compare", "--methods", "local", "fedavg", "--seeds", "1", "--rounds", "1"]),
        ("survival", ["rank", "--requester", "north"]),
        ("regression", ["advise", "--requester", "north", "--rounds", "1", "--inner", "0"]),
        ("regression", ["similar"]),
        ("survival", ["check"]),
    ],
)
def test_every_command_takes_the_natural_model_of_a_recipe(two_sites, capsys, goal, words):
    assert main(["table", "inspect", *two_sites, *GOALS[goal][0], "--out", "r.toml"]) == 0
    assert main([words[0], "--recipe", "r.toml", *words[1:], "--out", "out"]) == 0, capsys.readouterr().err


def test_the_natural_model_without_a_recipe(two_sites, capsys):
    words = ["--data", "table", "--table.path", *two_sites, "--table.target", "days", "--rounds", "1"]
    assert main(["run", *words, "--out", "run"]) == 0, capsys.readouterr().err
    assert read_toml(Path("run") / "config.toml")["model"] == "linear"
