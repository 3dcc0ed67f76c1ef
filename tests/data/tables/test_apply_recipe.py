import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.core.errors import Several
from coterie.data.tables.apply_recipe import rows_of, unread
from coterie.data.tables.recipe import Here, Recipe, Rule

RECIPE = Recipe(
    (
        Rule("age", "number", missing=("-9",), lowest=0.0, highest=120.0),
        Rule("weight", "number", unit="kg", at={"b": Here(unit="lb"), "c": Here(decimal=",")}),
        Rule(
            "sex",
            "category",
            values=("f", "m"),
            spellings={"f": ("female",)},
            at={"b": Here("gender", spellings={"f": ("1",), "m": ("2",)})},
        ),
        Rule("risk", "ordered", values=("low", "medium", "high"), at={"b": Here(absent=True)}),
        Rule("smoker", "flag", values=("no", "yes"), spellings={"no": ("0",), "yes": ("1",)}),
        Rule("seen", "date", since="born", counted="years", dates="%d.%m.%Y"),
        Rule("born", "leave-out", dates="%d.%m.%Y"),
        Rule("ill", "flag", values=("no", "yes")),
    ),
    "ill",
    site="hospital",
)
HEADER = "age,weight (kg),sex,risk,smoker,seen,born,ill"
ROWS = (
    "50,70.5,f,low,no,31.12.2020,1.1.1970,no",
    "-9,81,m,high,1,31.12.2020,1.1.1980,yes",
    ",,Female,,,,,YES",
)


def write(tmp_path, header, *rows, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding=encoding)
    return path


@pytest.fixture
def plain_rows(tmp_path):
    return rows_of(RECIPE, write(tmp_path, HEADER, *ROWS), with_target=True)


def test_rows_by_hand(plain_rows):
    years = [
        (pd.Timestamp("2020-12-31") - pd.Timestamp(b)).days / 365.2425 for b in ("1970-01-01", "1980-01-01")
    ]
    nan = math.nan
    np.testing.assert_array_equal(
        plain_rows.raw,
        [
            [50, 70.5, 0, 0, 0, years[0]],
            [nan, 81, 1, 2, 1, years[1]],
            [nan, nan, 0, nan, nan, nan],
        ],
    )
    assert plain_rows.y.tolist() == [0, 1, 1]
    assert plain_rows.y.dtype == np.int64
    assert plain_rows.lines == [2, 3, 4]
    assert plain_rows.sites is None


def test_what_differs_at_a_site(tmp_path):
    path = write(tmp_path, "age,weight (lb),gender,smoker,seen,born", "50,100,2,no,,")
    (row,) = rows_of(RECIPE, path, "b").raw
    np.testing.assert_array_equal(row, [50, 45.359237, 1, math.nan, 0, math.nan])
    comma = write(tmp_path, HEADER, '50,"1.070,5",f,low,no,,,no')
    assert rows_of(RECIPE, comma, "c").raw[0, 1] == 1070.5


def test_numbers_of_a_frame_have_no_decimal_mark():
    frame = pd.DataFrame({"age": [50], "weight": [1.234], "sex": ["f"], "risk": [None], "smoker": [True]})
    frame = frame.assign(seen=pd.Timestamp("2020-12-31"), born=pd.Timestamp("1970-01-01"))
    recipe = Recipe(
        (*RECIPE.rules[:4], Rule("smoker", "flag", values=("false", "true")), *RECIPE.rules[5:]), "ill"
    )
    found = rows_of(recipe, frame, "c")
    assert found.raw[0, 1] == 1.234
    assert found.raw[0, 4] == 1.0
    assert found.lines == [1]


def test_a_column_tells_whose_a_row_is(tmp_path):
    header = "hospital,age,weight,sex,gender,risk,smoker,seen,born"
    path = write(tmp_path, header, "B ,50,100,x,2,,no,,", "a,50,100,f,,low,no,,", ",50,100,f,,low,no,,")
    found = rows_of(RECIPE, path)
    assert found.sites == ["b", "a", ""]
    assert found.raw[:, 1].tolist() == [45.359237, 100, 100]
    assert found.raw[:, 2].tolist() == [1, 0, 0]


def test_all_that_cannot_be_read_at_once(tmp_path):
    path = write(
        tmp_path,
        HEADER,
        "old,70,f,low,no,,,no",
        "130,70,f,some,no,,,",
        "old,1e999,x,low,maybe,soon,,no",
        "50,70,f,low,no,31.12.2020,early,no",
    )
    with pytest.raises(Several) as refusal:
        rows_of(RECIPE, path, with_target=True)
    told = "correct it, or list it as missing"
    how = 'correct it, or write how dates are written, dates = "%d.%m.%Y", under'
    assert [line.removeprefix(f"{path}, line ") for line in refusal.value.lines] == [
        f"5, column 'born': 'early' is not a date: {how} [columns.born]",
        f"2, 4, column 'age': 'old' is not a number: {told} under [columns.age]",
        f"4, column 'weight': '1e999' is not a number: {told} under [columns.weight]",
        f"4, column 'seen': 'soon' is not a date: {how} [columns.seen]",
        "3, column 'age': '130' is above 120, the highest: correct it, or change highest under [columns.age]",
        f"4, column 'sex': 'x' is not one of f, m: {told} or a spelling under [columns.sex]",
        f"3, column 'risk': 'some' is not one of low, medium, high: {told} or a spelling under "
        "[columns.risk]",
        f"4, column 'smoker': 'maybe' is not one of no, yes: {told} or a spelling under [columns.smoker]",
        "3, column 'ill': the target is missing: fill it in, remove the row, or write "
        'unlabelled = "drop" in the recipe',
    ]


def test_columns_that_are_missing_or_in_another_unit(tmp_path):
    path = write(tmp_path, "weight (lb),sex,smoker,seen,born,extra", "100,f,no,,,1")
    with pytest.raises(Several) as refusal:
        rows_of(RECIPE, path)
    assert list(refusal.value.lines) == [
        f"{path}: column 'age' is missing: add it",
        f"{path}: column 'weight (lb)' is in lb, the recipe reads 'weight' in kg: convert it, or write "
        'unit = "lb" under [columns.weight]',
        f"{path}: column 'risk' is missing: add it",
    ]
    assert unread(RECIPE, path) == ["extra"]
    with pytest.raises(Several, match=r"absent = true under \[columns.age.at.b\]"):
        rows_of(RECIPE, path, "b")


def test_rows_without_a_target_may_be_left_out(tmp_path):
    path = write(tmp_path, HEADER, "50,70,f,low,no,,,no", "51,70,f,low,no,,,", "52,70,f,low,no,,,yes")
    found = rows_of(Recipe(RECIPE.rules, "ill", unlabelled="drop"), path, with_target=True)
    assert found.lines == [2, 4]
    assert found.y.tolist() == [0, 1]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(range(8)),
    mark=st.booleans(),
    blanks=st.lists(st.sampled_from(["", " ", "  ", "\u00a0"]), min_size=8, max_size=8),
    case=st.sampled_from([str, str.upper, str.title]),
    separator=st.sampled_from(",;\t"),
)
def test_order_marks_blanks_and_case_change_nothing(
    tmp_path, plain_rows, order, mark, blanks, case, separator
):
    lines = [line.split(",") for line in (HEADER, *ROWS)]
    written = [separator.join(blanks[i] + case(cells[i]) + blanks[-1 - i] for i in order) for cells in lines]
    path = write(tmp_path, *written, name="other.csv", encoding="utf-8-sig" if mark else "utf-8")
    found = rows_of(RECIPE, path, with_target=True)
    assert found.raw.tobytes() == plain_rows.raw.tobytes()
    assert found.y.tolist() == plain_rows.y.tolist()
    assert found.lines == plain_rows.lines
