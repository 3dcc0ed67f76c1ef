"""How a client is made from what people have: arrays, tables, datasets."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import coterie
from coterie.core.client import Samples, class_count
from coterie.core.errors import BadData, UnknownName
from coterie.data.build import check_clients
from coterie.data.clients import Client

pytestmark = pytest.mark.filterwarnings("ignore::coterie.CoterieWarning")  # inputs that tell rows are far off

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2


def rows_of(samples: Samples) -> list[int]:
    """Which rows of X these are: the first column counts 0, 2, 4, ..."""
    return [int(v) // 2 for v in samples.x[:, 0]]


class TestArrays:
    def test_every_row_lands_in_one_part_with_its_own_target(self):
        client = Client.from_arrays(X, Y, name="a", test=0.3, validation=0.25)
        parts = [client.train, client.validation, client.test]
        # 30 % of 20, then 25 % of the 14 left (3.5, to even)
        assert [len(p) for p in parts] == [10, 4, 6]
        assert sorted(r for p in parts for r in rows_of(p)) == list(range(20))
        for part in parts:
            assert part.y.tolist() == [r % 2 for r in rows_of(part)]
            assert part.x[:, 1].tolist() == [2 * r + 1 for r in rows_of(part)]

    def test_tensors_are_float32_and_int64(self):
        client = Client.from_arrays(X, Y.astype(np.int16), name="a")
        assert (client.train.x.dtype, client.train.y.dtype) == (torch.float32, torch.int64)
        assert (client.test.x.dtype, client.test.y.dtype) == (torch.float32, torch.int64)
        assert client.task == "classification"
        assert (client.features, client.classes, len(client.validation)) == ((), (), 0)

    @pytest.mark.parametrize("wrap", [torch.as_tensor, np.asarray, lambda v: v.tolist()])
    def test_arrays_tensors_and_lists_give_the_same_client(self, wrap):
        plain = Client.from_arrays(X, Y, name="a", seed=3)
        other = Client.from_arrays(wrap(X), wrap(Y), name="a", seed=3)
        assert torch.equal(plain.train.x, other.train.x)
        assert torch.equal(plain.test.y, other.test.y)

    def test_a_frame_brings_its_column_names(self):
        frame = pd.DataFrame({"age": X[:, 0], 7: X[:, 1], "smokes": [True, False] * 10})
        client = Client.from_arrays(frame, pd.Series(Y), name="a")
        assert client.features == ("age", "7", "smokes")
        assert set(client.train.x[:, 2].tolist()) == {0.0, 1.0}

    def test_pictures_keep_their_shape(self):
        client = Client.from_arrays(np.zeros((10, 3, 4, 5), dtype=np.uint8), Y[:10], name="a", test=0.2)
        assert client.train.x.shape == (8, 3, 4, 5)

    def test_floating_point_targets_are_a_regression(self):
        client = Client.from_arrays(X, Y / 3, name="a")
        assert client.task == "regression"
        assert client.train.y.dtype == torch.float32

    def test_a_given_test_set_is_taken_as_it_is(self):
        client = Client.from_arrays(X, Y, name="a", test=(X[:3] + 100, Y[:3]))
        assert rows_of(client.train) == list(range(20))
        assert client.test.x[:, 0].tolist() == [100.0, 102.0, 104.0]
        assert client.test.y.tolist() == [0, 1, 0]

    def test_the_split_depends_on_seed_and_name_only(self):
        def split(name, seed):
            return rows_of(Client.from_arrays(X, Y, name=name, seed=seed).test)

        assert split("a", 1) == split("a", 1)
        assert len({tuple(split(name, seed)) for name in "ab" for seed in (1, 2)}) == 4

    def test_the_arrays_stay_as_they_were(self):
        x, y = X.astype(np.float32), Y.copy()
        client = Client.from_arrays(x, y, name="a", test=(x, y))
        client.train.x.add_(1)
        client.test.x.add_(1)
        assert np.array_equal(x, X.astype(np.float32))
        assert np.array_equal(y, Y)


class TestLabels:
    def test_given_classes_may_be_missing_here(self):
        client = Client.from_arrays(X, ["b", "c"] * 10, name="a", classes=["a", "b", "c"])
        assert client.classes == ("a", "b", "c")
        assert set(client.train.y.tolist()) == {1, 2}

    def test_numbered_labels_can_be_given_names(self):
        client = Client.from_arrays(X, Y, name="a", classes=["healthy", "ill"])
        assert client.classes == ("healthy", "ill")
        assert client.train.y.tolist() == [r % 2 for r in rows_of(client.train)]

    def test_strings_of_a_given_test_set_follow_the_training_classes(self):
        client = Client.from_arrays(X, ["b", "a"] * 10, name="a", test=(X[:2], ["b", "b"]))
        assert client.test.y.tolist() == [1, 1]

    @pytest.mark.parametrize(
        ("labels", "classes", "numbers"),
        [
            ([True, False], None, [1, 0]),
            ([-1, 1], [-1, 1], [0, 1]),
            ([1, 2], [1, 2], [0, 1]),
            ([0, 1], [1, 0], [1, 0]),
            (["x", "y"], ["y", "x"], [1, 0]),
        ],
        ids=["bool", "negative", "from-one", "reversed", "strings"],
    )
    @pytest.mark.parametrize("way", ["test", "frame"])
    def test_labels_are_numbered_alike_in_every_part(self, labels, classes, numbers, way):
        given = np.array(labels * 10)
        if way == "test":
            client = Client.from_arrays(X, given, name="a", classes=classes, test=(X, given))
        else:
            frame = pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "target": given})
            client = Client.from_frame(frame, target="target", name="a", classes=classes, scale="constants")
        for part in (client.train, client.test):
            assert part.y.tolist() == [numbers[r % 2] for r in rows_of(part)]


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "ill": Y, **columns})


def plain(frame: pd.DataFrame, **options) -> Client:
    """Numbers as they are, so that rows can be told."""
    return Client.from_frame(frame, target="ill", name="a", scale="constants", **options)


class TestFrame:
    def test_the_target_leaves_the_inputs(self):
        client = plain(table(), validation=0.2)
        assert client.features == ("p", "q")
        for part in (client.train, client.validation, client.test):
            assert part.y.tolist() == [r % 2 for r in rows_of(part)]

    def test_same_rows_as_from_arrays(self):
        frame, arrays = plain(table(), seed=5), Client.from_arrays(X, Y, name="a", seed=5)
        assert torch.equal(frame.train.x, arrays.train.x)
        assert torch.equal(frame.test.x, arrays.test.x)

    def test_numbers_are_standardised_by_the_training_rows_of_this_client(self):
        client = Client.from_frame(table(), target="ill", name="a")
        kept = X[rows_of(plain(table()).train)]
        wanted = (kept - kept.mean(axis=0)) / kept.std(axis=0)
        np.testing.assert_allclose(client.train.x.numpy(), wanted, rtol=1e-6)
        assert client.notes == (
            "standardised with this client's own training mean and deviation: all columns",
        )

    def test_constants_agreed_beforehand(self):
        client = plain(table(), constants={"p": (10, 4)})
        raw = plain(table())
        np.testing.assert_allclose(client.train.x[:, 0].numpy(), (raw.train.x[:, 0].numpy() - 10) / 4)
        assert torch.equal(client.train.x[:, 1], raw.train.x[:, 1])

    def test_every_kind_of_column_and_how_new_rows_become_inputs(self):
        sex, smokes = ["f", "m"] * 10, [True, False] * 10
        frame = table(sex=sex, smokes=smokes, patient=range(20))
        client = Client.from_frame(frame, target="ill", name="a", leave_out=["patient"])
        assert client.features == ("p", "q", "sex=f", "sex=m", "smokes")
        way = client.preparation
        assert way.columns == ("p", "q", "sex", "smokes")
        mean, deviation = (getattr(way.parts[0].column, name) for name in ("center", "spread"))
        made = way.inputs([[mean + deviation, way.parts[1].column.center, 1.0, 0.0]])
        assert made.tolist() == [[1.0, 0.0, 0.0, 1.0, 0.0]]

    def test_drop_leaves_rows_out_and_says_so(self):
        frame = table()
        frame.loc[[3, 8, 9], "q"] = np.nan
        client = plain(frame, missing="drop")
        assert sorted(rows_of(client.train) + rows_of(client.test)) == [
            r for r in range(20) if r not in (3, 8, 9)
        ]
        assert client.notes[0].startswith("rows left out for missing values: ")

    def test_median_by_hand(self):
        # q is 1, 3, 5, ... in rows 0 to 19: the median of the training rows that know it
        frame = table()
        frame.loc[[0, 1, 2, 3], "q"] = np.nan
        client = plain(frame, missing="median")
        known = sorted(2 * r + 1 for r in rows_of(client.train) if r > 3)
        middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
        for part in (client.train, client.test):
            for row, value in zip(rows_of(part), part.x[:, 1].tolist(), strict=True):
                assert value == (middle if row < 4 else 2 * row + 1)
        assert client.notes[0].startswith(
            "missing values filled by this client's training median or mode: q ("
        )

    def test_a_column_without_any_value_is_said_as_it_is(self, refused):
        client = plain(table(q=np.nan), missing="median")
        assert client.train.x[:, 1].tolist() == [0.0] * 14
        assert client.notes[0] == "columns without any value in training rows, 0 in all rows: q"
        assert "median" not in " ".join(client.notes)
        with refused(
            BadData,
            "client 'a': no value in any training row of column 'q', so that it has no median: leave it out, "
            "or pass absent='mask'",
        ):
            plain(table(q=np.nan), missing="median", absent="refuse")

    @pytest.mark.parametrize("validation", [0.0, 0.25])
    def test_nothing_that_is_fitted_looks_at_test_or_validation_rows(self, validation):
        def made(frame, **options):
            return Client.from_frame(
                frame, target="ill", name="a", missing="median", validation=validation, **options
            )

        frame = table()
        frame.loc[::3, "q"] = np.nan
        before, rows = made(frame), made(frame, scale="constants")
        frame.loc[rows_of(rows.test) + rows_of(rows.validation), "q"] = 1e6
        after = made(frame)
        assert torch.equal(before.train.x, after.train.x)
        assert torch.equal(before.train.y, after.train.y)
        assert before.preparation == after.preparation

    def test_what_is_not_a_number_is_filled_by_its_most_frequent_value(self):
        smokes = pd.Series([True] * 15 + [False] * 4 + [None], dtype=object)
        client = plain(table(smokes=smokes), missing="median")
        values = {
            row: value
            for part in (client.train, client.test)
            for row, value in zip(rows_of(part), part.x[:, 2].tolist(), strict=True)
        }
        assert [values[row] for row in (0, 15, 19)] == [1.0, 0.0, 1.0]

    @pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
    def test_median_of_columns_that_know_what_is_missing(self, dtype):
        # as many 0 as 1 in every part of the rows that is even: a median of a half
        values = pd.array([0, 0, 1, 1] * 5, dtype="Int64").astype(dtype)
        values[:2] = pd.NA
        for seed in range(8):
            client = plain(table(extra=values), missing="median", seed=seed)
            assert set(client.train.x[:, 2].tolist()) <= {0.0, 0.5, 1.0}
            assert set(client.test.x[:, 2].tolist()) <= {0.0, 0.5, 1.0}

    def test_the_frame_stays_as_it_was(self):
        frame = table()
        frame.loc[3, "q"] = np.nan
        copy = frame.copy()
        for rule in ("drop", "median"):
            Client.from_frame(frame, target="ill", name="a", missing=rule)
        pd.testing.assert_frame_equal(frame, copy)


FLOATS = "targets 0.0 and 1.0 taken as classes: pass task='regression' if they are numbers to predict"


class TestTask:
    """Whether floating-point targets are classes or numbers is never decided silently."""

    def test_zeros_and_ones_are_classes_and_said_to_be(self):
        with pytest.warns(coterie.CoterieWarning, match=re.escape(FLOATS)):
            client = Client.from_arrays(X / 40, Y.astype(float), name="a")
        assert (client.task, client.notes) == ("classification", (FLOATS,))
        assert client.train.y.dtype == torch.int64

    def test_a_person_decides(self):
        numbers = Client.from_arrays(X / 40, Y.astype(float), name="a", task="regression")
        assert (numbers.task, numbers.notes) == ("regression", ())
        assert Client.from_arrays(X / 40, Y, name="a", task="regression").task == "regression"
        classes = Client.from_arrays(X / 40, Y + 1.0, name="a", task="classification")
        assert set(classes.train.y.tolist()) == {1, 2}
        named = Client.from_arrays(X / 40, Y.astype(float), name="a", classes=["well", "ill"])
        assert (named.task, named.notes) == ("classification", ())

    def test_what_may_be_either_is_asked(self, refused):
        choice = "pass task='classification' or task='regression'"
        with refused(BadData, f"client 'a': targets 1, 2 may be classes or numbers: {choice}"):
            Client.from_arrays(X, Y + 1.0, name="a")
        with pytest.raises(UnknownName, match="unknown task 'clasification': did you mean"):
            Client.from_arrays(X, Y, name="a", task="clasification")

    def test_many_whole_numbers_are_numbers(self):
        assert Client.from_arrays(X / 40, np.arange(20.0), name="a").task == "regression"


def test_inputs_far_from_0_are_said_once_for_a_client():
    ages = np.column_stack([np.full(20, 88.0), X / 40, np.full(20, 31.0)])
    said = "column 'age' of client 'a' reaches 88 (and 1 more beyond 30): standardise it, or use clients_from"
    with pytest.warns(coterie.CoterieWarning) as caught:
        client = Client.from_arrays(ages, Y, name="a", features=["age", "p", "q", "r"])
    assert [str(w.message) for w in caught] == [said]
    assert client.notes == (
        "inputs far from 0, standardise them or use clients_from: 'age' reaches 88, 'r' reaches 31",
    )


class TestDataset:
    def test_pairs_are_read_once_in_order(self):
        pairs = TensorDataset(torch.as_tensor(X), torch.as_tensor(Y))
        client = Client.from_dataset(pairs, name="a", seed=2)
        arrays = Client.from_arrays(X, Y, name="a", seed=2)
        assert torch.equal(client.train.x, arrays.train.x)
        assert torch.equal(client.test.y, arrays.test.y)

    def test_a_test_dataset(self):
        pairs = TensorDataset(torch.as_tensor(X), torch.as_tensor(Y))
        held = TensorDataset(torch.as_tensor(X[:4]), torch.as_tensor(Y[:4]))
        client = Client.from_dataset(pairs, name="a", test=held, classes=["no", "yes"])
        assert (len(client.train), client.test.y.tolist()) == (20, [0, 1, 0, 1])
        assert client.classes == ("no", "yes")


class TestTogether:
    def test_class_count_reaches_over_clients_and_parts(self, client_of):
        few = client_of(torch.zeros(2, 1), torch.tensor([0, 1]))
        more = client_of(torch.zeros(2, 1), torch.tensor([0, 1]), test=(torch.zeros(1, 1), torch.tensor([4])))
        assert class_count([few]) == 2
        assert class_count([few, more]) == 5
        named = client_of(torch.zeros(2, 1), torch.tensor([0, 1]), classes=("a", "b", "c"))
        assert class_count([named]) == 3
        assert class_count([client_of(torch.zeros(2, 1), torch.zeros(2))]) == 1
        assert class_count([client_of(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))]) == 2

    def test_one_class_only_can_be_allowed_and_is_said(self, client_of):
        clients = [
            client_of(torch.zeros(2, 1), torch.tensor([0, 1]), name="a"),
            client_of(torch.zeros(2, 1), torch.tensor([1, 1]), name="b"),
        ]
        assert check_clients(clients, allow_one_class=True) == ("client 'b' trains on one class only (1)",)

    def test_labels_keep_their_type_when_inputs_change_precision(self):
        labelled = Samples(torch.zeros(2, 1), torch.tensor([0, 1])).cast(torch.float64)
        assert (labelled.x.dtype, labelled.y.dtype) == (torch.float64, torch.int64)
        numbers = Samples(torch.zeros(2, 1), torch.zeros(2)).cast(torch.float64)
        assert (numbers.x.dtype, numbers.y.dtype) == (torch.float64, torch.float64)
