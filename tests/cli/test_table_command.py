import runpy
from pathlib import Path

import pytest

from coterie.runs.folder import read_record

SITES = ("lakeview", "northgate", "riverside", "saint_mary", "hilltop")
TARGET = ("--target", "heart_disease")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("five")
    script = Path(__file__).parents[2] / "examples" / "five_hospitals.py"
    runpy.run_path(str(script))["main"](str(folder))
    return folder


def test_inspect_fits_80_columns_and_run_follows_its_recipe(coterie, made, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    files = [str(made / f"{s}.csv") for s in SITES]
    code, out, err = coterie("table", "inspect", *files, *TARGET, "--out", "my.toml")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert " hilltop     60    0    60" in out
    assert "cholesterol" in out
    assert "questions for you (12):" in out
    assert out.splitlines()[-1] == "next: edit it, then coterie run --recipe my.toml"
    code, _, err = coterie("table", "inspect", *files, *TARGET, "--out", "my.toml")
    assert (code, err) == (2, "coterie: my.toml exists: give another with --out, or remove it first\n")
    code, _, err = coterie("run", "--recipe", "my.toml", "--rounds", "1", "--out", "run")
    assert code == 0, err
    assert "columns absent: cholesterol at saint_mary, creatinine at saint_mary" in err
    assert (Path("run") / "recipe.toml").read_text() == Path("my.toml").read_text()
    names = [c["name"] for c in read_record(Path("run")).about["clients"]]
    assert sorted(names) == sorted(SITES)


def test_what_a_person_should_decide_is_refused_all_at_once(coterie, made):
    files = [str(made / f"{s}.csv") for s in ("lakeview", "riverside")]
    flags = ("--data", "table", "--table.path", *files, "--table.target", "heart_disease")
    code, out, err = coterie("run", *flags)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "coterie: column 'sex': is 'gender' of riverside the same as 'sex' of others?",
        "coterie: column 'discharge_code': likely leak, left out: its name (discharge) is that of "
        "something known only afterwards. If it is known before the target, set use back",
        f"coterie: 2 question(s) for you: coterie table inspect {' '.join(files)} --target heart_disease "
        "writes a recipe to edit",
    ]
    assert not Path("runs").exists()


def test_one_file_is_not_dealt_to_invented_clients_unasked(coterie, made):
    flags = ("--data", "table", "--table.path", str(made / "lakeview.csv"), "--table.target", "heart_disease")
    code, _, err = coterie("run", *flags)
    assert code == 2
    assert err.splitlines()[-1] == (
        "coterie: lakeview does not say whose its rows are: name the column with --table.site, or deal "
        "them to invented clients with --split iid --clients 10"
    )


def test_a_single_site_is_called_by_its_file(coterie, made):
    coterie("table", "inspect", str(made / "lakeview.csv"), *TARGET, "--out", "my.toml")
    code, _, err = coterie("run", "--recipe", "my.toml", "--method", "local", "--rounds", "1", "--out", "run")
    assert code == 0, err
    assert [c["name"] for c in read_record(Path("run")).about["clients"]] == ["lakeview"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("table", "inspct"), "unknown table command 'inspct': did you mean inspect?"),
        (("table", "inspect"), "no file to look at: give one for each site, or one with --site COLUMN"),
        (
            ("table", "inspect", "none.csv"),
            "cannot read 'none.csv': No such file or directory: check the path",
        ),
        (
            ("run", "--recipe", "none.toml"),
            "cannot read 'none.toml': No such file or directory: check the path",
        ),
        (
            ("run", "--recipe", "none.toml", "--table.target", "x"),
            "--table.target beside a recipe, which has that already: edit none.toml",
        ),
        (
            ("run", "--data", "table"),
            "a table needs a recipe, or files and a target: give --recipe FILE, or --table.path FILE "
            "--table.target COLUMN",
        ),
    ],
)
def test_refusals(coterie, words, said):
    code, out, err = coterie(*words)
    assert (code, out, err) == (2, "", f"coterie: {said}\n")


def test_files_that_cannot_be_read_are_told_with_their_lines(coterie, made):
    Path("a.csv").write_text("age,ill\n1,yes,2\n2,no\n")
    Path("b.csv").write_text("age,ill\n")
    code, _, err = coterie("table", "inspect", "a.csv", "b.csv", "--target", "ill")
    assert code == 2
    assert err.splitlines() == [
        "coterie: a.csv, line 2: 3 cells, but 2 columns: '2' is in none: quote cells that hold a separator, "
        "or mend the row",
        "coterie: b.csv, line 1: a header of 2 columns, but no rows: add some",
    ]
    assert not Path("recipe.toml").exists()


def test_many_sites_and_long_names_still_fit(coterie, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    header = ",".join(
        ["ill", "a very long name of a column that goes on and on", *(f"x{i}" for i in range(5))]
    )
    for i in range(25):
        rows = "\n".join(f"{'yes' if j % 2 else 'no'},{j}" + f",{j % 7}.5" * 5 for j in range(20))
        Path(f"site{i}.csv").write_text(f"{header}\n{rows}\n")
    code, out, err = coterie("table", "inspect", *(f"site{i}.csv" for i in range(25)), "--target", "ill")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    assert "25 sites: too many for a matrix" in out
