"""coterie predict and export: what a person sees, from the run and from the folder without it."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coterie as package
from coterie.cli.main import main
from coterie.cli.predict import csv_of
from coterie.use import load

DOCS = Path(__file__).parents[2] / "docs"
HEADER = "age,dose,sex,sick\n"


def rows(seed, shift=0.0, many=60):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(many):
        age, dose, sex = rng.normal(50 + shift, 10), rng.normal(3, 1), rng.choice(["f", "m"])
        sick = "ill" if (age - 50) / 10 + dose - 3 + rng.normal() > 0 else "well"
        lines.append(f"{age:.1f},{dose:.2f},{sex},{sick}\n")
    return HEADER + "".join(lines)


PATIENTS = "sex,age,remark,dose\nm,70,x,4.5\nf,31.5,,1\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for i, name in enumerate(("north", "south")):
            Path(f"{name}.csv").write_text(rows(i, 5 * i))
        Path("patients.csv").write_text(PATIENTS)
        words = ["--data", "table", "--table.path", "north.csv", "south.csv", "--table.target", "sick"]
        assert main(["run", *words, "--method", "finetune", "--rounds", "8", "--out", "run"]) == 0
    return home


@pytest.fixture
def run(coterie, trained):
    """A run of two hospitals, a file each; patients beside it."""
    shutil.copytree(trained, Path.cwd(), dirs_exist_ok=True)
    return Path("run")


@pytest.fixture
def done(coterie):
    def call(*words: str) -> tuple[list[str], list[str]]:
        code, printed, said = coterie(*words)
        assert code == 0, said
        return printed.splitlines(), said.splitlines()

    return call


class TestPredict:
    def test_everywhere_the_same_bits(self, run, done):
        """The shell, the exported folder without its run, Python; whatever the order of columns."""
        printed, _ = done("predict", "run", "patients.csv", "--client", "south")
        assert printed[0] == "line,class,p(ill),p(well),trust"
        expected = load(run, "south").proba("patients.csv")
        found = np.array([[float(r["p(ill)"]), float(r["p(well)"])] for r in csv.DictReader(printed)])
        assert np.array_equal(found, expected)
        assert done("export", "run", "--client", "south", "--out", "model")[0] == [
            "model: model, of south; fill in what card.md leaves to you"
        ]
        shutil.rmtree("run")
        Path("south.csv").unlink()
        assert done("predict", "model", "patients.csv")[0] == printed
        Path("patients.csv").write_text("dose,age,sex\n4.5,70,m\n1,31.5,f\n")
        assert done("predict", "model", "patients.csv")[0] == printed
        frame = pd.DataFrame({"age": [70, 31.5], "sex": ["m", "f"], "dose": [4.5, 1]})
        assert np.array_equal(package.load("model").proba(frame), expected)

    def test_by_the_preparation_of_the_client(self, run, done):
        """South's own mean and deviation, and its own weights."""
        printed, _ = done("predict", "run", "patients.csv", "--client", "south")
        found = load(run, "south")
        way, layer = found.preparation, found.model.head
        age, dose, _ = (p.column for p in way.parts)
        x = [(70 - age.center) / age.spread, (4.5 - dose.center) / dose.spread, 0.0, 1.0]
        z = layer.weight.detach().double().numpy() @ x + layer.bias.detach().double().numpy()
        expected = np.exp(z[0]) / np.exp(z).sum()
        assert float(next(csv.DictReader(printed))["p(ill)"]) == pytest.approx(expected, abs=1e-6)

    def test_abstention_explanation_and_a_file(self, run, done):
        words = ("--client", "north", "--threshold", "0.999", "--explain", "2", "--out", "new/y.csv")
        printed, said = done("predict", "run", "patients.csv", *words)
        assert printed == ["2 rows: 2 unsure", "table: new/y.csv"]
        assert said == [
            "· columns of patients.csv that the model does not know, left out: remark",
            "· all 2 rows: values outside training's range",
        ]
        first, _ = csv.DictReader(Path("new/y.csv").read_text().splitlines())
        assert (first["line"], first["class"], first["unsure"]) == ("2", "", "yes")
        assert {first["pushed 1"].split("=")[0], first["pushed 2"].split("=")[0]} <= {"age", "dose", "sex"}

    def test_refusals(self, run, refused, coterie):
        said = "coterie: client 'west' is not in run: take one of north, south"
        assert refused("predict", "run", "patients.csv", "--client", "west") == said
        said = "coterie: run has models of 2 clients (north, south): say whose, such as --client north"
        assert refused("predict", "run", "patients.csv") == said
        said = "coterie: threshold=2.0 must lie in [0, 1]: try 0.7, or 0 to always answer"
        assert refused("predict", "run", "patients.csv", "--client", "north", "--threshold", "2") == said
        said = "coterie: explain=-1 must be at least 0: try 3"
        assert refused("predict", "run", "patients.csv", "--client", "north", "--explain", "-1") == said
        said = "coterie: out=patients.csv would overwrite what is read: choose another --out"
        assert refused("predict", "run", "patients.csv", "--out", "patients.csv") == said
        assert (
            refused("predict", "no", "patients.csv")
            == "coterie: no is no run and no exported model: check the path"
        )

    def test_all_that_is_wrong_with_a_file(self, run, coterie):
        Path("bad.csv").write_text("sex,age (months)\nx,old\nf,\n")
        code, printed, said = coterie("predict", "run", "bad.csv", "--client", "north")
        assert (code, printed) == (2, "")
        lines = said.splitlines()
        assert "coterie: bad.csv: column 'dose' is missing: add it" in lines
        assert any(
            line.startswith("coterie: bad.csv, line 2, column 'sex': 'x' is not one of f, m")
            for line in lines
        )
        assert any(
            line.startswith("coterie: bad.csv, line 2, column 'age': 'old' is not a number") for line in lines
        )

    def test_pictures_have_no_columns(self, coterie, refused):
        code, _, said = coterie("run", "--data", "digits", "--rounds", "1", "--clients", "2", "--out", "run")
        assert code == 0, said
        Path("x.csv").write_text("a\n1\n")
        assert refused("predict", "run", "x.csv", "--client", "client-0") == (
            "coterie: the model of 'client-0' takes pictures of 1x8x8, which columns of a table cannot be "
            "matched to: predict from Python, coterie.load(FOLDER).proba(array)"
        )


class TestTrust:
    """Every row gets a line; what cannot be predicted is skipped by name, or with --strict refuses all."""

    BAD = (
        "age,dose,sex\n50,3,f\n162,3,m\n-5,3,f\n50,3,x\nold,3,f\n50,,m\n50,3\n50,9.5,f\n48,3.1,m\n51,2.9,f\n"
    )

    @pytest.fixture
    def bad(self, run):
        Path("bad.csv").write_text(self.BAD)

    def rows(self, printed):
        return list(csv.DictReader(printed))

    def test_a_blank_row_in_the_middle_is_named_and_blank_ends_are_not(self, run, done):
        Path("gap.csv").write_text("age,dose,sex\n50,3,f\n,,\n48,3.1,m\n,,\n")
        printed, said = done("predict", "run", "gap.csv", "--client", "north", "--out", "y.csv")
        assert printed[0].startswith("3 rows: ")
        assert "· line 3 is skipped: the row is blank" in said

    def test_one_bad_row_is_skipped_by_name_and_the_others_are_predicted(self, bad, done):
        printed, said = done("predict", "run", "bad.csv", "--client", "north", "--out", "y.csv")
        assert printed[0].endswith(" 6 skipped")
        assert printed[0].startswith("10 rows: ")
        assert said == [
            "· 1 of 10 rows (line 9): values outside training's range",
            "· line 3 is skipped: age 162 cannot be (0 to 123 years)",
            "· line 4 is skipped: age -5 cannot be (0 to 123 years)",
            "· line 5 is skipped: sex 'x' is not one of f, m",
            "· line 6 is skipped: age 'old' is not a number",
            "· line 7 is skipped: dose is missing",
            "· 1 more is skipped: see trust in the table",
        ]
        table = self.rows(Path("y.csv").read_text().splitlines())
        assert [r["line"] for r in table] == [str(n) for n in range(2, 12)]
        assert [r["class"] == r["p(ill)"] == "" for r in table] == [False, *[True] * 6, *[False] * 3]
        assert table[6]["trust"] == "refused: 2 cells, but 3 columns: nothing for column 'sex'"
        assert [r["trust"] for r in (table[0], *table[8:])] == ["as in training"] * 3

    def test_the_exported_folder_says_the_same(self, bad, done):
        printed, said = done("predict", "run", "bad.csv", "--client", "north", "--explain", "1")
        done("export", "run", "--client", "north", "--out", "model")
        shutil.rmtree("run")
        assert done("predict", "model", "bad.csv", "--explain", "1") == (printed, said)

    def test_strict(self, bad, coterie):
        code, printed, said = coterie(
            "predict", "run", "bad.csv", "--client", "north", "--strict", "--out", "y.csv"
        )
        assert (code, printed) == (2, "")
        assert not Path("y.csv").exists()
        assert re.findall(r"^coterie: bad.csv, line (\d+)", said, re.M) == list("345678")
        Path("bad.csv").write_text("age,dose,sex\n50,3,f\n")
        assert coterie("predict", "run", "bad.csv", "--client", "north", "--strict")[0] == 0

    def test_nothing_is_left_to_predict(self, run, refused):
        Path("bad.csv").write_text("age,dose,sex\n162,3,m\n")
        assert refused("predict", "run", "bad.csv", "--client", "north", "--out", "y.csv") == (
            "coterie: bad.csv, line 2, column 'age': age 162 cannot be (0 to 123 years): correct it, or "
            "leave the row out"
        )

    def test_bounds_of_ones_own(self, run, done, refused):
        Path("mine.toml").write_text("[dose]\npossible = [0, 4]\n")
        _, said = done("predict", "run", "patients.csv", "--client", "north", "--ranges", "mine.toml")
        assert "· line 2 is skipped: dose 4.5 cannot be (0 to 4)" in said
        words = ("predict", "run", "patients.csv", "--client", "north")
        assert "no.toml" in refused(*words, "--ranges", "no.toml")
        assert refused(*words, "--ranges", "mine.toml", "--out", "mine.toml") == (
            "coterie: out=mine.toml would overwrite what is read: choose another --out"
        )

    def test_a_folder_of_an_earlier_version_says_that_it_does_not_know(self, run, done):
        path = Path("run/preparation.json")
        told = json.loads(path.read_text())
        for way in told.values():
            for column in way["columns"]:
                del column["training"]
        path.write_text(json.dumps(told))
        printed, said = done("predict", "run", "patients.csv", "--client", "north")
        assert {r["trust"] for r in self.rows(printed)} == {"training's range is not recorded"}
        assert (
            said[-1] == "· training's range is not recorded with this model, so rows are not held against it"
        )


class TestExport:
    def test_refusals(self, run, refused):
        assert refused("export", "run", "--client", "north") == (
            "coterie: no folder to write to: name one with --out"
        )
        said = "coterie: north.csv is there already: choose another folder"
        assert refused("export", "run", "--client", "north", "--out", "north.csv") == said

    def test_the_folder(self, run, done):
        done("export", "run", "--client", "north", "--out", "new/model")
        found = sorted(p.name for p in Path("new/model").iterdir())
        assert found == ["bundle.json", "card.md", "recipe.toml", "weights.safetensors"]
        assert "south.csv" not in Path("new/model/recipe.toml").read_text()
        assert Path("new/model/card.md").read_text().startswith("# Model of north\n")


def test_the_commands_of_the_page_work(coterie, run):
    Path("runs").mkdir()
    run.rename("runs/hospitals")
    (text,) = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "use.md").read_text(), re.M | re.S)
    for typed in text.splitlines():
        _, *words = shlex.split(typed, comments=True)
        code, _, said = coterie(*words)
        assert code == 0, said
    assert Path("predictions.csv").exists()


def test_the_table_is_written_as_pandas_writes_it():
    numbers = [0.1, 1e-7, 1e22, float("nan"), -0.0, 1 / 3]
    texts = ['a,"b"', "", "c\nd", None, "e;f", "ü"]
    table = pd.DataFrame({"line": range(2, 8), "p(a)": numbers, "trust": texts})
    assert csv_of(table) == table.to_csv(index=False)
