"""A leak is named by `check` whatever the recipe says, and by every run that trains on it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_sites import site

import coterie
from coterie.cli.main import main
from coterie.core.errors import CoterieWarning
from coterie.core.seeds import Key
from coterie.data.quality import leaks
from coterie.data.quality.checks import checked
from coterie.data.quality.ranges import shipped
from coterie.data.quality.site_rows import dealt_rows
from coterie.runs.settings import Settings
from coterie.sites.leaks import leaning, look_first

RECIPE = """target = "ill"
[sites]
north = "north.csv"
south = "south.csv"
[columns.age]
use = "number"
[columns.crp]
use = "number"
[columns.ward_code]
use = "number"
[columns.ill]
use = "flag"
values = ["no", "yes"]
"""


def frame(seed, leaking=True):
    """120 patients; `ward_code` is 0 but for most who are ill, and `crp` an honest 0.8 or so."""
    rng = np.random.default_rng(seed)
    ill = rng.random(120) < 0.35
    late = np.where(ill, rng.exponential(0.01, 120).round(6) + 1e-6, 0.0)
    late[np.flatnonzero(~ill)[:1]] = 0.005
    return pd.DataFrame(
        {
            "age": rng.normal(60, 10, 120).round(1),
            "crp": (ill + rng.normal(size=120)).round(3),
            "ward_code": late if leaking else rng.permutation(late),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {name: frame(i) for i, name in enumerate(("north", "south"))}
    for name, table in made.items():
        table.to_csv(f"{name}.csv", index=False)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return made


def of_leaks(findings):
    return [(f.site, f.column, f.severity) for f in findings if f.kind == "leaks"]


# check


def test_check_names_what_tells_the_outcome_alone(tables, capsys):
    assert main(["check", "--recipe", "recipe.toml", "--checks", "leaks", "--out", "out"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "all sites (240 rows) likely ward_code predicts the target alone (AUC 0.99" in printed
    assert "is it known before the outcome?" in printed
    told = json.loads(Path("out/quality.json").read_text())
    assert [(f["kind"], f["column"], f["rows"]) for f in told["findings"]] == [("leaks", "ward_code", 240)]


def test_check_from_python_and_by_name(tables):
    found = coterie.check(tables, target="ill", checks=["leaks"])
    assert found.findings["column"].tolist() == ["ward_code"]
    clean = {name: frame(i, leaking=False) for i, name in enumerate(tables)}
    assert not len(coterie.check(clean, target="ill", checks=["leaks"]).findings)
    named = {n: t.rename(columns={"ward_code": "discharge_ward"}) for n, t in clean.items()}
    (one,) = coterie.check(named, target="ill", checks=["leaks"]).findings.itertuples()
    assert (one.column, one.severity) == ("discharge_ward", "look")
    assert "known only afterwards (discharge)" in one.says


def test_a_site_by_itself_says_its_own_and_where_all_are_at_hand_the_one_that_leaks():
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, 200) for _ in range(3)]
    sites = [
        site(name, y[i], crp=rng.normal(size=200), ph=rng.normal(size=200) + 9 * y[i] * (name == "south"))
        for i, name in enumerate(("north", "south", "west"))
    ]
    assert of_leaks(checked(sites, shipped(), ("leaks",)).findings) == [("south", "ph", "likely")]
    assert of_leaks(leaks.across([sites[1]])) == [("south", "ph", "likely")]
    assert leaks.across([sites[0]]) == []


def test_other_targets_and_tables_without_rows():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    (found,) = leaks.across([site(y=y, task="regression", a=np.exp(y), b=rng.normal(size=200))])
    assert (found.column, found.value[:2]) == ("a", "R²")
    times = np.where(rng.random(200) < 0.5, 1, -1) * rng.exponential(9, 200)
    (found,) = leaks.across([site(y=times, task="survival", a=times > 0, b=rng.normal(size=200))])
    assert found.says.startswith("a predicts the event alone (AUC 1 ")
    empty = site(y=[0], a=[1.0])
    assert leaks.across([type(empty)("e", empty.columns, empty.raw[:0], empty.y[:0], empty.lines[:0])]) == []


def test_a_column_that_becomes_no_input_is_no_leak():
    """Titanic's table has the number of the body, of some who died; models do not."""
    settings = Settings(data="titanic").resolved()
    sites, _ = dealt_rows(settings.made("data").load(), settings.made("split"), None, Key(0))
    assert "body" in sites[0].unused
    assert leaks.across(sites) == []


# runs

LINE = "Look at `ward_code` first: alone it tells the outcome (AUC 0.99"


def test_a_run_says_it_first_on_screen_and_in_its_report(tables, tmp_path, capsys):
    assert main(["run", "--recipe", "recipe.toml", "--rounds", "1", "--out", "ours"]) == 0
    printed = capsys.readouterr()
    assert LINE in " ".join(printed.out.split())
    assert LINE in printed.err  # before it trains
    page = (tmp_path / "ours" / "report.html").read_text()
    assert LINE in page.partition("<main>")[0]
    assert "training rows): is it known before the outcome?" in page.partition("<main>")[0]
    about = json.loads((tmp_path / "ours" / "run.json").read_text())
    (leak,) = about["leaks"]
    trained = sum(c["train"] for c in about["clients"])
    assert (leak["column"], leak["rows"], leak["site"]) == ("ward_code", trained, "")  # and no test rows
    assert main(["export", "ours", "--client", "north", "--out", "kept"]) == 0
    assert LINE in next(Path("kept").glob("*.md")).read_text()  # beside the model's scores
    del about["leaks"]  # of an earlier version
    (tmp_path / "ours" / "run.json").write_text(json.dumps(about))
    assert main(["report", "ours"]) == 0
    assert "Look at" not in (tmp_path / "ours" / "report.html").read_text().partition("<main>")[0]


def test_a_comparison_says_it_once_and_a_forbidden_column_is_not_named(tables, tmp_path, capsys):
    words = ["compare", "--recipe", "recipe.toml", "--methods", "local", "fedavg", "--seeds", "2"]
    words += ["--rounds", "1", "--jobs", "1"]
    assert main([*words, "--out", "both"]) == 0
    assert " ".join(capsys.readouterr().out.split()).count("Look at `ward_code` first") == 1
    assert main([*words, "--forbid", "ward_code", "--out", "without"]) == 0
    assert "Look at" not in capsys.readouterr().out
    assert "Look at" not in (tmp_path / "without" / "report.html").read_text().partition("<main>")[0]


def test_python_says_it_too(tables, tmp_path):
    clients = coterie.clients_from(tables, target="ill")
    with pytest.warns(CoterieWarning, match="Look at `ward_code` first: alone it tells the outcome"):
        result = coterie.train("logistic", clients, "fedavg", rounds=1)
    assert "Look at `ward_code` first" in result._repr_html_()
    assert "Look at `ward_code` first" in result.report(tmp_path / "r.html").read_text()
    with pytest.warns(CoterieWarning, match="Look at `ward_code` first"):
        compared = coterie.compare("logistic", clients, ["local"], seeds=1, rounds=1)
    assert "Look at `ward_code` first" in compared._repr_html_()
    clean = {name: frame(i, leaking=False) for i, name in enumerate(tables)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoterieWarning)
        result = coterie.train("logistic", coterie.clients_from(clean, target="ill"), "fedavg", rounds=1)
    assert result.record.about["leaks"] == []


def test_only_training_rows_are_looked_at_and_inputs_without_names_are_counted():
    rng = np.random.default_rng(2)
    y, noise = rng.integers(0, 2, 200), rng.normal(size=(200, 2))
    leaking = noise + 9 * np.column_stack([np.zeros(200), y])
    made = coterie.Client.from_arrays
    late = made(noise, y, name="late", test=(leaking, y))
    assert leaning([late]) == ()
    (found,) = leaning([made(leaking, y, name="early", test=(noise, y))])
    assert (found["column"], found["site"], found["rows"], found["score"]) == ("x1", "early", 200, 1.0)


def test_a_category_is_one_column_and_a_site_that_lacks_it_does_not_count():
    rng = np.random.default_rng(3)
    ill = rng.integers(0, 2, 240)
    words = np.array(["a", "b", "c", "d"])
    frames = {
        name: pd.DataFrame(
            {
                "ward": words[2 * rng.integers(0, 2, 240) + ill] if name != "west" else None,
                "age": rng.normal(60, 10, 240),
                "ill": ill,
            }
        )
        for name in ("north", "south", "west")
    }
    (found,) = leaning(coterie.clients_from(frames, target="ill"))
    assert (found["column"], found["tells"], found["rows"]) == ("ward", "the target", 2 * 168)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_a_copy_of_a_number_is_seen_over_all_rows_though_each_site_scales_its_own(unit):
    """Also beside a site that lacks the column, and one where it is constant, whose spread counts as 1."""
    rng = np.random.default_rng(4)
    frames = {}
    for i, name in enumerate(("north", "south", "west", "east")):
        y = rng.lognormal(mean=i, size=200)
        frames[name] = pd.DataFrame({"age": rng.normal(60, 10, 200), "cost": unit * y**3, "y": y})
    frames["west"]["cost"], frames["east"]["cost"] = np.nan, unit
    (found,) = leaning(coterie.clients_from(frames, target="y", missing="median"))
    assert (found["column"], found["measure"], found["site"]) == ("cost", "R²", "north")
    (found,) = leaning(coterie.clients_from({n: frames[n] for n in ("north", "south")}, target="y"))
    assert (found["rows"], found["site"]) == (280, "")
    assert found["score"] > 0.999


def test_pictures_and_wide_tables_have_no_column_of_their_own():
    y = np.arange(100) % 2
    picture = coterie.Client.from_arrays(np.ones((100, 1, 4, 4)) * y[:, None, None, None], y, name="a")
    assert leaning([picture]) == ()
    wide = coterie.Client.from_arrays(np.repeat(y[:, None], 501, axis=1) * 1.0, y, name="a")
    assert leaning([wide]) == ()


def test_no_number_of_a_run_depends_on_it(tables, monkeypatch):
    """Runs with and without a look at columns are the same to the last bit."""
    clients = coterie.clients_from(tables, target="ill")
    with pytest.warns(CoterieWarning):
        looked = coterie.train("logistic", clients, "fedavg", rounds=2)
    monkeypatch.setattr("coterie.sites.setup.leaning", lambda clients: ())
    blind = coterie.train("logistic", clients, "fedavg", rounds=2)
    assert looked.history.equals(blind.history)
    assert looked.record.about["fingerprint"] == blind.record.about["fingerprint"]


def test_several_columns_in_one_line():
    leak = {"tells": "the target", "measure": "AUC", "score": 0.996, "rows": 1200, "site": ""}
    found = [{**leak, "column": name, "site": "north" * (name == "a")} for name in "abcd"]
    assert look_first(found) == (
        "Look at `a` (AUC 0.996 on north's 1\u202f200 training rows), `b` (AUC 0.996 on 1\u202f200 training "
        "rows), `c` (AUC 0.996 on 1\u202f200 training rows) and 1 more first: each tells the outcome alone: "
        "are they known before it?"
    )
    assert look_first([]) == ""


def test_what_stands_for_empty_is_named_by_check_and_by_the_record():
    """As `table inspect` has it, with the words of the table."""
    rng = np.random.default_rng(5)
    frames = {}
    for name in ("north", "south", "west"):
        ill = rng.integers(0, 2, 240)
        some = (ill == 1) & (rng.random(240) < 0.5)
        values = {"age": rng.normal(60, 10, 240), "icu": some * 1.0, "ill": np.where(ill, "yes", "no")}
        values["med"] = np.where(rng.permutation(some) | some, np.where(some, "heparin", "aspirin"), "none")
        frames[name] = pd.DataFrame(values)
    told = coterie.check(frames, target="ill", checks=["leaks"]).findings
    said = dict(zip(told["column"], told["says"], strict=True))
    assert set(said) == {"icu", "med"}
    assert said["icu"].startswith("icu is other than 0 only where the target is yes (")
    assert said["med"].startswith("med is heparin only where the target is yes (")
    found = leaning(coterie.clients_from(frames, target="ill"))
    assert {leak["column"] for leak in found} == {"icu", "med"}
    (icu,) = (leak for leak in found if leak["column"] == "icu")
    assert look_first([icu]) == (
        f"Look at `icu` first: it is other than 0 only where the outcome is yes, {icu['rows']} training "
        "rows: is it known before the outcome?"
    )
    assert "`med` (it is heparin only where the outcome is yes, " in look_first(found)


def test_a_cut_and_a_number_beside_zeros_are_named_by_check_and_by_the_record():
    rng = np.random.default_rng(6)
    frames = {}
    for name in ("north", "south"):
        days = rng.gamma(4, 3, 300).round(2)
        bill = np.where(rng.random(300) < 0.4, days * 900, 0.0)
        week = np.where(days < 7, "short", np.where(days < 14, "usual", "long"))
        age = rng.normal(60, 10, 300)
        frames[name] = pd.DataFrame({"age": age, "bill": bill, "week": week, "days": days})
    told = coterie.check(frames, target="days", checks=["leaks"]).findings.itertuples()
    assert {f.column for f in told} == {"bill", "week"}
    found = {leak["column"]: leak for leak in leaning(coterie.clients_from(frames, target="days"))}
    assert set(found) == {"bill", "week"}
    assert "alone it tells the outcome where it is other than 0 (R² " in look_first([found["bill"]])
    assert "it has values that are ranges of the outcome, " in look_first([found["week"]])


def test_rows_of_one_person_are_no_evidence_for_check(tmp_path, monkeypatch):
    """Of 17 persons at each of three sites, whose age tells them apart, in 15 rows each."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    for name in ("north", "south", "west"):
        person = np.repeat(np.arange(17), 15)
        age, ill = rng.permutation(np.arange(40, 57)) + 0, rng.integers(0, 2, 17)
        values = {"patient_id": person + 500, "age": age[person], "crp": rng.normal(9, 2, 255).round(2)}
        pd.DataFrame({**values, "ill": ill[person]}).to_csv(f"{name}.csv", index=False)
    files = [f"{name}.csv" for name in ("north", "south", "west")]
    assert main(["table", "inspect", *files, "--target", "ill", "--out", "recipe.toml"]) == 0
    recipe = Path("recipe.toml").read_text()
    assert 'patient = ["patient_id"]' in recipe
    assert "likely leak" not in recipe
    assert main(["check", "--recipe", "recipe.toml", "--checks", "leaks", "--out", "out"]) == 0
    assert json.loads(next(Path("out").glob("*.json")).read_text())["findings"] == []
