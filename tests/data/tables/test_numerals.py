"""Marks in numbers: what a cell proves, what is asked, and what is refused rather than guessed."""

import random

import numpy as np
import pytest

from coterie.core.errors import Several
from coterie.data.tables.apply_recipe import rows_of
from coterie.data.tables.inspect import inspect
from coterie.data.tables.numerals import Writing, two_readings
from coterie.data.tables.profile import Profile
from coterie.data.tables.recipe import Here, Recipe, Rule
from coterie.data.tables.recipe_file import read_recipe, recipe_of, write_recipe
from coterie.data.tables.texts import number_of


@pytest.mark.parametrize(
    ("text", "decimal", "thousands", "value"),
    [
        ("1,003", "", "", None), ("1,003", "", ",", 1003.0), ("1,003", ",", "", 1.003),
        ("88.500", ",", "", None), ("88.500", ",", ".", 88500.0), ("88.500", "", "", 88.5),
        ("88.5", ",", "", None), ("88.5", ",", ".", None), ("88,5", "", ",", None),
        ("1,003", "either", "", 1.003), ("1.003", "either", "", 1.003), ("1.234,5", "either", "", 1234.5),
        ("1,234,567", "", "", 1234567.0), ("1,234.5", "", "", 1234.5), ("1.234.567", ",", "", 1234567.0),
        ("1,234.5", ",", ".", None), ("0,512", "", ",", None), ("12,34,567", "", "", None),
        ("1\u202f234,5", ",", "", 1234.5), ("1\u2019234.5", "", "", 1234.5), ("1'234,567", ",", "", 1234.567),
        ("1 234,567", "", "", None), ("-1,003", "", ",", -1003.0), ("\u22121.5", "", "", -1.5),
        ("1,5e3", ",", "", 1500.0), ("1.5E3", "", "", 1500.0), (1.003, ",", ".", 1.003),
    ],
)  # fmt: skip
def test_a_mark_is_what_the_column_says(text, decimal, thousands, value):
    assert number_of(text, decimal, thousands) == value


@pytest.mark.parametrize(
    ("cells", "decimal", "thousands", "asked"),
    [
        (["88,5", "90,1", "88.500"], "either", "", "'88.500' is read as 88.5; if it is 88500, write"),
        (["88,5", "88.5"], "either", "", "written in two ways, '88.5' and '88,5'"),
        (["1,003", "1.003", "1,010"], "either", "", "is read as 1.003; if it is 1003, write"),
        (["0.98", "1,003"], "either", "", "'1,003' is read as 1.003; if it is 1003"),
        (["120.5", "980.25", "1,003"], "", ",", "'1,003' is read as 1003; if it is 1.003"),
        (["950", "1.250", "3.100"], ",", ".", "'1.250' is read as 1250; if it is 1.25"),
        (["1.234,5", "2.500"], ",", ".", ""),
        (["1,234.5", "2,500", "3,000,000"], "", ",", ""),
        (["12.5", "1.003"], "", "", ""),
        (["12,5", "1,003"], ",", "", ""),
        (["1 234", "12,5"], ",", "", ""),
        ([1.5, 2.5, 1003.0], "", "", ""),
    ],
)
def test_how_a_column_writes_its_numbers(cells, decimal, thousands, asked):
    found = Writing.of(cells)
    assert (found.decimal, found.thousands) == (decimal, thousands)
    assert asked in found.ask
    assert bool(asked) == bool(found.ask)


def test_cells_of_doubt_that_would_be_far_from_all_others_are_spelled_out():
    cells = ["812,5", "950.25", "990,75", "1.003"]
    found = Profile.of_cells("x", cells)
    assert found.numbers().tolist() == [812.5, 950.25, 990.75, 1003.0]
    assert "'1.003' is read as 1003; if it is 1.003" in found.asks[0]
    assert two_readings("1.003") == (1.003, 1003.0)
    assert two_readings("1.03") is None


def table(path, columns):
    lines = [";".join(columns), *(";".join(row) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def ill(n):
    return [("yes", "no")[i % 2] for i in range(n)]


def test_mixed_marks_are_asked_about_and_nothing_grows_a_thousandfold(tmp_path):
    rng = random.Random(0)
    cells = [f"{rng.uniform(1.001, 1.035):.3f}" for _ in range(150)]
    truth = [float(c) for c in cells]
    for i in rng.sample(range(150), 39):
        cells[i] = cells[i].replace(".", ",")
    path = table(tmp_path / "a.csv", {"urine density": cells, "ill": ill(150)})
    seen = inspect([path], "ill", home=tmp_path)
    (asked,) = seen.asks
    assert "written in two ways" in asked
    write_recipe(tmp_path / "r.toml", seen.recipe)
    recipe = read_recipe(tmp_path / "r.toml")
    assert recipe.rule("urine density").decimal == "either"
    np.testing.assert_array_equal(rows_of(recipe, path, "a").raw[:, 0], truth)


def test_one_site_with_commas_and_another_with_points(tmp_path):
    rng = random.Random(1)
    values = [f"{rng.gauss(240, 40) * 1000:.0f}" for _ in range(40)]
    german = [f"{int(v):,}".replace(",", ".") for v in values]
    hb = [f"{rng.gauss(13, 2):.1f}" for _ in range(40)]
    north = table(tmp_path / "north.csv", {"thrombo": values, "hb": hb, "ill": ill(40)})
    south = table(
        tmp_path / "south.csv",
        {"thrombo": german, "hb": [h.replace(".", ",") for h in hb], "ill": ill(40)},
    )
    seen = inspect([north, south], "ill")
    assert seen.recipe.rule("thrombo").marks("south") == (",", ".")
    assert "column 'thrombo': thousands with a point at south, as the other sites' numbers show" in seen.says
    raw = [rows_of(seen.recipe, p, p.stem).raw for p in (north, south)]
    np.testing.assert_array_equal(*raw)
    (asked,) = (a for a in inspect([south], "ill").asks if "of south is read as" in a)  # nobody else tells
    assert asked.endswith('write decimal = "." and no thousands')


def test_a_comma_is_what_it_is_in_other_columns_of_the_file(tmp_path):
    rng = random.Random(2)
    crea, hb = ([f"{rng.uniform(1, 9):.{d}f}".replace(".", ",") for _ in range(40)] for d in (3, 1))
    seen = inspect([table(tmp_path / "a.csv", {"crea": crea, "hb": hb, "ill": ill(40)})], "ill")
    assert seen.recipe.rule("crea").marks("a") == (",", "")
    (asked,) = seen.asks
    assert asked.endswith('write decimal = "." and thousands = ","')


def test_a_cell_that_does_not_fit_is_refused_by_line_with_both_readings(tmp_path):
    rules = (Rule("hb", "number", decimal=","), Rule("crp", "number"), Rule("plt", "number", thousands=","))
    path = table(
        tmp_path / "t.csv",
        {"hb": ["12,5", "88.500", "88.5"], "crp": ["1.5", "1,003", "1,5"], "plt": ["1,003", "1,5", "99"]},
    )
    with pytest.raises(Several) as refusal:
        rows_of(Recipe(rules), path)
    assert [line.removeprefix(f"{path}, line ") for line in refusal.value.lines] == [
        "3, column 'hb': '88.500' is 88.5 or 88500: correct it, or write decimal = \"either\" for the one, "
        'thousands = "." for the other under [columns.hb]',
        "4, column 'hb': '88.5' is 88.5 with a decimal point, and the column has decimal commas: correct it, "
        'or write decimal = "either" under [columns.hb]',
        "3, column 'crp': '1,003' is 1.003 or 1003: correct it, or write decimal = \"either\" for the one, "
        'thousands = "," for the other under [columns.crp]',
        "4, column 'crp': '1,5' is 1.5 with a decimal comma, and the column has decimal points: correct it, "
        'or write decimal = "either" under [columns.crp]',
        "3, column 'plt': '1,5' is 1.5 with a decimal comma, and the column has decimal points: correct it, "
        'or write decimal = "either" under [columns.plt]',
    ]


def test_marks_in_recipes(tmp_path):
    rule = Rule(
        "x", "number", thousands=",", at={"b": Here(decimal=","), "c": Here(decimal=",", thousands=".")}
    )
    assert rule.marks("") == ("", ",")
    assert rule.marks("b") == (",", "")
    assert rule.marks("c") == (",", ".")
    again = recipe_of(Recipe((rule,)).table())
    assert again.rules == (rule,)
    with pytest.raises(Several, match='thousands = "," beside decimal = ",": one mark cannot be both'):
        recipe_of({"columns": {"x": {"use": "number", "decimal": ",", "thousands": ","}}})
    with pytest.raises(Several, match=r'thousands = "." beside decimal = ".": one mark cannot be both'):
        recipe_of({"columns": {"x": {"use": "number", "thousands": "."}}})


def three_digits(mark, seed, low=1.001, high=9.9):
    rng = random.Random(seed)
    return [f"{rng.uniform(low, high):.3f}".replace(".", mark) for _ in range(40)]


@pytest.mark.parametrize("mark", [",", "."])
def test_sites_in_doubt_do_not_prove_each_other(tmp_path, mark):
    paths = [
        table(tmp_path / f"{site}.csv", {"leuko": three_digits(mark, i), "ill": ill(40)})
        for i, site in enumerate(["north", "south"])
    ]
    seen = inspect(paths, "ill")
    for site in ("north", "south"):
        (asked,) = (a for a in seen.asks if f"of {site} is read as" in a)
        assert "column 'leuko': '" in asked
    assert not any("as the other sites' numbers show" in line for line in seen.says)


def test_a_site_without_marks_tells_what_the_points_of_another_are(tmp_path):
    north = table(tmp_path / "north.csv", {"leuko": three_digits(".", 0, 5, 9), "ill": ill(40)})
    whole = [c.replace(".", "") for c in three_digits(".", 1, 5, 9)]
    south = table(tmp_path / "south.csv", {"leuko": whole, "ill": ill(40)})
    seen = inspect([north, south], "ill")
    assert seen.asks == ()
    assert seen.recipe.rule("leuko").marks("north") == (",", ".")


def test_a_point_that_another_column_proves_is_no_question(tmp_path):
    columns = {"leuko": three_digits(".", 0), "hb": [f"{12 + i / 10:.1f}" for i in range(40)], "ill": ill(40)}
    assert inspect([table(tmp_path / "a.csv", columns)], "ill").asks == ()
