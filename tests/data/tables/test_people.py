"""Persons by structure: found whatever a column is called and written like; nothing else is taken for one."""

import csv
import random

import numpy as np
import pytest

from coterie.cli.main import main
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import Silos
from coterie.data.sources import SOURCES
from coterie.data.tables.inspect import inspect
from coterie.data.tables.profile import Profile
from coterie.data.tables.recipe_file import read_recipe, recipe_of, write_recipe


def written(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def visits(persons=100, each=3, seed=0, key="K1", number=lambda i: str(10000 + 37 * i), **more):
    """Rows of persons, about `each` of one; `more` makes further columns of (rng, person)."""
    rng, rows = random.Random(seed), []
    for i in range(persons):
        person = {"sex": rng.choice("fm"), "born": str(rng.randint(1930, 2005)), "i": i}
        for _ in range(rng.randint(1, 2 * each - 1)):
            row = {key: number(i), "sex": person["sex"], "born": person["born"]}
            row |= {name: made(rng, person) for name, made in more.items()}
            row |= {"leuko": str(rng.randint(3000, 12000)), "ill": rng.choice(["yes", "no"])}
            rows.append(row)
    rng.shuffle(rows)
    return rows


def renamed(rows, **names):
    return [{names.get(k, k): v for k, v in row.items()} for row in rows]


def coded(rows):
    """No name and no word tells a sex or a birth."""
    return renamed([r | {"sex": str("fm".index(r["sex"]) + 1)} for r in rows], sex="v1", born="v2")


@pytest.mark.parametrize(
    ("rows", "who"),
    [
        (visits(), "K1"),
        (visits(number=lambda i: f"{1001 + i}.0"), "K1"),
        (visits(key="x7", number=lambda i: f"Q-{i:05}"), "x7"),
        (renamed(visits(), sex="Geschlecht", born="Geburtsjahr"), "K1"),
        (renamed(visits(), sex="v1", born="v2"), "K1"),  # f and m tell a sex
        (visits(persons=30, each=20, number=lambda i: str(i + 1)), "K1"),  # many rows of each
        (
            visits(persons=300, each=1) + [r | {"leuko": "7000"} for r in visits(300, 1)[:15]],
            "K1",
        ),  # few twice
        (visits(number=lambda i: str(10000000 + 7919 * i)), "K1"),
        (coded(visits(persons=60, each=12, number=lambda i: str(i + 1))), "K1"),  # no name tells anything
        (visits(visit=lambda r, p: f"V{p['i']}-{r.randint(0, 2)}"), "K1"),  # a visit is of one person
        (visits(stature=lambda r, p: str(1500 + 13 * p["i"] % 400)), "K1"),  # a person keeps a height
        (visits(canton=lambda r, p: r.choice(["ZH", "BE"]), doc=lambda r, p: str(r.randint(1, 12))), "K1"),
    ],
)
def test_a_column_of_persons_is_proposed_and_asked_about(tmp_path, rows, who):
    seen = inspect([written(tmp_path / "a.csv", rows)], "ill", home=tmp_path)
    assert seen.recipe.patient == (who,)
    assert not seen.recipe.rule(who).read
    (asked,) = (a for a in seen.asks if a.startswith(f"column '{who}': does it tell who a row is about?"))
    assert f'Proposed: patient = ["{who}"]' in asked
    assert "leuko" in [r.name for r in seen.recipe.inputs]
    write_recipe(tmp_path / "r.toml", seen.recipe)
    assert "# question: does it tell who a row is about?" in (tmp_path / "r.toml").read_text()
    data = SOURCES.make("table", recipe=str(tmp_path / "r.toml")).load()
    (client,) = deal_clients(data, Silos(), None, Key(0)).clients
    assert "rows of one patient are all for training or all for testing" in " ".join(client.notes)


@pytest.mark.parametrize(
    "rows",
    [
        visits(persons=200, each=1),  # one row each
        [r | {"K1": str(random.Random(i).randint(100, 140))} for i, r in enumerate(visits())],  # a lab value
        [r | {"K1": str(random.Random(i).randint(1, 25))} for i, r in enumerate(visits())],  # doctors
        [r | {"K1": f"{1000 + i % 40}"} for i, r in enumerate(visits(each=1))],  # postcodes
        [r | {"K1": f"2024-01-{i % 28 + 1:02}"} for i, r in enumerate(visits())],
        [r | {"K1": str(int(r["born"]) - 1900)} for r in visits()],
        [r | {"K1": f"{random.Random(i).gauss(14, 2):.1f}"} for i, r in enumerate(visits())],
    ],
)
def test_what_tells_no_persons(tmp_path, rows):
    assert inspect([written(tmp_path / "a.csv", rows)], "ill").recipe.patient == ()


def test_four_laboratory_columns_stay_inputs(tmp_path):
    rng = random.Random(0)
    made = {
        "platelets": lambda: str(rng.randint(100000, 450000)),
        "ferritin": lambda: str(rng.randint(100000, 990000)),
        "hb": lambda: f"{rng.gauss(13, 2):.4f}",
        "lipase": lambda: str(rng.randint(10, 100000)),
    }
    rows = [{n: m() for n, m in made.items()} | {"ill": rng.choice(["yes", "no"])} for _ in range(150)]
    seen = inspect([written(tmp_path / "a.csv", rows)], "ill")
    assert seen.recipe.patient == ()
    assert [r.name for r in seen.recipe.inputs] == list(made)


@pytest.mark.parametrize(
    ("name", "cells", "kind", "doubt"),
    [
        ("thrombo", [str(150001 + 1999 * i) for i in range(150)], "number", "if they stand for persons"),
        ("code x", [str(20000001 + 104729 * i) for i in range(60)], "identifier", "do they stand for"),
        ("lfd", [str(i) for i in range(1, 90) if i % 9], "identifier", ""),
        ("z", [str(i) for i in random.Random(0).sample(range(300, 420), 100)], "number", "number rows"),
        ("z", [str(501 + i) for i in range(40)], "identifier", ""),
        ("age", [str(20 + i) for i in range(40)], "number", ""),
        ("patient_weight", [str(i) for i in random.Random(0).sample(range(400, 1400), 60)], "number", ""),
        ("postcode", [str(1000 + 7 * i) for i in range(80)], "code", "its name (postcode) is that of a code"),
        ("PLZ", ["8001", "3011", "1003"] * 20, "category", ""),
        ("Telefon", [str(41310000000 + 7777 * i) for i in range(60)], "code", "is that of a code"),
        ("icd", ["250.0", "401.9", "428.1"] * 20, "category", ""),
        ("room", [str(100 + i % 30) for i in range(90)], "category", ""),
        ("room temperature", [str(15 + i % 12) for i in range(90)], "number", ""),
        ("x", [f"{i:05}" for i in range(7, 5000, 61)], "code", "zeros before its numbers"),
        ("ward_id", [str(i % 4) for i in range(60)], "category", ""),
        ("hausarzt", [str(100 + i % 30) for i in range(90)], "category", ""),
        ("Behandler", [str(100 + i % 30) for i in range(90)], "category", ""),
        ("zimmernr", [str(100 + i % 30) for i in range(90)], "category", ""),
        ("arztnummer", [str(1000 + 7 * i) for i in range(80)], "code", "is that of a code"),
        ("Gemeinde", [str(1000 + 7 * i) for i in range(80)], "code", "is that of a code"),
        ("zip4", [str(1000 + 7 * i) for i in range(80)], "code", "is that of a code"),
        ("diag_1", ["250.83", "401", "428.1"] * 20, "category", ""),
        ("Patientennummer", [str(5 * i) for i in range(60)], "identifier", ""),
    ],
)
def test_digits_that_are_no_quantity(name, cells, kind, doubt):
    found = Profile.of_cells(name, cells)
    assert found.kind == kind
    assert doubt in found.doubt
    assert bool(doubt) == bool(found.doubt)


def test_what_is_left_out_is_said_with_the_way_back(tmp_path):
    rows = visits(
        persons=60, each=1, key="mrn", remark=lambda r, p: f"fell {r.random():.5f} days ago at home"
    )
    says = inspect([written(tmp_path / "a.csv", rows)], "ill").says
    assert (
        "column 'mrn': left out as an identifier (its name says so (mrn)); to use it, write use = \"number\""
        in says
    )
    assert any(s.startswith("column 'remark': left out as free text (") for s in says)


def test_persons_at_each_site_and_at_several(tmp_path):
    a = written(tmp_path / "a.csv", visits(seed=1))
    b = written(tmp_path / "b.csv", visits(seed=2, persons=60))
    c = written(tmp_path / "c.csv", visits(seed=3, persons=5))  # too small to tell by itself
    seen = inspect([a, b, c], "ill")
    assert seen.recipe.patient == ("K1",)
    assert not any("stand at several sites" in s for s in seen.asks)  # numbers are alike, persons are not
    other = written(tmp_path / "d.csv", visits(seed=1)[:150])
    (asked,) = (s for s in inspect([a, other], "ill").asks if "stand at several sites (a, d)" in s)
    assert "Rows of one are kept together within a site only" in asked
    once = visits(persons=60, each=1, key="mrn")  # never twice at one site
    e, f = (written(tmp_path / f"{n}.csv", rows) for n, rows in (("e", once), ("f", once[10:50])))
    assert any("40 of them stand at several sites (e, f)" in s for s in inspect([e, f], "ill").asks)


def test_sites_that_tell_persons_by_other_columns(tmp_path):
    """Two columns of one site would be one name: a number of rows beside them would part a person's rows."""
    a = written(tmp_path / "a.csv", visits(seed=1, key="nummer"))
    rows = visits(seed=2, key="Q")
    b = written(tmp_path / "b.csv", [{"nummer": str(i + 1)} | r for i, r in enumerate(rows)])
    seen = inspect([a, b], "ill", home=tmp_path)
    assert seen.recipe.patient == ("nummer", "Q")
    write_recipe(tmp_path / "r.toml", seen.recipe)
    data = SOURCES.make("table", recipe=str(tmp_path / "r.toml")).load()
    notes = [" ".join(c.notes) for c in deal_clients(data, Silos(), None, Key(0)).clients]
    assert all("rows of one patient" in n for n in notes)
    assert f"100 by nummer, Q in {len(rows)} rows" in notes[1]


def test_a_family_and_a_number_in_it(tmp_path):
    rows = [
        {"family": str(500 + int(r["K1"]) // 4), "member": str(int(r["K1"]) % 4)} | r
        for r in visits(persons=120, number=str)
    ]
    rows = [{k: v for k, v in r.items() if k != "K1"} for r in rows]
    seen = inspect([written(tmp_path / "a.csv", rows)], "ill")
    assert seen.recipe.patient == ("family", "member")
    assert any("does it with 'member' tell who a row is about?" in a for a in seen.asks)


def test_one_word_for_a_patient_and_one_way_to_write_a_number(tmp_path):
    rows = [r | {"K1": r["K1"] + random.Random(i).choice(["", ".0", " "])} for i, r in enumerate(visits())]
    seen = inspect([written(tmp_path / "a.csv", rows)], "ill", home=tmp_path)
    table = seen.recipe.table() | {"patient": "K1"}
    assert recipe_of(table).patient == ("K1",)
    write_recipe(tmp_path / "r.toml", recipe_of(table))
    assert read_recipe(tmp_path / "r.toml").patient == ("K1",)
    data = SOURCES.make("table", recipe=str(tmp_path / "r.toml")).load()
    assert len(set(data.train.columns["K1"])) == 100
    (client,) = deal_clients(data, Silos(), None, Key(0)).clients
    assert len(np.unique(client.units)) < 100


def test_questions_about_persons_are_on_screen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.csv", visits())
    assert main(["table", "inspect", "a.csv", "--target", "ill"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "? column 'K1': does it tell who a row is about? 100 different in" in said
    assert "left out: K1 (person)" in said


def cohort(key="v7", years=6, wrong=0.0, number=lambda i: str(2000 + 7919 * i % 9967), drop=(), **more):
    """Waves of a cohort: age and weight move, sex stays; `wrong` of the entries of sex are."""
    rng, rows = random.Random(1), []
    for i in range(120):
        person = {"sex": rng.choice("12"), "age": rng.randint(30, 70), "weight": rng.gauss(78, 14)}
        person |= {"ill": rng.choice("01")}
        for wave in range(rng.randint(1, 4)):
            sex = str(3 - int(person["sex"])) if rng.random() < wrong else person["sex"]
            row = {key: number(i), "sex": sex, "age": str(person["age"] + years * wave)}
            row |= {"weight": f"{person['weight'] + rng.gauss(0, 2):.1f}", "chol": str(rng.randint(150, 300))}
            row |= {"ill": person["ill"]}
            rows.append({k: v for k, v in row.items() if k not in drop})
    return rows


@pytest.mark.parametrize(
    "rows",
    [
        cohort(),
        cohort(years=10),
        cohort(number=lambda i: f"X{7919 * i:07}"),  # as many texts as free text has
        cohort(drop=["sex"]),
        cohort(drop=["sex", "age"]),  # the outcome, and a weight that moves slowly
        renamed(cohort(drop=["age"]), sex="male"),
        cohort(years=0, wrong=0.12),
    ],
)
def test_persons_of_a_cohort_are_found_though_they_grow_older(tmp_path, rows):
    seen = inspect([written(tmp_path / "a.csv", rows)], "ill")
    assert seen.recipe.patient == ("v7",)
    assert any("'v7': does it tell who a row is about?" in a for a in seen.asks)


@pytest.mark.parametrize(
    "name",
    ["PTID", "USUBJID", "RID", "RANDID", "NIP", "IPP", "no_dossier", "persnr", "chart_no", "study_id",
     "Versicherten-Nr"],
)  # fmt: skip
def test_names_of_persons_are_believed(tmp_path, name):
    seen = inspect([written(tmp_path / "a.csv", cohort(name))], "ill")
    assert seen.recipe.patient == (name,)
    assert seen.asks == ()


def patients(rows=400, **more):
    """One row each; `more` makes further columns of (rng, row)."""
    rng, made = random.Random(2), []
    for _ in range(rows):
        row = {"age": str(rng.randint(30, 90)), "weight": f"{rng.gauss(78, 14):.1f}", "sex": rng.choice("fm")}
        row |= {"ill": rng.choice("01")}
        made.append(row | {n: f(rng, row) for n, f in more.items()})
    return made


@pytest.mark.parametrize(
    ("drop", "more"),
    [
        (["sex"], {"school": lambda r, p: str(2027 - int(p["age"]))}),
        (["sex"], {"pension": lambda r, p: str(int(p["age"]) - 20 + r.randint(0, 1))}),
        (
            ["sex", "age"],
            {
                "drug": lambda r, p: f"{float(p['weight']) * 1.5:.0f}",
                "bsa": lambda r, p: f"{float(p['weight']) / 40:.1f}",
            },
        ),
        (["age"], {"team": lambda r, p: str(r.randint(1, 15) + 20 * (p["sex"] == "m"))}),
        ([], {"visited": lambda r, p: str(2 * r.randint(1, 15) + (p["sex"] == "m"))}),  # doctors of one sex
        (["sex"], {"seen_by": lambda r, p: str(r.randint(1, 40))}),
    ],
)
def test_what_goes_with_another_column_tells_no_persons(tmp_path, drop, more):
    rows = [{k: v for k, v in row.items() if k not in drop} for row in patients(**more)]
    assert inspect([written(tmp_path / "a.csv", rows)], "ill").recipe.patient == ()
