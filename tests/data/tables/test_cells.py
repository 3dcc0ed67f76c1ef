"""Each spelling once says the same as each cell by itself; a text cut all at once, the same as row by row."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import CoterieError, Several
from coterie.data.tables.cells import Column, Spellings, Values, object_array
from coterie.data.tables.numerals import Writing
from coterie.data.tables.plain_csv import likely_separator, plain_text
from coterie.data.tables.read import read_csv, read_rows
from coterie.data.tables.texts import number_of, same

TRICKY = [
    "", "1", "1.0", "1.00", "-1", "+1", "01", "1.", ".5", "1,5", "1.234", "12.345", "1,234", "1'234", "1 234",
    "1e3", "-9", "-9.0", "-9,0", "999", "999.0", "NA", "n/a", "yes", "Yes", "no", "<5", "1.2.3", "5-3", "--",
    "-", "nan", "inf", "0.1000000000000000055", "123456789012345678901234567890", "1" * 70, "١٢", "1_000",
    "äöü", "a b", "0", "-0", "0.0",
]  # fmt: skip
CELLS = st.sampled_from(TRICKY) | st.floats(-1e9, 1e9).map(str) | st.integers(-5000, 5000).map(str)
FLOATS = st.floats(allow_nan=False)


def nan(value: float | None) -> float:
    return np.nan if value is None else value


@pytest.mark.parametrize(
    "marks", [("", ""), (".", ","), (",", "."), (",", ""), ("either", ""), ("either", ",")]
)
@given(cells=st.lists(CELLS | FLOATS, min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_numbers_of_spellings_are_those_of_cells(marks, cells):
    found = Spellings(object_array(cells)).numbers(*marks)
    assert np.array_equal(found, [nan(number_of(c, *marks)) for c in cells], equal_nan=True)


@given(
    cells=st.lists(CELLS | FLOATS, min_size=1, max_size=20),
    texts=st.sets(st.sampled_from(TRICKY) | st.sampled_from(["1", "-9", "999", "0.1"]), max_size=4),
    as_written=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_among_some_texts(cells, texts, as_written):
    found = Spellings(object_array(cells)).among(texts, np.arange(len(cells)), as_written)
    assert found.tolist() == [same(c) in texts or (as_written and str(c) in texts) for c in cells]


@given(cells=st.lists(CELLS, min_size=1, max_size=12), commas=st.booleans())
@settings(max_examples=150, deadline=None)
def test_how_numbers_are_written(cells, commas):
    known = list(dict.fromkeys(cells))
    assert Writing.of(Values.of(known), commas) == Writing.of(known, commas)


@given(cells=st.lists(CELLS, min_size=1, max_size=30), rows=st.lists(st.integers(0, 29), max_size=40))
@settings(max_examples=60, deadline=None)
def test_some_rows_of_a_column(cells, rows):
    taken = [cells[r % len(cells)] for r in rows]
    column = Column.of(cells).take(np.array([r % len(cells) for r in rows], dtype=int))
    assert list(column) == taken
    assert column.each(same).tolist() == [same(c) for c in taken]
    values = column.values()
    assert list(values) == list(dict.fromkeys(taken))
    assert values.counts.tolist() == [taken.count(c) for c in values]


def test_sites_together_are_in_the_order_of_rows():
    whole = Column.of(["b", "a", "c", "a", "b", "d"])
    parts = [whole.take(np.array(rows)).values() for rows in ([2, 3], [0, 1, 4, 5])]
    found = Values.joined(parts)
    assert dict(found) == {"c": 1, "a": 2, "b": 2, "d": 1}
    assert list(found) == ["c", "a", "b", "d"]
    assert dict(Values.joined([parts[0], Values.of(["a", "e"])])) == {"c": 1, "a": 2, "e": 1}


def told(read) -> object:
    """A table in plain words, or what is wrong."""
    try:
        table = read()
    except CoterieError as error:
        return error.lines if isinstance(error, Several) else [str(error)]
    cells = {h: list(c) for h, c in table.columns.items()}
    return cells, table.lines.tolist(), dict(table.broken), table.separator


def both_ways(text: str, by_row: bool) -> bool:
    """Whether a text is read alike at once and row by row; gives whether it is read at once."""
    content = text.encode()
    rows = told(lambda: read_rows("t.csv", content, likely_separator(text), by_row))
    assert told(lambda: read_csv("t.csv", content, by_row=by_row)) == rows
    return plain_text(content, likely_separator(text)) is not None


LINE = st.lists(
    st.sampled_from([*TRICKY[:30], " ", " a ", "x" * 33, "\u00a0é", "\u200b", "\x1c", '"q"']), max_size=4
)


@given(
    lines=st.lists(LINE, min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
    mark=st.sampled_from([",", ";", "\t"]),
    by_row=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_alike(lines, end, last, mark, by_row):
    text = end.join(mark.join(line) for line in [["a", "b", "c"], *lines]) + end * last
    both_ways(text, by_row)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_a_plain_text_is_read_at_once(end, last):
    draw = random.Random(0)
    cells = [
        "",
        "1.5",
        " x",
        "12345678",
        "123456789",
        "0.12345678901234567",
        "ä" * 8,
        "y" * 32,
        "y" * 33,
        "y" * 32 + "z",
    ]
    rows = [["id", "a", "b"], *([str(i), draw.choice(cells), draw.choice(cells)] for i in range(200))]
    text = (
        end.join(",".join(row) for row in rows[:50]) + 2 * end + end.join(",".join(row) for row in rows[50:])
    )
    assert both_ways(text + end * last, by_row=False)


@pytest.mark.parametrize(
    "text", ['a,b\n"1",2\n', "a,b\r\n1,2\n", "a,b\n1\n", "a,b\n,\n1,2\n", "a\n1\n", "a,\n1,2\n"]
)
def test_what_may_be_read_in_another_way_is_read_row_by_row(text):
    assert not both_ways(text, by_row=True)
