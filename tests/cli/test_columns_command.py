"""--forbid and --require as a person uses them: a run, its record, predictions, resuming, mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from test_predict import PATIENTS, rows

from coterie.runs.folder import read_record

SITES = ("north", "south", "west")


@pytest.fixture
def tables(coterie):
    """Three hospitals, of which the west has no dose."""
    for i, name in enumerate(SITES):
        lines = [line.split(",") for line in rows(i, 5 * i).splitlines()]
        told = [[c for k, c in enumerate(line) if k != 1 or name != "west"] for line in lines]
        Path(f"{name}.csv").write_text("\n".join(",".join(line) for line in told))
    words = ("table", "inspect", *(f"{name}.csv" for name in SITES), "--target", "sick", "--out", "my.toml")
    code, _, said = coterie(*words)
    assert code == 0, said
    Path("patients.csv").write_text(PATIENTS)


def about(folder):
    return read_record(Path(folder)).about


def test_from_a_run_to_predictions(tables, coterie):
    asked = ("--forbid", "sex", "--require", "dose", "--rounds", "2")
    code, _, said = coterie("run", "--recipe", "my.toml", *asked, "--out", "run")
    assert code == 0, said
    assert "column sex is forbidden: it is no input of any model" in said
    assert "clients left out, as they do not record dose: west" in said
    assert about("run")["features"] == ["age", "dose"]
    assert [c["name"] for c in about("run")["clients"]] == ["north", "south"]
    config = tomllib.loads(Path("run/config.toml").read_text())
    assert (config["forbid"], config["require"]) == (["sex"], ["dose"])

    code, printed, said = coterie("predict", "run", "patients.csv", "--client", "north")
    assert code == 0, said
    assert "columns of patients.csv that the model does not know, left out: sex, remark" in said
    Path("less.csv").write_text("age,dose\n70,4.5\n31.5,1\n")
    assert coterie("export", "run", "--client", "north", "--out", "model")[0] == 0
    assert coterie("predict", "model", "less.csv")[:2] == (0, printed)

    models = Path("run/models.safetensors")
    before = models.read_bytes()
    models.unlink()
    code, _, said = coterie("resume", "run")
    assert code == 0, said
    assert models.read_bytes() == before


def test_runs_without_them_have_the_settings_that_they_had(coterie):
    words = ("run", "--data", "breast-cancer", "--clients", "3", "--rounds", "1")
    assert coterie(*words, "--out", "run")[0] == 0
    assert not {"forbid", "require"} & tomllib.loads(Path("run/config.toml").read_text()).keys()


def test_a_comparison_of_a_file_of_settings(tables, coterie):
    Path("my-run.toml").write_text(
        'data = "table"\nforbid = ["dose"]\nrounds = 1\n[table]\nrecipe = "my.toml"\n'
    )
    code, _, said = coterie(
        "compare", "--config", "my-run.toml", "--methods", "local", "fedavg", "--seeds", "1", "--out", "both"
    )
    assert code == 0, said
    runs = sorted(Path("both").glob("*/*/config.toml"))
    assert [path.parts[1] for path in runs] == ["fedavg", "local", "nothing"]
    assert all(about(path.parent)["features"] == ["age", "sex=f", "sex=m"] for path in runs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--forbid sx", "unknown column of my 'sx': did you mean sex?"),
        (
            "--forbid sick",
            "column 'sick' is what is predicted, and is never an input: leave it out of forbid",
        ),
        ("--forbid site", "column 'site' says whose a row is, and is never an input: leave it out of forbid"),
        ("--forbid age dose sex", "forbidding age, dose, sex leaves my no input: forbid fewer columns"),
        ("--forbid sex --require sex", "column 'sex' is forbidden and required"),
        ("--require height", "unknown column of my 'height'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(tables, refused, words, said):
    assert said in refused("run", "--recipe", "my.toml", *words.split())


def test_pictures_and_too_few_clients(tables, refused):
    said = "inputs of digits are not columns that have names: leave forbid and require out"
    assert said in refused("run", "--data", "digits", "--forbid", "sex")
    path = Path("my.toml")
    path.write_text(path.read_text().replace('north = "north.csv"\n', ""))
    assert "1 of 2 clients record dose, at least 2 are needed" in refused(
        "run", "--recipe", "my.toml", "--require", "dose"
    )
