"""Which rows a site may tell of: hand-worked sets of twelve rows, and every combination of small ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import BadRun, Refused
from coterie.federation.site import row_sets
from coterie.federation.site.row_sets import ROW_SETS, RowSets, Span, fewest_left, numbered_marks
from coterie.federation.site.state import marks_in

WHO = {"by": "lead", "run": "r"}


def sets_of(folder, rows=12, least=3, leverage=0.5, units=None, first=0):
    marks = [f"row {i}" for i in range(first, first + rows)]
    return RowSets(folder, marks, np.arange(rows) if units is None else np.array(units), least, leverage)


def said_no(admit, *asked):
    try:
        admit(*asked, WHO)
    except Refused as error:
        return str(error)
    return ""


def test_few_rows_are_refused(tmp_path):
    sets = sets_of(tmp_path)
    with pytest.raises(Refused, match="figures of 2 rows, below the policy's 3"):
        sets.admit(np.array([4, 7]), WHO)
    sets.admit(np.arange(12), WHO)


@pytest.mark.parametrize("left", [1, 2])
def test_two_sets_that_differ_by_few_rows_are_refused(tmp_path, left):
    sets = sets_of(tmp_path)
    sets.admit(np.arange(12), WHO)
    with pytest.raises(
        Refused, match=f"rows that differ by {left} from rows that figures were told of before"
    ):
        sets.admit(np.arange(12 - left), WHO)


def test_three_sets_that_tell_a_row_together_are_refused(tmp_path):
    """{0..5} and {6..11} add up to all; all but row 11 is another set by more than two rows from either."""
    sets = sets_of(tmp_path)
    sets.admit(np.arange(6), WHO)
    sets.admit(np.arange(6, 12), WHO)
    with pytest.raises(Refused, match=r"rows that differ by 1 from rows|rows looked at in so many ways"):
        sets.admit(np.arange(11), WHO)


def test_folds_of_one_seed_are_fine_and_again_too(tmp_path):
    sets = sets_of(tmp_path)
    for _ in range(2):
        sets.admit(np.arange(12), WHO)
        for fold in range(4):
            sets.admit(np.arange(fold, 12, 4), WHO)
            sets.admit(np.setdiff1d(np.arange(12), np.arange(fold, 12, 4)), WHO)


def test_leverage_by_hand(tmp_path):
    """Three folds of four rows: each row explains a quarter of its fold's sum."""
    sets = sets_of(tmp_path)
    for fold in range(3):
        sets.admit(np.arange(fold, 12, 3), WHO)
    assert sets.about().span.leverage == pytest.approx(np.full(12, 0.25))


def test_many_ways_to_deal_rows_end(tmp_path):
    """Random halves of forty rows: each is far from all others, and yet forty would tell every row."""
    sets, rng, done = sets_of(tmp_path, 40, 3, 0.5), np.random.default_rng(0), 0
    while done < 40 and said_no(sets.admit, rng.permutation(40)[:20]) == "":
        done += 1
    assert 5 < done <= 20  # an average leverage of 1/2 is twenty sets
    known = np.array(sets.about().sets)
    rows = np.eye(40)
    left = rows - rows @ np.linalg.pinv(known.astype(float)) @ known
    assert (left**2).sum(axis=1).min() >= 0.5 - 1e-9


def test_rows_of_one_person_count_as_one(tmp_path):
    sets = sets_of(tmp_path, units=[0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4, 5])
    with pytest.raises(Refused, match="figures of 2 rows"):
        sets.admit(np.arange(8), WHO)
    sets.admit(np.arange(12), WHO)
    with pytest.raises(Refused, match="differ by 1 from rows"):
        sets.admit(np.arange(4, 12), WHO)


def test_what_was_told_lasts(tmp_path):
    sets_of(tmp_path).admit(np.arange(12), WHO)
    with pytest.raises(Refused, match="differ by 1 from rows"):
        sets_of(tmp_path).admit(np.arange(11), WHO)


def test_a_table_that_has_grown_by_a_row_is_the_same_hole(tmp_path):
    sets_of(tmp_path).admit(np.arange(12), WHO)
    more = sets_of(tmp_path, rows=13)
    with pytest.raises(Refused, match="differ by 1 from rows"):
        more.admit(np.arange(13), WHO)
    sets_of(tmp_path, rows=15).admit(np.arange(15), WHO)  # three rows more are three rows


def test_damage_ends_the_site_and_a_torn_line_does_not(tmp_path):
    sets_of(tmp_path).admit(np.arange(12), WHO)
    path = tmp_path / ROW_SETS
    path.write_text(path.read_text() + '{"set": "ab')
    assert len(sets_of(tmp_path).about().sets) == 1
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(BadRun, match="line 1 is damaged"):
        sets_of(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=5))
def test_no_small_combination_of_admitted_sets_is_about_few_rows(tmp_path_factory, asked):
    """With whole factors from -2 to 2, whatever was asked."""
    sets = sets_of(tmp_path_factory.mktemp("sets"), rows=8, least=3)
    admitted = []
    for rows in asked:
        try:
            sets.admit(np.array(sorted(rows)), WHO)
        except Refused:
            continue
        admitted.append(np.isin(np.arange(8), sorted(rows)).astype(int))
    for factors in itertools.product(range(-2, 3), repeat=len(admitted)):
        left = sum((f * v for f, v in zip(factors, admitted, strict=True)), np.zeros(8))
        assert not 0 < np.count_nonzero(left) < 3


def test_the_fewest_rows_that_a_combination_leaves():
    sets = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0]])
    left = fewest_left(np.array([1, 1, 1, 1, 1, 1, 1]), sets)
    assert left == pytest.approx([0, 0, 0, 0, 0, 0, 1])


def test_sums_of_a_column_are_a_matter_of_their_own(tmp_path):
    """Rows that have a value of a column may be all but a few: no difference between models' figures."""
    sets = sets_of(tmp_path)
    sets.admit(np.arange(12), WHO)
    sets.admit(np.arange(11), WHO, "sums of age")
    with pytest.raises(Refused, match="differ by 1 from rows"):
        sets_of(tmp_path).admit(np.arange(10), WHO, "sums of age")


def test_a_span_knows_what_is_in_it():
    span = Span.of(4)
    span.grow(span.beyond(np.array([1, 1, 0, 0])))
    span.grow(span.beyond(np.array([0, 0, 1, 1])))
    assert span.beyond(np.array([3, 3, 1, 1])) is None
    assert span.leverage == pytest.approx([0.5] * 4)


def test_marks_tell_rows_and_their_twins_apart():
    """By whatever order of columns: a table that is laid out anew has the same rows."""
    x = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    first, second, third = numbered_marks(marks_in(x, b"key"))
    assert first != second
    assert first.split("-")[0] == second.split("-")[0] != third.split("-")[0]
    assert numbered_marks(marks_in(x[2:, ::-1], b"key")) == [third]


def test_what_has_no_room_is_not_written_down(tmp_path, monkeypatch):
    """Or the site would not start again."""
    monkeypatch.setattr(row_sets, "MOST_NUMBERS", 24)
    sets = sets_of(tmp_path)
    sets.admit(np.arange(12), WHO)
    sets.admit(np.arange(6), WHO)
    with pytest.raises(Refused, match="in 2 ways, all that can be kept account of"):
        sets.admit(np.arange(0, 12, 2), WHO)
    assert len(sets_of(tmp_path).about().sets) == 2


def test_a_search_that_did_not_end_is_no_answer(monkeypatch):
    monkeypatch.setattr(row_sets, "LONGEST", 0.0)
    rng = np.random.default_rng(0)
    some = rng.integers(0, 2, (20, 400))
    with pytest.raises(Refused, match="it cannot be said"):
        fewest_left(rng.integers(0, 2, 400), some)
