"""docs/hospital.md is true: its commands run as they stand, in turn, and do what the page says."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import coterie
from coterie.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hospital.md").read_text()
COMMANDS = PAGE.partition("```sh\n")[2].partition("```")[0].strip().splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where all commands of the page were run, and what each printed."""
    here, said = tmp_path_factory.mktemp("hospitals"), list[str]()
    shutil.copytree(ROOT / "examples", here / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("COLUMNS", "80")
        python, *rest = COMMANDS
        made = subprocess.run(
            [sys.executable, *shlex.split(python)[1:]], capture_output=True, text=True, check=True, timeout=60
        )
        said.append(made.stdout)
        for command in rest:
            said.append(run(command))
    return here / "hospitals", said


def run(command: str) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(shlex.split(command)[1:])
    assert code == 0, err.getvalue()
    return out.getvalue()


def test_at_most_eight_commands():
    assert 1 < len(COMMANDS) <= 8
    assert all(c.startswith("coterie ") for c in COMMANDS[1:])


def test_the_recipe_holds_the_questions_of_the_page(place):
    folder, said = place
    recipe = (folder / "recipe.toml").read_text()
    assert "# question: is 'Alter' of northgate the same as 'age' of others?" in recipe
    for line in ("n other name", "questions for you (12)", "likely leak, left out"):
        assert line in said[1]


def test_models_scores_and_pages_are_there(place):
    folder, _ = place
    for path in (
        "study/report.html",
        "rank/ranking.csv",
        "together/models.safetensors",
        "together/recipe.toml",
    ):
        assert (folder / path).stat().st_size
    assert {p.name for p in (folder / "lakeview-model").iterdir()} == {
        "bundle.json",
        "card.md",
        "recipe.toml",
        "weights.safetensors",
    }


def test_the_same_from_the_run_the_folder_and_python_whatever_the_order_of_columns(place, tmp_path):
    folder, said = place
    by_run = pd.read_csv(folder / "predictions.csv", keep_default_na=False)
    by_folder = coterie.load(folder / "lakeview-model").table(folder / "patients.csv")
    raw = pd.read_csv(folder / "patients.csv", dtype=str, keep_default_na=False)
    raw[raw.columns[::-1]].to_csv(tmp_path / "turned.csv", index=False)
    turned = coterie.load(folder / "lakeview-model").table(tmp_path / "turned.csv")
    assert len(by_run) == len(raw) > 5
    for column in ("p(no)", "p(yes)"):
        assert by_folder[column].tolist() == by_run[column].tolist() == turned[column].tolist()
    assert set(by_run["class"]) == {"yes", "no", ""}  # some are unsure
    printed = said[-1].strip().splitlines()
    assert len(printed) == len(raw) + 1
    assert printed[1].split(",")[2] == repr(float(by_run["p(no)"][0]))
