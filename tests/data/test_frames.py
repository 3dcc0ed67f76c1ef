"""Data frames as raw numbers."""

import datetime

import numpy as np
import pandas as pd
import pytest

from coterie.core.errors import BadData
from coterie.data.frames import columns_of, raw_of


def test_kinds_of_columns():
    frame = pd.DataFrame(
        {
            "age": [50, 61, 70],
            "weight": pd.array([70.5, None, 81.0], dtype="Float64"),
            "count": pd.Series([1, 2.5, None], dtype=object),
            "smokes": [True, False, True],
            "drinks": pd.array([True, None, False], dtype="boolean"),
            "ward": ["b", None, "a"],
            "stage": pd.Categorical(["II", "I", "I"], categories=["I", "II", "III"]),
            "grade": pd.Categorical([2, 1, 2]),
            "empty": [None, None, None],
        }
    )
    columns = columns_of(frame)
    assert [(c.name, c.kind, c.values) for c in columns] == [
        ("age", "number", ()),
        ("weight", "number", ()),
        ("count", "number", ()),
        ("smokes", "flag", ()),
        ("drinks", "flag", ()),
        ("ward", "category", ("a", "b")),
        ("stage", "category", ("I", "II", "III")),
        ("grade", "category", ("1", "2")),
        ("empty", "number", ()),
    ]
    nan = np.nan
    assert np.array_equal(
        raw_of(frame, columns),
        [
            [50, 70.5, 1, 1, 1, 1, 1, 1, nan],
            [61, nan, 2.5, 0, nan, nan, 0, 0, nan],
            [70, 81, nan, 1, 0, 0, 0, 1, nan],
        ],
        equal_nan=True,
    )


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "column 'x' holds datetime64 (datetime64[us]), neither numbers nor texts: leave it out, or make "
            "numbers of it, such as days since a date",
        ),
        (
            pd.Series([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
            "column 'x' holds date (object), neither numbers nor texts: leave it out, or make numbers of it, "
            "such as days since a date",
        ),
        (
            pd.Series([1, "a"], dtype=object),
            "column 'x' holds mixed-integer (object), neither numbers nor texts: leave it out, or make "
            "numbers of it, such as days since a date",
        ),
    ],
)
def test_what_is_neither_number_nor_text_is_refused(values, line):
    with pytest.raises(BadData) as error:
        columns_of(pd.DataFrame({"x": values}))
    assert str(error.value).replace("[ns]", "[us]").replace("[s]", "[us]") == line


def test_twins_are_refused():
    with pytest.raises(BadData, match=r"^column 'a' is there twice: rename or drop one$"):
        columns_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_values_that_a_column_cannot_hold_are_refused_with_their_row():
    columns = columns_of(pd.DataFrame({"ward": ["a", "b"], "age": [1, 2]}))
    strange = "^column 'ward' holds 'c' in row 3, but may hold a, b: correct or blank that value$"
    with pytest.raises(BadData, match=strange):
        raw_of(pd.DataFrame({"ward": ["a", None, "c"], "age": [1, 2, 3]}), columns)
    with pytest.raises(BadData, match=r"^column 'age' holds no numbers .*: correct or blank them$"):
        raw_of(pd.DataFrame({"ward": ["a"], "age": ["old"]}), columns)
