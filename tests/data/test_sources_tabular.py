"""TabularPrepare by hand: what is fitted is fitted on training rows, and every change is counted."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.core.errors import BadData, UnknownName
from coterie.data.dataset import Arrays
from coterie.data.tabular import TabularPrepare

NaN = np.nan
PREPARE = TabularPrepare(("a", "f", "c"), flags=("f",), categories=(("c", (1, 2, 3)),), missing="median")
TRAIN = [[1, 0, 2], [3, 0, 2], [NaN, 1, 3], [5, NaN, NaN]]
TEST = [[7, 1, 1], [NaN, NaN, NaN]]
DEVIATION = np.sqrt(8 / 3)  # of 1, 3, 5


def pool(rows: list[list[float]]) -> Arrays:
    x = np.array(rows, dtype=np.float64)
    return Arrays(x, np.arange(len(rows)), {"row": np.arange(len(rows))})


def test_numbers_flags_and_categories_by_hand():
    [train, test], notes = PREPARE(pool(TRAIN), pool(TEST))
    z = 2 / DEVIATION
    expected = [[-z, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 1, 0, 0, 1], [z, 0, 0, 1, 0]]
    assert np.allclose(train.x, expected)
    assert np.allclose(test.x, [[2 * z, 1, 1, 0, 0], [0, 0, 0, 1, 0]])
    assert train.x.dtype == np.float32
    assert PREPARE.features == ("a", "f", "c=1", "c=2", "c=3")
    assert notes == (
        "a: 1 missing value(s) in training rows and 1 in further rows filled by 3, the training median",
        "f: 1 missing value(s) in training rows and 1 in further rows filled by 0, the most frequent "
        "training value",
        "c: 1 missing value(s) in training rows and 1 in further rows filled by 2, the most frequent "
        "training value",
        "standardised with this client's own training mean and deviation: a",
    )


@pytest.mark.parametrize("rule", ["median", "drop"])
def test_a_test_row_changes_neither_training_rows_nor_other_test_rows(rule):
    prepare = TabularPrepare(PREPARE.columns, PREPARE.flags, PREPARE.categories, rule)
    [train, test], _ = prepare(pool(TRAIN), pool([[1, 0, 1], *TEST]))
    [train_again, test_again], _ = prepare(pool(TRAIN), pool([[900, 1, 3], *TEST]))
    assert np.array_equal(train.x, train_again.x)
    assert not np.array_equal(test.x[0], test_again.x[0])
    assert np.array_equal(test.x[1:], test_again.x[1:])


def test_incomplete_rows_are_left_out_with_their_targets_and_counted():
    prepare = TabularPrepare(PREPARE.columns, PREPARE.flags, PREPARE.categories, "drop")
    [train, validation, test], notes = prepare(pool(TRAIN), pool(TEST).take(np.arange(0)), pool(TEST))
    assert train.y.tolist() == [0, 1]
    assert train.columns["row"].tolist() == [0, 1]
    assert np.allclose(train.x[:, 0], [-1, 1])  # mean 2, deviation 1
    assert len(validation) == 0
    assert test.x.tolist() == [[5, 1, 1, 0, 0]]
    assert notes[0] == "2 of 4 training rows and 1 of 2 further rows left out for missing values"


def test_no_complete_training_row_is_refused():
    prepare = TabularPrepare(("a", "b"), missing="drop")
    with pytest.raises(BadData, match=r"none of 2 training rows is complete \(b is missing in 2\).*median"):
        prepare(pool([[1, NaN], [NaN, NaN]]))


def test_a_column_unknown_in_training_is_0_everywhere():
    prepare = TabularPrepare(("a", "c"), categories=(("c", (0, 1)),), missing="median")
    [train, test], notes = prepare(pool([[NaN, NaN], [NaN, NaN]]), pool([[250, 0], [NaN, NaN]]))
    assert not train.x.any()
    assert not test.x.any()
    assert notes == (
        "a: no value known in 2 training rows, 0 in all rows, 1 known value(s) in further rows set aside",
        "c: no value known in 2 training rows, 0 in all rows, 1 known value(s) in further rows set aside",
    )


def test_a_column_that_never_varies_has_deviation_1():
    [train, test], _ = TabularPrepare(("a",))(pool([[0.1]] * 3), pool([[2.1]]))
    assert np.allclose(train.x, 0)
    assert np.allclose(test.x, 2)


def test_missing_values_are_refused_unless_a_rule_is_given():
    with pytest.raises(BadData, match="column 'a' has 1 missing"):
        TabularPrepare(("a",))(pool([[1], [NaN]]))
    with pytest.raises(UnknownName, match="median"):
        TabularPrepare(("a",), missing="medain")


@pytest.mark.parametrize(("row", "said"), [([1, 2, 1], "'f' holds 2"), ([1, 1, 9], "'c' holds 9.*1, 2, 3")])
def test_a_value_outside_its_list_is_refused(row, said):
    with pytest.raises(BadData, match=said):
        PREPARE(pool(TRAIN), pool([row]))
