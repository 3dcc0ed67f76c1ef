"""Forbidden columns make no inputs, and nothing else changes; clients without a required one are out."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest
import torch

from coterie import clients_from
from coterie.core.errors import BadInput, CoterieError, UnknownName
from coterie.core.seeds import Key
from coterie.data.build import deal_clients
from coterie.data.dataset import Arrays, Dataset
from coterie.data.partition import SPLITS, Iid, Missingness, Silos
from coterie.data.preparation import Column, coded
from coterie.data.sources import SOURCES
from coterie.data.sources.table import TableFile
from coterie.data.tabular import TabularPrepare

KEY = Key(3).at("data")
COLUMNS = ("pid", "born", "age", "sex", "chol", "pain", "seen", "ill")
RULES = {
    "pid": 'use = "leave-out"',
    "born": 'use = "leave-out"',
    "age": 'use = "number"',
    "sex": 'use = "flag"\nvalues = ["f", "m"]',
    "chol": 'use = "number"\nat.west = { absent = true }',
    "pain": 'use = "category"\nvalues = ["none", "some", "much"]',
    "seen": 'use = "date"\nsince = "born"\nin = "years"',
    "ill": 'use = "flag"\nvalues = ["no", "yes"]',
}
SITES = ("north", "south", "west")


def write(folder, without=(), **head):
    """Three hospitals, of which the west records no cholesterol, and their recipe; some columns may never
    have been there.
    """
    kept = [c for c in COLUMNS if c not in without]
    for number, site in enumerate(SITES):
        rng = np.random.default_rng(number)
        with (folder / f"{site}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, kept, extrasaction="ignore")
            table.writeheader()
            for row in range(30):
                age, chol = int(rng.integers(30, 80)), f"{rng.normal(200, 30):.1f}"
                cells = [row // 2, f"{2000 - age}-01-01", age, "fm"[rng.integers(2)], chol]
                cells += [("none", "some", "much")[rng.integers(3)], "2000-06-01", ("no", "yes")[row % 2]]
                told = dict(zip(COLUMNS, cells, strict=True))
                told |= {c: "" for c in ("age", "sex", "chol", "pain") if rng.random() < 0.1}
                table.writerow(told | ({"chol": ""} if site == "west" else {}))
    lines = ['target = "ill"', *(f'{key} = "{value}"' for key, value in head.items())]
    lines += ['patient = ["pid"]', "[sites]", *(f'{site} = "{site}.csv"' for site in SITES)]
    lines += [f"[columns.{name}]\n{RULES[name]}" for name in kept]
    path = folder / "recipe.toml"
    path.write_text("\n".join(lines))
    return TableFile(recipe=str(path))


def same(one, other):
    assert (one.name, one.features, one.preparation) == (other.name, other.features, other.preparation)
    for part in ("train", "validation", "test"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert torch.equal(mine.x, theirs.x)
        assert torch.equal(mine.y, theirs.y)
        assert mine.x.stride() == theirs.x.stride()


def test_numbers_worked_out_by_hand():
    """Ages 10, 20, 30 of mean 20; the category beside them makes three inputs, and all three go."""
    columns = (Column("age"), coded("chest_pain", (1, 2, 3)), Column("smokes", "flag"))
    x = np.array([[10.0, 1, 0], [30, 2, 1], [20, 3, 1], [20, 1, 0]])
    pool, test = Arrays(x, np.array([0, 1, 0, 1])), Arrays(x[:2] + np.array([10, 0, 0]), np.array([0, 1]))
    data = Dataset("hand", "classification", pool, test, prepare=TabularPrepare(columns))
    dealt = deal_clients(data, Iid(), 1, KEY, forbid=["Chest_Pain "])
    (client,) = dealt.clients
    assert client.features == ("age", "smokes")
    scale = np.sqrt(50)  # of (-10, 10, 0, 0)
    rows = sorted(client.train.x.tolist())
    expected = sorted([[-10 / scale, 0.0], [10 / scale, 1.0], [0.0, 1.0], [0.0, 0.0]])
    assert np.allclose(rows, expected)
    assert np.allclose(sorted(client.test.x.tolist()), [[0.0, 0.0], [20 / scale, 1.0]])
    assert "column chest_pain is forbidden: it is no input of any model" in dealt.notes


@pytest.mark.parametrize(
    ("forbid", "head"),
    [
        (("sex",), {"missing": "median"}),
        (("pain", "sex"), {"missing": "drop", "scale": "site"}),
        (("chol",), {"missing": "median", "absent": "flag"}),
        (("born", "seen"), {"missing": "median", "absent": "mask"}),
    ],
)
def test_it_is_as_if_the_column_had_never_been_in_the_file(tmp_path, forbid, head):
    for name in ("with", "never"):
        (tmp_path / name).mkdir()
    table, never = write(tmp_path / "with", **head), write(tmp_path / "never", forbid, **head)
    asked = {"validation": 0.2, "one_class": True}
    dealt = deal_clients(table.load(), Silos(), None, KEY, **asked, forbid=forbid)
    expected = deal_clients(never.load(), Silos(), None, KEY, **asked)
    for mine, theirs in zip(dealt.clients, expected.clients, strict=True):
        same(mine, theirs)
    assert dealt.recipe.table() == expected.recipe.table()
    assert dealt.chosen == tuple(f"column {c} is forbidden: it is no input of any model" for c in forbid)
    before = deal_clients(table.load(), Silos(), None, KEY, **asked)
    gone = {f for f in before.clients[0].features if f.split("=")[0].split(" not")[0] in forbid}
    assert gone
    assert set(before.clients[0].features) - set(dealt.clients[0].features) == gone


@pytest.mark.parametrize(
    ("name", "forbid", "inputs"),
    [
        ("breast-cancer", ("mean radius", "worst area"), {"mean radius", "worst area"}),
        ("diabetes", ("sex",), {"sex"}),
        ("titanic", ("sex",), {"male"}),
        ("titanic", ("age", "name"), {"age", "minor"}),
        ("titanic", ("parch", "embarked", "pclass"), {"alone", "port C", "port Q", "class 1", "class 2"}),
        ("heart-disease", ("cp", "sex"), {"cp=1", "cp=2", "cp=3", "cp=4", "sex"}),
        ("tcga-brca", ("race_white",), {"race_white"}),
    ],
)
def test_every_source_loses_just_these_inputs(name, forbid, inputs):
    source = SOURCES[name]()
    if not source.at_hand():
        pytest.skip(f"the files of {name} are not at hand: set COTERIE_DATA to a folder that has them")
    data, split = source.load(), SPLITS[source.natural.split]()
    plain, dealt = deal_clients(data, split, None, KEY), deal_clients(data, split, None, KEY, forbid=forbid)
    for before, after in zip(plain.clients, dealt.clients, strict=True):
        kept = [i for i, feature in enumerate(before.features) if feature not in inputs]
        assert set(before.features) - set(after.features) == inputs
        assert after.features == tuple(before.features[i] for i in kept)
        for part in ("train", "test"):
            mine, theirs = getattr(after, part), getattr(before, part)
            assert torch.equal(mine.x, theirs.x[:, kept])
            assert torch.equal(mine.y, theirs.y)
    assert len(dealt.chosen) == len(forbid)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"forbid": ["ill"]}, "column 'ill' is what is predicted, and is never an input"),
        ({"forbid": ["site"]}, "column 'site' says whose a row is, and is never an input"),
        ({"forbid": ["PID"]}, "column 'PID' says whom a row is about, and is never an input"),
        ({"forbid": ["born"]}, "column 'seen' is counted since 'born', which is forbidden: forbid both"),
        ({"forbid": ["sexx"]}, "unknown column of recipe 'sexx': did you mean sex?"),
        ({"forbid": ["q"]}, "unknown column of recipe 'q': known are age, chol, pain, seen, sex"),
        ({"forbid": ["age", "sex", "chol", "pain", "seen"]}, "leaves recipe no input: forbid fewer columns"),
        ({"forbid": ["sex"], "require": ["Sex"]}, "column 'Sex' is forbidden and required"),
        ({"require": ["born"]}, "column 'born' is no input, so that no model needs it"),
        ({"require": ["ill"]}, "column 'ill' is what is predicted, and is never an input"),
        ({"require": ["cholesterol"]}, "unknown column of recipe 'cholesterol'"),
    ],
)
def test_what_cannot_be_forbidden_or_required_is_said(tmp_path, asked, said):
    with pytest.raises(BadInput) as error:
        deal_clients(write(tmp_path).load(), Silos(), None, KEY, **asked)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_all_mistakes_are_said_at_once(tmp_path):
    with pytest.raises(CoterieError) as error:
        deal_clients(write(tmp_path).load(), Silos(), None, KEY, forbid=["ill", "q"], require=["born"])
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize("asked", [{"forbid": ["sex"]}, {"require": ["sex"]}])
def test_pictures_have_no_columns(asked):
    with pytest.raises(BadInput, match="inputs of digits are not columns that have names: leave forbid"):
        deal_clients(SOURCES["digits"]().load(), Iid(), 4, KEY, **asked)


def test_what_tells_patients_apart_may_be_forbidden_where_it_is_an_input(tmp_path):
    write(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(path.read_text().replace(RULES["pid"], 'use = "number"', 1))
    data = TableFile(recipe=str(path)).load()
    assert "pid" in data.features
    dealt = deal_clients(data, Silos(), None, KEY, forbid=["pid"])
    assert "pid" not in dealt.clients[0].features
    assert dealt.recipe.rule("pid").use == "leave-out"
    assert any("rows of one patient" in note for note in dealt.clients[0].notes)


def test_a_time_is_still_counted_since_a_forbidden_date(tmp_path):
    rows = [f"2000-{m:02}-01,2001-{m:02}-{d},{m % 2},{d % 20}" for m in range(1, 13) for d in (10, 20)]
    for site in SITES:
        (tmp_path / f"{site}.csv").write_text("\n".join(["found,last,smokes,died", *rows]))
    uses = {"found": 'use = "date"\nsince = "1999-01-01"', "last": 'use = "date"\nsince = "found"'}
    uses |= dict.fromkeys(("smokes", "died"), 'use = "flag"\nvalues = ["0", "1"]\nspellings = { 1 = ["10"] }')
    lines = ['target = "last"', 'event = "died"', "[sites]", *(f'{s} = "{s}.csv"' for s in SITES)]
    path = tmp_path / "recipe.toml"
    path.write_text("\n".join([*lines, *(f"[columns.{name}]\n{use}" for name, use in uses.items())]))
    dealt = deal_clients(TableFile(recipe=str(path)).load(), Silos(), None, KEY, forbid=["found"])
    assert {c.features for c in dealt.clients} == {("smokes",)}
    assert dealt.recipe.rule("found").use == "leave-out"
    assert {374, 375, 384, 385} == {abs(int(days)) for days in dealt.clients[0].train.y}


def test_who_does_not_record_a_required_column_is_out_and_the_others_are_as_without_it(tmp_path):
    data = write(tmp_path).load()
    dealt = deal_clients(data, Silos(), None, KEY, require=["chol", "age"], validation=0.2)
    assert [c.name for c in dealt.clients] == ["north", "south"]
    assert "clients left out, as they do not record chol: west" in dealt.notes
    assert "rows dealt to clients: 60 of 90, the other 30 left out" in dealt.notes
    assert "chol not recorded" not in dealt.clients[0].features  # nobody is left who lacks it
    path = tmp_path / "recipe.toml"
    text = path.read_text().replace('west = "west.csv"\n', "").replace("\nat.west = { absent = true }", "")
    path.write_text(text)
    never = deal_clients(TableFile(recipe=str(path)).load(), Silos(), None, KEY, validation=0.2)
    for mine, theirs in zip(dealt.clients, never.clients, strict=True):
        same(mine, theirs)


def test_who_stays_is_numbered_anew_with_its_own_rows_and_group():
    """Of six clients some have nothing of a column by the split, and a published test set is theirs too."""
    rng = np.random.default_rng(0)
    pools = [Arrays(rng.normal(size=(n, 2)), np.arange(n) % 2) for n in (240, 60)]
    prepare = TabularPrepare((Column("a"), Column("b")), missing="median", absent="mask")
    data = Dataset("made", "classification", *pools, features=("a", "b"), prepare=prepare)
    split = Missingness(most=0.1, whole=0.6)
    plain = deal_clients(data, split, 6, KEY).clients
    lacks = [c.name for c in plain if c.preparation.parts[1].absent]
    assert 0 < len(lacks) < 5
    dealt = deal_clients(data, split, 6, KEY, require=["b"])
    stay = [c for c in plain if c.name not in lacks]
    for mine, theirs in zip(dealt.clients, stay, strict=True):
        same(mine, theirs)
    assert dealt.chosen == (f"clients left out, as they do not record b: {', '.join(lacks)}",)


def test_a_titanic_client_of_unknown_ages_does_not_record_them():
    data, split = SOURCES["titanic"]().load(), SPLITS["age-strict"]()
    dealt = deal_clients(data, split, None, KEY, require=["age"])
    assert dealt.chosen == ("clients left out, as they do not record age: age unknown",)
    assert deal_clients(data, split, None, KEY, require=["fare"]).chosen == ()


def test_too_few_that_record_it():
    x = np.array([[1.0, np.nan]] * 40)
    x[:20, 1] = 2.0
    columns = {"who": np.array(["a"] * 20 + ["b"] * 20, dtype=object)}
    data = Dataset("two", "classification", Arrays(x, np.arange(40) % 2, columns), silos="who")
    data = Dataset(**{**vars(data), "prepare": TabularPrepare((Column("p"), Column("q")), "median")})
    with pytest.raises(BadInput, match="1 of 2 clients record q, at least 2 are needed: require less"):
        deal_clients(data, Silos(), None, KEY, require=["q"])


def test_from_python(tmp_path):
    frames = {
        name: pd.DataFrame({"age": range(30), "sex": ["f", "m"] * 15, "q": q, "ill": [0, 1] * 15})
        for name, q in (("a", 1.5), ("b", 2.5), ("c", None))
    }
    made = clients_from(frames, target="ill", forbid=["sex"], require=["q"])
    assert [c.name for c in made] == ["a", "b"]
    assert made[0].features == ("age", "q")
    said = (
        "column sex is forbidden: it is no input of any model",
        "clients left out, as they do not record q: c",
    )
    assert made[0].notes[:2] == said
    write(tmp_path)
    (one, *_) = clients_from(recipe=tmp_path / "recipe.toml", forbid=["sex"])
    assert "sex" not in one.features
    assert "sex" not in [rule.name for rule in one.recipe.rules]
    for wrong in ("sex", ["ill"]):
        with pytest.raises(BadInput):
            clients_from(frames, target="ill", forbid=wrong)
    with pytest.raises(UnknownName, match="unknown column of tables 'sx': did you mean sex"):
        clients_from(frames, target="ill", forbid=["sx"])
