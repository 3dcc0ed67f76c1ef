import csv
import random

import numpy as np
import pytest

from coterie.core.errors import CoterieError, Several
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.partition import Silos
from coterie.data.sources import SOURCES
from coterie.data.tables.apply_recipe import rows_of
from coterie.data.tables.inspect import inspect, status
from coterie.data.tables.leaks import alone, auc, filled_for_one_class, known_afterwards
from coterie.data.tables.recipe_file import read_recipe, recipe_of, write_recipe


def write(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def clinic(rng, n=60, **more):
    ill = [rng.choice(["yes", "no"]) for _ in range(n)]
    ages = [str(rng.randint(30, 80) + 5 * (i == "yes")) for i in ill]
    return {"age": ages, "sex": [rng.choice("fm") for _ in ill], "ill": ill} | {
        name: [made(rng, i) for i in ill] for name, made in more.items()
    }


def rule(seen, name):
    return seen.recipe.rule(name)


def test_sites_that_name_columns_otherwise(tmp_path):
    rng = random.Random(0)
    a = clinic(rng, cholesterol=lambda r, i: str(r.randint(150, 280)))
    b = clinic(rng, chol=lambda r, i: str(r.randint(150, 280)))
    b["Gender"] = [{"f": "female", "m": "male"}[s] for s in b.pop("sex")]
    seen = inspect([write(tmp_path / "a.csv", a), write(tmp_path / "b.csv", b)], "ill")
    assert rule(seen, "cholesterol").here("b").name == "chol"
    assert rule(seen, "sex").here("b").name == "Gender"
    assert rule(seen, "sex").values == ("f", "m")
    assert rule(seen, "sex").spellings == {"f": ("female",), "m": ("male",)}
    assert list(seen.asks) == [
        "column 'sex': is 'Gender' of b the same as 'sex' of others?",
        "column 'cholesterol': is 'chol' of b the same as 'cholesterol' of others?",
    ]
    assert [status(s.rule, s, "b") for s in seen.columns] == ["+", "n", "+", "n"]


def test_sites_that_measure_otherwise(tmp_path):
    rng = random.Random(1)
    paths = [
        write(
            tmp_path / f"{name}.csv", clinic(rng, **{header: lambda r, i, k=k: f"{r.gauss(105, 15) * k:.2f}"})
        )
        for name, header, k in (("a", "glucose", 1), ("b", "glucose", 1), ("c", "glucose", 1 / 18.016))
    ]
    seen = inspect(paths, "ill")
    assert rule(seen, "glucose").unit == "mg/dl"
    assert rule(seen, "glucose").here("c").factor == 18.016
    (asked,) = seen.asks
    assert "in mmol/l, not mg/dl? Converted, value x 18.016" in asked
    told = [
        write(
            tmp_path / f"{name}.csv", clinic(rng, **{header: lambda r, i, k=k: f"{r.gauss(80, 10) * k:.1f}"})
        )
        for name, header, k in (("d", "weight (kg)", 1), ("e", "Weight [lb]", 2.2046))
    ]
    seen = inspect(told, "ill")
    assert not seen.asks
    assert seen.says == ("column 'weight': converted from lb to kg at e, value x 0.453592",)


def test_columns_that_a_site_lacks_or_writes_otherwise(tmp_path):
    rng = random.Random(2)
    a = clinic(rng, bmi=lambda r, i: f"{r.gauss(26, 3):.1f}")
    b = clinic(rng)
    b["sex"] = [{"f": "1", "m": "2"}[s] for s in b["sex"]]
    seen = inspect([write(tmp_path / "a.csv", a), write(tmp_path / "b.csv", b)], "ill")
    assert rule(seen, "bmi").here("b").absent
    assert rule(seen, "sex").here("b").absent
    (asked,) = seen.asks
    assert asked.replace("'2', '1'", "'1', '2'") == (
        "column 'sex': b writes '1', '2' where others have f, m: say which is which under at.b.spellings; "
        "until then it counts as absent there"
    )


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        (
            "discharge_type",
            lambda r, i: r.choice("ABC"),
            "its name (discharge) is that of something known only",
        ),
        (
            "therapy",
            lambda r, i: r.choice("xyz") if i == "yes" else "",
            "filled in only where the target is yes",
        ),
        (
            "marker",
            lambda r, i: f"{r.gauss(5 if i == 'yes' else 1, 0.3):.2f}",
            "it predicts the target alone (AUC 1",
        ),
    ],
)
def test_likely_leaks(tmp_path, name, made, said):
    path = write(tmp_path / "a.csv", clinic(random.Random(3), n=120, **{name: made}))
    seen = inspect([path], "ill")
    assert not rule(seen, name).read
    (asked,) = seen.asks
    assert asked.startswith(f"column '{name}': likely leak, left out: ")
    assert said in asked
    assert not inspect([path]).asks  # without a target nothing leaks


def test_how_leaks_are_measured():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    assert auc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, False, True, True])) == 0.875
    assert alone(y + rng.normal(size=200) * 0.1, y, 2) > 0.99
    assert alone(np.abs(rng.normal(size=200)), y, 2) < 0.7
    assert alone((y - 0.5) * np.where(np.arange(200) % 4 < 2, 1, -1), y, 2) < 0.7
    assert alone(np.arange(200.0), np.arange(200.0) * 2, 0) > 0.97
    assert filled_for_one_class(y == 1, y) == 1
    assert filled_for_one_class(np.arange(200) < 100, y) is None
    assert known_afterwards("Length_of_stay") == "length of stay"
    assert known_afterwards("age") == ""


def test_a_site_column(tmp_path):
    rng = random.Random(4)
    table = clinic(rng, n=80, hospital=lambda r, i: r.choice(["North", "south "]))
    table["city"] = [{"N": "Bern", "s": "Chur"}[h[0]] for h in table["hospital"]]
    seen = inspect([write(tmp_path / "all.csv", table)], "ill", "Hospital")
    assert set(seen.rows) == {"North", "south"}
    assert seen.recipe.site == "hospital"
    assert "hospital" not in [r.name for r in seen.recipe.rules]
    assert not rule(seen, "city").read
    assert rule(seen, "city").why[0] == "constant at each site: it tells sites apart, not rows"
    assert {s: sum(c.values()) for s, c in seen.classes.items()} == dict(seen.rows)


def test_targets(tmp_path):
    rng = random.Random(5)
    table = clinic(rng)
    table["ill"] = [{"yes": "1.0", "no": "0.0"}[i] for i in table["ill"]]
    path = write(tmp_path / "a.csv", table)
    seen = inspect([path], "ILL")
    assert seen.recipe.classes == ("0", "1")
    assert seen.says == ("column 'ill': classes, though written as 0.0, 1.0: not a regression",)
    table["ill"][:3] = ["", "NA", ""]
    seen = inspect([write(tmp_path / "b.csv", table)], "ill")
    assert seen.recipe.unlabelled == "drop"
    assert seen.asks == (
        "column 'ill': the target is missing in 3 row(s) (b 3): they are left out, unlabelled = \"drop\"",
    )
    with pytest.raises(CoterieError, match="unknown column 'il': did you mean ill"):
        inspect([path], "il")
    other = write(tmp_path / "c.csv", {"age": ["1"] * 5, "x": ["a"] * 5})
    with pytest.raises(Several, match=r"c.csv: column 'ill', the target, is missing: add or rename it"):
        inspect([path, other], "ill")


def test_what_is_wrong_with_all_files_is_said_at_once(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1\n")
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(Several) as refusal:
        inspect([tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"], "b")
    assert [line.partition(":")[0].rpartition("/")[2] for line in refusal.value.lines] == [
        "a.csv, line 2",
        "b.csv is empty",
        "c.csv'",
    ]
    with pytest.raises(CoterieError, match="two files are called 'a'"):
        inspect([tmp_path / "a.csv", tmp_path / "x" / "a.csv"])


def dirty(rng, rows=823):
    """A clinic's table of 172 columns, each third one odd."""
    ill = [rng.choice(["yes", "no"]) for _ in range(rows)]
    table = {"Patient-ID": [f"P{rng.randrange(10**7)}-{i}" for i in range(rows)], "ill": ill}
    odd = [
        lambda r: f"{r.gauss(40, 9):.1f}".replace(".", ","),
        lambda r: r.choice(["ja", "nein", "?", ""]),
        lambda r: r.choice([str(r.randint(40, 90)), "999"]),
        lambda r: f"{r.randint(1, 28)}.{r.randint(1, 12)}.2023",
        lambda r: f"note {r.random():.6f} written by hand at night",
        lambda r: r.choice(["low", "Medium", "HIGH "]),
        lambda r: r.choice(["<5", str(r.randint(6, 60))]) if r.random() < 0.2 else str(r.randint(6, 60)),
        lambda r: f"{r.randint(1, 900)},{r.randint(0, 999):03}.5",
        lambda r: "constant",
        lambda r: r.choice(["A", "B", "NA"]),
    ]
    for i in range(170):
        made = odd[i // 3 % len(odd)] if i % 3 == 0 else lambda r: f"{r.gauss(0, 1):.3f}"
        table[f"value {i} of this clinic"] = [made(rng) for _ in range(rows)]
    return table


def test_a_wide_dirty_table_in_one_go(tmp_path):
    path = write(tmp_path / "clinic.csv", dirty(random.Random(6)))
    seen = inspect([path], "ill", home=tmp_path)
    assert len(seen.columns) == 172
    uses = {
        use: sum(s.rule.use == use for s in seen.columns) for use in ("number", "flag", "ordered", "category")
    }
    assert uses == {"number": 113 + 6 + 6 + 5 + 5, "flag": 6 + 1, "ordered": 6, "category": 5}
    write_recipe(tmp_path / "r.toml", seen.recipe)
    recipe = read_recipe(tmp_path / "r.toml")
    found = rows_of(recipe, path, "clinic", with_target=True)
    assert found.raw.shape == (823, len(recipe.columns))
    assert np.isnan(found.raw).any(axis=0).sum() >= 10


def test_every_trouble_of_the_example_is_found(five, tmp_path):
    seen = inspect(
        [five / f"{n}.csv" for n in ("lakeview", "northgate", "riverside", "saint_mary", "hilltop")],
        "heart_disease",
    )
    left_out = {s.rule.name: s.kind for s in seen.columns if not s.rule.read}
    assert left_out == {
        "patient_no": "identifier",
        "admitted": "date",
        "remark": "text",
        "country": "constant",
        "Fall-ID": "identifier",
        "mrn": "identifier",
        "discharge_code": "likely leak",
    }
    assert {s.rule.name: s.rule.unit for s in seen.columns if s.rule.unit} == {
        "weight": "kg",
        "height": "cm",
        "temperature": "°C",
        "cholesterol": "mg/dl",
        "glucose": "mg/dl",
        "creatinine": "mg/dl",
    }
    assert len(seen.asks) == 12  # four of them about units that northgate does not name
    assert seen.classes["hilltop"] == {"no": 0, "yes": 60}
    assert {r.name for r in seen.recipe.inputs if r.here("saint_mary").absent} == {
        "cholesterol",
        "creatinine",
    }
    raw = {s: rows_of(seen.recipe, five / f"{s}.csv", s).raw for s in seen.rows}
    for column in range(len(seen.recipe.columns)):  # one form for all: medians are near each other
        medians = [np.nanmedian(t[:, column]) for t in raw.values() if not np.isnan(t[:, column]).all()]
        if seen.recipe.columns[column].kind == "number" and not seen.recipe.columns[column].values:
            assert max(medians) < 1.3 * min(medians), seen.recipe.columns[column].name


def test_patients_of_several_rows_are_kept_together(tmp_path):
    rng = random.Random(0)
    a, b = clinic(rng), clinic(rng)
    a["patient_id"] = [f"A{i // 2}" for i in range(60)]
    b["mrn"] = [str(70000 + 13 * i) for i in range(60)]
    b["ward_id"] = [str(rng.randint(1, 4)) for _ in range(60)]
    seen = inspect([write(tmp_path / "a.csv", a), write(tmp_path / "b.csv", b)], "ill", home=tmp_path)
    assert seen.recipe.patient == ("patient_id",)
    assert any("30 of 30 stand in several rows" in line for line in seen.says)
    write_recipe(tmp_path / "r.toml", seen.recipe)
    recipe = read_recipe(tmp_path / "r.toml")
    assert recipe.patient == ("patient_id",)
    data = SOURCES.make("table", recipe=str(tmp_path / "r.toml")).load()
    dealt = deal_clients(data, Silos(), None, Key(0))
    assert ["rows of one patient" in " ".join(c.notes) for c in dealt.clients] == [True, False]
    with pytest.raises(CoterieError, match="patient: unknown column 'nobody'"):
        recipe_of({**recipe.table(), "patient": ["nobody"]})


def test_a_column_called_like_a_site_is_a_question_in_one_file(tmp_path):
    rng = random.Random(0)
    path = write(tmp_path / "all.csv", clinic(rng, hospital=lambda r, i: r.choice(["lake", "hill"])))
    asks = inspect([path], "ill").asks
    assert [a for a in asks if "does it say whose a row is? Then name it with --site hospital" in a]
    assert not inspect([path], "ill", site="hospital").asks
    with pytest.raises(CoterieError, match="does it say whose a row is"):
        SOURCES.make("table", path=(str(path),), target="ill").load()


def test_a_column_called_hospital_is_never_a_split_by_itself(tmp_path):
    path = write(tmp_path / "all.csv", clinic(random.Random(0), hospital=lambda r, i: str(r.randint(1, 3))))
    data = SOURCES.make("table", path=(str(path),), target="ill").load()  # numbers, so nobody asks
    with pytest.raises(CoterieError, match=r"all does not say whose.*--table.site \(perhaps hospital\)"):
        deal_clients(data, Silos(), None, Key(0))


def coded_sites(tmp_path, column, codes, rows=60):
    """Files of sites, each with its own codes in turn in one column."""
    paths = []
    for site, values in codes.items():
        other = "ill" if column != "ill" else "flag"
        lines = [f"x,{column},{other}"]
        lines += [f"{i * 7 % 50}.5,{values[i % len(values)]},{'yn'[i * i % 3 % 2]}" for i in range(rows)]
        paths.append(tmp_path / f"{site}.csv")
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


@pytest.mark.parametrize("column", ["sex", "ill"])
def test_codes_that_differ_between_sites_are_asked_about(tmp_path, column):
    paths = coded_sites(tmp_path, column, {"north": "01", "south": "01", "west": "12"})
    (asked,) = (a for a in inspect(paths, "ill").asks if f"column '{column}'" in a)
    assert "0, 1 at north, south; 1, 2 at west: do they mean the same?" in asked
    assert "at.west.spellings" in asked


def test_codes_of_the_target_follow_the_answer(tmp_path):
    paths = coded_sites(tmp_path, "ill", {"north": "01", "west": "12"})
    seen = inspect(paths, "ill")
    assert 'values = ["0", "1"]' in " ".join(seen.asks)
    table = seen.recipe.table()
    table["columns"]["ill"] |= {"values": ["0", "1"], "at": {"west": {"spellings": {"0": ["1"], "1": ["2"]}}}}
    north, west = (rows_of(recipe_of(table), p, p.stem).raw for p in paths)
    np.testing.assert_array_equal(north, west)


@pytest.mark.parametrize(
    "codes",
    [
        {"north": "0123", "south": "01", "west": "123"},  # a site may lack what it has no row of
        {"north": "012", "south": "123", "west": "0123"},
        {"north": "01", "south": ["no", "yes"]},  # no and yes, however written
        {"north": ["a", "b"], "south": ["b", "c"]},  # words say what they mean
    ],
)
def test_codes_that_agree_are_no_question(tmp_path, codes):
    rows = 8 if len(codes) == 3 else 60
    asked = inspect(coded_sites(tmp_path, "grp", codes, rows), "ill").asks
    assert not any("do they mean the same" in a for a in asked)


@pytest.mark.parametrize("last", ["0.47", "31"])
@pytest.mark.parametrize("sites", [("north",), ("north", "south")])
def test_a_row_of_totals_makes_no_regression_and_no_class(tmp_path, sites, last):
    paths = [
        write(
            tmp_path / f"{site}.csv",
            {"age": [*(str(30 + i) for i in range(60)), "59.5"], "ill": [*"01" * 30, last]},
        )
        for site in sites
    ]
    seen = inspect(paths, "ill")
    assert seen.recipe.goal_rules[0].values == ("0", "1")
    assert [sum(c.values()) for c in seen.classes.values()] == [60] * len(sites)
    (asked,) = (a for a in seen.asks if "totals or means?" in a)
    assert f"{last} in {len(sites)} row(s) ({paths[0]}, line 62" in asked
    assert not any("far from all other values" in line for line in seen.says)


def test_numbers_to_predict_are_no_totals(tmp_path):
    rng = random.Random(0)
    for name, made in {
        "halves": lambda: rng.choice("0123") + rng.choice([".5", ""]),
        "pain": lambda: str(rng.randint(0, 10)),
    }.items():
        cells = [made() for _ in range(80)]
        path = write(tmp_path / f"{name}.csv", {"age": [str(20 + i % 60) for i in range(80)], "y": cells})
        assert not any("totals" in a for a in inspect([path], "y").asks)
