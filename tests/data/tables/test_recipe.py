import pytest

from coterie.core.errors import CoterieError, Several
from coterie.data.preparation import Column, coded
from coterie.data.tables.recipe import Here, Recipe, Rule, plain_recipe
from coterie.data.tables.recipe_file import read_recipe, recipe_of, recipe_text, write_recipe

RECIPE = Recipe(
    (
        Rule(
            "weight",
            "number",
            unit="kg",
            missing=("NA", "-9"),
            lowest=20.0,
            at={"b": Here("Gewicht", "lb", 0.4536)},
        ),
        Rule(
            "sex", "category", values=("f", "m"), spellings={"f": ("female", "w")}, why=("why so", "and so")
        ),
        Rule("risk", "ordered", values=("low", "high"), at={"b": Here(absent=True)}),
        Rule("seen", "date", since="2024-01-31", counted="years", dates="%d.%m.%Y"),
        Rule('odd "name" of [this]', "leave-out"),
        Rule("ill", "flag", values=("no", "yes"), at={"a": Here(spellings={"yes": ("1",)}, decimal=",")}),
    ),
    "ill",
    {"a": "a.csv", "b": "sub folder/b.csv"},
    unlabelled="drop",
)


def test_a_recipe_goes_into_a_file_and_back(tmp_path):
    assert recipe_of(RECIPE.table()) == RECIPE
    write_recipe(tmp_path / "r.toml", RECIPE)
    back = read_recipe(tmp_path / "r.toml")
    assert back == RECIPE
    assert [r.why for r in back.rules] == [r.why for r in RECIPE.rules]
    assert back.folder == str(tmp_path)
    assert recipe_text(back) == recipe_text(RECIPE)


def test_what_it_means_for_models():
    assert [(c.name, c.kind, c.unit) for c in RECIPE.columns] == [
        ("weight", "number", "kg"),
        ("sex", "category", ""),
        ("risk", "number", ""),
        ("seen", "number", "years"),
    ]
    assert RECIPE.classes == ("no", "yes")
    assert RECIPE.columns[1].inputs == ["sex=f", "sex=m"]
    assert RECIPE.columns[2].text(1.0) == "high"
    assert (RECIPE.missing, RECIPE.scale, RECIPE.absent) == ("median", "shared", "flag")


def test_constants_that_sites_agreed_on():
    recipe = Recipe((Rule("a", "number", center=2.0, spread=4.0), Rule("b", "number")), scale="constants")
    assert recipe_of(recipe.table()).columns == (Column("a", center=2.0, spread=4.0), Column("b"))


def test_data_without_a_recipe_are_read_by_name():
    columns = (Column("age", unit="years"), Column("fbs", "flag"), coded("thal", (3, 6, 7)))
    recipe = plain_recipe(columns, ("well", "ill"), "num")
    assert recipe.columns[2].codes == (3.0, 6.0, 7.0)
    assert [c.name for c in recipe.columns] == ["age", "fbs", "thal"]
    assert recipe.classes == ("well", "ill")
    assert recipe_of(recipe.table()) == recipe


def test_all_mistakes_at_once():
    table = {
        "target": "il",
        "missing": "mean",
        "colour": 1,
        "columns": {
            "age": {"use": "nummer"},
            "sex": {"use": "category", "values": "f"},
            "ill": {"values": ["no", "yes"]},
            "x": {"use": "number", "lowest": "low", "at": {"a": {"factor": True, "nam": "y"}}},
            "y": 3,
        },
    }
    with pytest.raises(Several) as refusal:
        recipe_of(table, "my.toml")
    assert list(refusal.value.lines) == [
        "my.toml: unknown key 'colour': did you mean columns?",
        "my.toml: missing: must be one of refuse, drop, median; got 'mean'",
        "my.toml: columns.age.use: must be one of number, flag, category, ordered, date, leave-out; "
        "got 'nummer'",
        'my.toml: columns.sex.values: must be a list of texts such as ["a", "b"]; got \'f\'',
        "my.toml: columns.ill: use is missing: give one of number, flag, category, ordered, date, leave-out",
        "my.toml: columns.x.lowest: must be a finite number; got 'low'",
        "my.toml: columns.x.at.a: unknown key 'nam': did you mean name?",
        "my.toml: columns.x.at.a.factor: must be a finite number; got True",
        "my.toml: columns.y: must be a table; got 3",
        "my.toml: columns.y: use is missing: give one of number, flag, category, ordered, date, leave-out",
    ]


@pytest.mark.parametrize(
    ("rules", "head", "said"),
    [
        ((), {}, "columns: there are none"),
        (
            (Rule("a", "flag", values=("x",)),),
            {},
            "used as flag, it needs two values, the one for 0 first; got ['x']",
        ),
        ((Rule("a", "category"),), {}, "used as category, it needs values; got []"),
        ((Rule("a", "number"), Rule("A ", "number")), {}, "columns.a: is there twice but for case or blanks"),
        ((Rule("a", "number"),), {"target": "b"}, "target: unknown column 'b'"),
        ((Rule("a", "leave-out"),), {"target": "a"}, "target: 'a' is used as leave-out"),
        ((Rule("a", "number", lowest=3.0, highest=1.0),), {}, "lowest 3 is above highest 1: exchange them"),
        ((Rule("a", "number", spread=0.0),), {"scale": "constants"}, "columns.a.spread: 0 must be above 0"),
        (
            (Rule("a", "number", center=2.0),),
            {},
            "center and spread need scale = \"constants\", not 'shared'",
        ),
        ((Rule("a", "date", since="b"),), {}, "'b' is neither a column nor a date such as 2024-01-31"),
        ((Rule("a", "category", values=("x",), spellings={"z": ("y",)}),), {}, "unknown value 'z'"),
        (
            (Rule("a", "category", values=("x", "y"), spellings={"x": ("Y",)}),),
            {},
            "'y' stands for 2 values: keep it under one",
        ),
        ((Rule("a", "number", at={"c": Here("b")}),), {"sites": {"s": "f"}}, "unknown site 'c'"),
        (
            (Rule("sodium", "number", unit="mg/dl", at={"s": Here(unit="mmol/l")}),),
            {},
            "no conversion from 'mmol/l'",
        ),
        (
            (Rule("a", "number", at={"s": Here("b")}), Rule("b", "number")),
            {"sites": {"s": "f"}},
            "column 'b' of site 's' is read as a, b: keep one",
        ),
    ],
)
def test_what_does_not_fit_together(rules, head, said):
    with pytest.raises(CoterieError) as refusal:
        recipe_of(Recipe(rules, **head).table())
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "content", [b"a = ", b"\xff\xfe", b"x = " + b"[" * 3000, b"x = " + b"9" * 5000, b"columns = 3", b""]
)
def test_files_that_are_no_recipes(tmp_path, content):
    (tmp_path / "r.toml").write_bytes(content)
    with pytest.raises(CoterieError) as refusal:
        read_recipe(tmp_path / "r.toml")
    assert all(str(tmp_path / "r.toml") in line for line in str(refusal.value).splitlines())
    with pytest.raises(CoterieError, match="cannot read"):
        read_recipe(tmp_path / "none.toml")
