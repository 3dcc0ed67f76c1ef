"""coterie check: what a person sees, what is written, what is refused; and the same from Python."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from small_sites import drawn

import coterie as package
from coterie.cli.main import main
from coterie.core.errors import BadInput, BadRun, CoterieError
from coterie.data.quality.ranges import read_ranges
from coterie.features.quality.shown import headline, quality_part, read_quality, report_blocks
from coterie.show.html import blocks_to_html
from coterie.show.parts import Runs
from coterie.show.words import Words

TITLE = Words("en")("quality.title")


def frame(seed, n=90):
    """A hospital's table whose columns go together."""
    draws = np.random.default_rng(seed)
    frail = draws.normal(size=n)
    return pd.DataFrame(
        {
            "temperature": (37 + 0.4 * frail + 0.3 * draws.normal(size=n)).round(1),
            "glucose": drawn(seed, n, 0.2, 110),
            "pulse": (80 + 8 * frail + 5 * draws.normal(size=n)).round(),
            "ill": np.where(frail + draws.normal(size=n) > 0, "yes", "no"),
        }
    )


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Three files and a recipe. In south.csv lines 4, 5 and 6 have glucose in mmol/l, line 10 has a
    temperature that cannot be, and line 3 no target.
    """
    monkeypatch.chdir(tmp_path)
    frames = {name: frame(i) for i, name in enumerate(("north", "south", "west"))}
    south = frames["south"]
    south.loc[[2, 3, 4], "glucose"] = (south.loc[[2, 3, 4], "glucose"] / 18.016).round(2)
    south.loc[8, "temperature"] = 370.0
    south["ill"] = south["ill"].astype(object)
    south.loc[1, "ill"] = None
    for name, table in frames.items():
        table.to_csv(f"{name}.csv", index=False)
    recipe = 'target = "ill"\nunlabelled = "drop"\n[sites]\n' + "".join(f'{n} = "{n}.csv"\n' for n in frames)
    units = {"temperature": "°C", "glucose": "mg/dl", "pulse": "bpm"}
    recipe += "".join(f'[columns.{c}]\nuse = "number"\nunit = "{u}"\n' for c, u in units.items())
    (tmp_path / "recipe.toml").write_text(recipe + '[columns.ill]\nuse = "flag"\nvalues = ["no", "yes"]\n')
    return frames


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main(["check", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


FAST = ("--checks", "ranges", "units", "missing")


def test_findings_name_lines_of_the_file_and_end_with_0(run, tables, tmp_path):
    code, printed, said = run("--recipe", "recipe.toml", *FAST, "--out", "out")
    assert code == 0, said
    told = json.loads((tmp_path / "out" / "quality.json").read_text())
    found = {(f["site"], f["kind"], f["severity"]): f for f in told["findings"]}
    assert found["south", "units", "likely"]["lines"] == [4, 5, 6]
    assert found["south", "ranges", "impossible"]["lines"] == [10]
    assert "values of glucose that look like mmol/l among mg/dl: 3 of 89 (3.37 %)" in " ".join(
        printed.split()
    )
    assert "no verdict" in printed
    assert "north (90 rows)" in printed
    assert told["about"]["command"].startswith("coterie")
    assert (tmp_path / "out" / "quality.json").stat().st_mode & 0o077 == 0
    page = (tmp_path / "out" / "quality.html").read_text()
    assert "4, 5, 6" in page
    assert "for their own eyes" in page


def test_a_run_gets_a_part_of_its_report_without_rows(run, tables, tmp_path, capsys):
    assert main(["run", "--recipe", "recipe.toml", "--rounds", "1", "--out", "ours"]) == 0
    assert TITLE not in (tmp_path / "ours" / "report.html").read_text()
    code, _, said = run("--run", "ours", *FAST)
    assert code == 0, said
    page = (tmp_path / "ours" / "report.html").read_text()
    assert f">{TITLE}</h2>" in page
    assert "look like mmol/l among mg/dl" in page
    assert "4, 5, 6" not in page
    assert main(["report", "ours"]) == 0  # it stays
    assert "look like mmol/l" in (tmp_path / "ours" / "report.html").read_text()
    (tmp_path / "ours" / "quality.json").write_text('{"findings": 3}')
    capsys.readouterr()
    assert main(["report", "ours"]) == 2
    assert "quality.json is damaged" in capsys.readouterr().err


REFUSED = {
    "--data heart-disease --checks unit": "unknown check 'unit': did you mean units?",
    "--data heart-disease --worth": "--worth is for one client: say which, --requester NAME",
    "--data heart-disease --requester va": "--requester va asks with --worth alone: add it, or leave it out",
    "--data heart-disease --ranges none.toml": "cannot read 'none.toml': No such file or directory",
    "--data digits": "digits has no columns of numbers, and check looks at tables",
    "--run ours --data digits": "--data beside --run, which has its own data and place: leave it out",
    "--run ours --shift.order file": "--shift.order beside --run",
    "--run nowhere": "nowhere",
    "--data diabetes --net processes": "--net processes moves models, and a check has none: leave it out",
    "--net federation --federation.kit nowhere": "no kit of a lead at nowhere",
    "--net federation --worth --requester a": "--worth needs rows of all sites at hand",
    "--net federation --ranges own.toml": "--ranges cannot be told to sites of a federation",
    "--data diabetes --worth --requester nobody": "unknown requester, of the clients, 'nobody'",
}


@pytest.mark.parametrize(("words", "why"), REFUSED.items())
def test_mistakes_get_one_line_and_leave_nothing(words, why, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text("[age]\npossible = [0, 100]\n")
    before = sorted(tmp_path.rglob("*"))
    quick = () if "--checks" in words else ("--checks", "constant")
    code, _, said = run(*words.split(), *quick)
    lines = [line for line in said.splitlines() if not line.startswith("·")]
    assert code == 2, said
    assert len(lines) == 1
    assert why in lines[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_several_mistakes_are_said_at_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = run("--data", "digits", "--checks", "unit", "--worth", "--ranges", "none.toml")
    assert code == 2
    assert len(said.splitlines()) == 3


# bounds of one's own


def test_bounds_of_ones_own_go_before_ours(run, tables, tmp_path):
    (tmp_path / "own.toml").write_text(
        '[pulse]\nunit = "bpm"\npossible = [0, 60]\n[glucose]\nunit = "mg/dl"\npossible = [0, 9999]\n'
    )
    code, printed, _ = run(
        "--recipe", "recipe.toml", "--checks", "ranges", "--ranges", "own.toml", "--out", "o"
    )
    assert code == 0
    assert "values of pulse that cannot be" in printed
    assert "against 0 to 60 bpm" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "[a]\npossible = [1, 0]\n[b]\npossible = 3\n",
            ["[a]: possible = [1, 0] must be", "[b]: possible = 3"],
        ),
        (
            "[a]\npossible = [0, 1]\nplausible = [0, 2]",
            ["plausible = [0, 2] is not within possible = [0, 1]"],
        ),
        (
            "[a]\npossible = [0, 1]\nunits = 'kg'",
            ["unknown key of own.toml, [a]: 'units': did you mean unit?"],
        ),
        ("[a]\npossible = [0, 1]\nwords = 'b'", ["words = 'b' must be a list of names"]),
        ("[a]\npossible = [0, 1]\nunit = 3", ["unit = 3 must be a text"]),
        ("a = 3", ["[a] is 3, but must be a table"]),
        ("a = [", ["is not valid TOML"]),
    ],
)
def test_what_is_wrong_with_bounds_is_said_at_once(text, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(BadInput) as refused:
        read_ranges("own.toml")
    said = str(refused.value).splitlines()
    assert len(said) == len(lines)
    assert all(part in line for part, line in zip(lines, said, strict=True))


# from Python


def test_tables_pairs_clients_and_recipes_say_the_same(tables):
    names = ["ranges", "units", "missing"]
    whole = {name: table.dropna(subset=["ill"]) for name, table in tables.items()}
    by_frame = package.check(whole, target="ill", checks=names)
    by_recipe = package.check(recipe="recipe.toml", checks=names)
    of_frames = package.check(tables, recipe="recipe.toml", checks=names).findings
    assert list(of_frames[of_frames["kind"] == "units"]["lines"]) == [[3, 4, 5]]  # rows of the frame, from 1
    pairs = {n: (t.drop(columns="ill"), (t["ill"] == "yes").astype(int)) for n, t in whole.items()}
    by_pairs = package.check(pairs, checks=names)
    for found in (by_frame, by_recipe, by_pairs):
        assert set(zip(found.findings["site"], found.findings["kind"], strict=True)) >= {
            ("south", "units"),
            ("south", "ranges"),
        }
    assert (
        list(by_frame.findings["rows"]) == list(by_pairs.findings["rows"]) == list(by_recipe.findings["rows"])
    )
    with pytest.warns(package.CoterieWarning, match="standardise it"):
        clients = [package.Client.from_arrays(*pair, name=name) for name, pair in pairs.items()]
    by_clients = package.check(clients, checks=names)
    assert list(by_clients.findings["rows"]) == list(by_frame.findings["rows"])
    assert repr(by_frame).startswith("Checked(3 sites, 269 rows: 1 cannot be right; 1 likely a mistake")
    assert by_frame.missing.loc["glucose", "south"] == 0
    assert by_frame.worth.empty
    assert by_frame.suspects.empty


def test_a_report_is_written_and_texts_are_escaped(tables, tmp_path):
    odd = {"<b>[red]": tables["south"].dropna().rename(columns={"glucose": "<i>x</i>"})}
    found = package.check(odd, target="ill", checks=["ranges", "constant"])
    page = found.report(tmp_path / "page.html").read_text()
    assert "&lt;b&gt;[red]" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "<i>" not in blocks_to_html(report_blocks(found.told()))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"tables": {"a": (np.zeros((4, 2)), np.zeros(3))}}, "4 rows in X and 3 in y"),
        ({"tables": {"a": (np.zeros((4, 2)), np.zeros(4))}, "target": "ill"}, "beside pairs"),
        ({"tables": {"a": frame(0)}, "target": "ill", "checks": ["uni"]}, "unknown check"),
        ({"tables": {"a": frame(0)}, "target": "ill", "requester": "a"}, "no partners"),
        ({"tables": {"a": frame(0)}, "target": "ill", "seed": -1}, "seed=-1"),
        ({"tables": None}, "no target"),
    ],
)
def test_mistakes_in_python_are_one_line(arguments, why):
    with pytest.raises(CoterieError, match=why) as refused:
        package.check(**arguments)
    assert len(str(refused.value).splitlines()) == 1


def test_prepared_clients_are_refused():
    clients = package.clients_from({"a": frame(0), "b": frame(1)}, target="ill")
    with pytest.raises(BadInput, match="scaled and filled already: give the tables"):
        package.check(clients)


def test_a_folder_without_a_check_has_none(tmp_path):
    assert read_quality(tmp_path) is None
    assert quality_part(Runs("", [], tmp_path)) == []
    (tmp_path / "quality.json").write_text("[]")
    with pytest.raises(BadRun, match="delete it, or check the data again"):
        read_quality(tmp_path)
    nothing = {"findings": [], "sites": [], "suspects": [], "worth": [], "notes": [], "about": {}}
    assert headline(nothing).endswith("nothing to look at")


def test_labels_and_worth_reach_the_page(tables, monkeypatch, run, tmp_path):
    monkeypatch.setattr("coterie.data.quality.worth.TIMES", 1)
    for name, table in tables.items():
        part = table.drop(columns="pulse") if name == "west" else table
        part.assign(**{} if name != "west" else {"pulse": None}).to_csv(f"{name}.csv", index=False)
    words = [
        "--recipe",
        "recipe.toml",
        "--checks",
        "labels",
        "missing",
        "--worth",
        "--requester",
        "west",
        "--out",
        "out",
    ]
    code, printed, said = run(*words)
    assert code == 0, said
    assert "The partners' gain" in printed
    page = (tmp_path / "out" / "quality.html").read_text()
    assert "What a column would bring" in page
    told = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert {w["column"] for w in told["worth"]} == {"pulse"}
    assert {w["partner"] for w in told["worth"]} == {"north", "south"}
    assert "Labels to review" in page
    assert told["suspects"]


def test_without_cleanlab_the_command_works(monkeypatch, tables, run):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    code, printed, _ = run("--recipe", "recipe.toml", "--checks", "labels", "--out", "out")
    assert code == 0
    assert "pip install 'coterie[quality]'" in printed
