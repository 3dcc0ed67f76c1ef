"""Preparing tables by hand: what is fitted is fitted on training rows, and every change is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from coterie.core.errors import BadData, UnknownName
from coterie.data.dataset import Arrays
from coterie.data.preparation import Column, coded, numbers, preparation_from_dict
from coterie.data.tabular import Moments, TabularPrepare

NaN = np.nan
COLUMNS = (Column("a"), Column("f", "flag"), coded("c", (1, 2, 3), ("low", "mid", "high")))
PREPARE = TabularPrepare(COLUMNS, missing="median")
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
    assert PREPARE.features == ("a", "f", "c=low", "c=mid", "c=high")
    assert notes == (
        "missing values filled by this client's training median or mode: a (1 in training and 1 in further "
        "rows, by 3), f (1 in training and 1 in further rows, by 0), c (1 in training and 1 in further rows, "
        "by mid)",
        "standardised with this client's own training mean and deviation: a",
    )


@pytest.mark.parametrize("rule", ["median", "drop"])
def test_a_test_row_changes_neither_training_rows_nor_other_test_rows(rule):
    prepare = replace(PREPARE, missing=rule)
    [train, test], _ = prepare(pool(TRAIN), pool([[1, 0, 1], *TEST]))
    [train_again, test_again], _ = prepare(pool(TRAIN), pool([[900, 1, 3], *TEST]))
    assert np.array_equal(train.x, train_again.x)
    assert not np.array_equal(test.x[0], test_again.x[0])
    assert np.array_equal(test.x[1:], test_again.x[1:])


def test_incomplete_rows_are_left_out_with_their_targets_and_counted():
    prepare = replace(PREPARE, missing="drop")
    [train, validation, test], notes = prepare(pool(TRAIN), pool(TEST).take(np.arange(0)), pool(TEST))
    assert train.y.tolist() == [0, 1]
    assert train.columns["row"].tolist() == [0, 1]
    assert np.allclose(train.x[:, 0], [-1, 1])  # mean 2, deviation 1
    assert len(validation) == 0
    assert test.x.tolist() == [[5, 1, 1, 0, 0]]
    assert notes[0] == "rows left out for missing values: 2 of 4 in training and 1 of 2 further ones"


def test_no_complete_training_row_is_refused():
    prepare = TabularPrepare(numbers(("a", "b")), missing="drop", absent="refuse")
    with pytest.raises(BadData, match=r"none of 2 training rows is complete \(b is missing in 2\).*median"):
        prepare(pool([[1, NaN], [NaN, NaN]]))


def test_a_column_that_never_varies_has_deviation_1():
    [train, test], _ = TabularPrepare((Column("a"),))(pool([[0.1]] * 3), pool([[2.1]]))
    assert np.allclose(train.x, 0)
    assert np.allclose(test.x, 2)


def test_missing_values_are_refused_unless_a_rule_is_given():
    with pytest.raises(BadData, match=r"column 'a' has 1 missing or NaN value.*first in row 2"):
        TabularPrepare((Column("a"),))(pool([[1], [NaN]]))
    with pytest.raises(UnknownName, match="median"):
        TabularPrepare((Column("a"),), missing="medain")
    with pytest.raises(UnknownName, match="shared"):
        TabularPrepare((Column("a"),), scale="shard")


@pytest.mark.parametrize(
    ("row", "said"), [([1, 2, 1], "'f' holds 2"), ([1, 1, 9], "'c' holds 9.*low, mid, high")]
)
def test_a_value_outside_its_list_is_refused(row, said):
    with pytest.raises(BadData, match=said):
        PREPARE(pool(TRAIN), pool([row]))


class TestTogether:
    """Two clients: 1, 3 and 5; 10 and 20."""

    def test_a_shared_scale_is_that_of_all_rows_in_one_place(self):
        one, other = np.array([1, 3, 5, NaN]), np.array([10.0, 20.0])
        found = Moments.joined([Moments.of(one), Moments.of(other), Moments.of(np.array([NaN]))])
        every = np.array([1, 3, 5, 10, 20])
        assert found.known == 5
        assert found.mean == pytest.approx(every.mean())
        assert found.deviation == pytest.approx(every.std())
        assert Moments.joined([Moments(0, NaN, 0.0)]).known == 0

    @pytest.mark.parametrize(
        ("scale", "first", "second"),
        [
            ("site", [-2 / DEVIATION, 0, 2 / DEVIATION], [-1, 1]),
            # mean 7.8, variance (6.8² + 4.8² + 2.8² + 2.2² + 12.2²) / 5 = 46.16
            ("shared", np.array([-6.8, -4.8, -2.8]) / 46.16**0.5, np.array([2.2, 12.2]) / 46.16**0.5),
            ("constants", [-0.5, 0.5, 1.5], [4, 9]),
        ],
    )
    def test_scales(self, scale, first, second):
        trains = [pool([[1], [3], [5]]), pool([[10], [20]])]
        ways = TabularPrepare((Column("a", center=2, spread=2),), scale=scale).fitted(trains)
        found = [way(train)[0][0].x[:, 0] for way, train in zip(ways, trains, strict=True)]
        assert np.allclose(found[0], first)
        assert np.allclose(found[1], second)

    @pytest.mark.parametrize(
        ("absent", "features", "first", "second"),
        [
            # c of client 0 is 1, 2, 2; client 1 has none; of the numbers b client 0 has none
            ("mask", "a b c=1 c=2", [0, 0, 1, 0], [-1, -1, 0, 0]),
            ("flag", "a b b c=1 c=2 c", [0, 0, 1, 1, 0, 0], [-1, -1, 0, 1 / 3, 2 / 3, 1]),
            ("common", "a", [0], [-1]),
        ],
    )
    def test_columns_that_a_client_lacks(self, absent, features, first, second):
        columns = (Column("a"), Column("b"), coded("c", (1, 2)))
        trains = [pool([[3, NaN, 1], [3, NaN, 2], [3, NaN, 2]]), pool([[10, 1, NaN], [20, 3, NaN]])]
        ways = TabularPrepare(columns, absent=absent).fitted(trains)
        assert [f.removesuffix(" not recorded") for f in ways[0].features] == features.split()
        assert ways[0].features == ways[1].features
        for way, train, row in zip(ways, trains, (first, second), strict=True):
            assert np.allclose(way(train)[0][0].x[0], row)
        assert any("b" in note for note in ways[0].notes)

    def test_values_of_a_column_that_training_rows_lack_are_set_aside_and_counted(self):
        prepare = TabularPrepare((Column("a"), coded("c", (0, 1))), missing="median")
        [train, test], notes = prepare(pool([[NaN, NaN], [NaN, NaN]]), pool([[250, 0], [NaN, NaN]]))
        assert not train.x.any()
        assert not test.x.any()
        assert notes == (
            "values set aside, as training rows have none of the column: a (1), c (1)",
            "columns without any value in training rows, 0 in all rows: a, c",
        )

    def test_no_column_in_common_is_refused(self):
        with pytest.raises(BadData, match=r"no column is known to every client.*flag"):
            TabularPrepare(numbers("ab"), absent="common").fitted([pool([[1, NaN]]), pool([[NaN, 1]])])


@pytest.mark.parametrize("absent", ["mask", "flag", "common"])
@pytest.mark.parametrize("missing", ["median", "drop"])
def test_told_as_json_it_makes_the_same_bits(absent, missing):
    trains = [pool(TRAIN), pool([[0.1, 1, NaN], [0.7, 0, NaN]])]
    for way in TabularPrepare(COLUMNS, missing, "shared", absent).fitted(trains):
        again = preparation_from_dict(json.loads(json.dumps(way.to_dict())))
        assert again.features == way.features
        (one,), _ = way(pool(TRAIN[:2]))
        (other,), _ = again(pool(TRAIN[:2]))
        assert np.array_equal(one.x, other.x)
        assert again.owners == tuple(i for i, p in enumerate(way.parts) for _ in p.inputs)
