"""Classes or numbers: one rule, whichever way a target comes in."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from coterie import Client, CoterieWarning, clients_from
from coterie.core.errors import BadData
from coterie.data.build import check_clients
from coterie.data.tables.inspect import inspect
from coterie.data.targets import kind_of_numbers

ROWS = 240
NUMBER = np.arange(ROWS)
X = np.random.default_rng(0).normal(size=(ROWS, 2))
SITE = np.array(["a", "b"])[NUMBER // 2 % 2]
SCORES = np.random.default_rng(1).permutation(900)[:ROWS] + 300


def frame(y):
    return pd.DataFrame({"site": SITE, "x": X[:, 0], "y": y})


@pytest.mark.parametrize(
    ("values", "rows", "table", "array"),
    [
        ([0, 1], 2, "classes", "classes"),
        (range(20), 40, "classes", "classes"),
        (range(20), 20, "classes", "classes"),
        (range(21), 42, "numbers", "classes"),
        (range(100), 200, "numbers", "classes"),
        (range(100), 199, "numbers", "numbers"),
        (range(1, 22), 42, "numbers", "either"),
        (range(0, 200, 2), 200, "numbers", "either"),
        (range(0, 200, 2), 199, "numbers", "numbers"),
        (range(-10, 20), 300, "numbers", "numbers"),
        ([300, 500, 700], 9, "classes", "classes"),
        ([0.0, 0.5, 1.0], 9, "numbers", "numbers"),
        ([1e300, 2e300], 9, "numbers", "numbers"),
    ],
)
def test_the_rule_at_its_edges(values, rows, table, array):
    assert kind_of_numbers(values, rows).kind == table
    assert kind_of_numbers(values, rows, labels=True).kind == array


TARGETS = {
    "scores": (SCORES, "regression"),
    "scores, nullable": (pd.array(SCORES, dtype="Int64"), "regression"),
    "scores as fractions": (SCORES.astype(float), "regression"),
    "scores as texts": (SCORES.astype(str), "regression"),
    "fractions as texts": (X[:, 1].astype(str), "regression"),
    "twenty": (NUMBER % 20, "classification"),
    "twenty-one": (NUMBER % 21, "regression"),
    "hundred labels": (np.arange(ROWS) % 100, "regression"),
    "grades": (NUMBER % 5 + 1, "classification"),
    "grades as texts": ((NUMBER % 5 + 1).astype(str), "classification"),
    "few scores": (np.array([300, 500, 700])[NUMBER % 3], "classification"),
    "below 0": (NUMBER % 2 * 2 - 1, "classification"),
    "yes and no": (np.array(["no", "yes"])[NUMBER % 2], "classification"),
    "flags": (NUMBER % 2 == 0, "classification"),
}


@pytest.mark.filterwarnings("ignore::coterie.CoterieWarning")
@pytest.mark.parametrize("kind", TARGETS)
def test_frames_and_files_are_read_alike(kind, tmp_path):
    y, task = TARGETS[kind]
    frame(y).to_csv(tmp_path / "t.csv", index=False)
    by_file = clients_from([tmp_path / "t.csv"], target="y", site="site")
    by_frame = clients_from(frame(y), target="y", site="site")
    seen = inspect([str(tmp_path / "t.csv")], "y", "site")
    assert seen.recipe.task == task
    assert {c.task for c in (*by_file, *by_frame)} == {task}
    if task == "classification":
        assert len(by_frame[0].classes) in (0, len(by_file[0].classes))
        for one, two in zip(by_frame, by_file, strict=True):
            assert one.train.y.unique().tolist() == two.train.y.unique().tolist()


def test_what_was_decided_is_said_with_the_way_to_say_otherwise(tmp_path):
    said = (
        "targets taken as numbers to predict, a regression (240 different whole numbers in 240 rows); pass "
        "task='classification' if they are classes"
    )
    with pytest.warns(CoterieWarning) as warned:
        (client, _) = clients_from(frame(SCORES), target="y", site="site")
    assert said in [str(w.message) for w in warned]
    assert said in client.notes
    frame(SCORES).to_csv(tmp_path / "t.csv", index=False)
    (client, _) = clients_from([tmp_path / "t.csv"], target="y", site="site")
    assert said.replace("targets", "target 'y' is") in client.notes
    few, _ = clients_from(frame(NUMBER % 5 + 1), target="y", site="site")
    line = (
        "targets taken as classes (5 different whole numbers); pass task='regression' if they are numbers to"
    )
    assert any(note.startswith(line) for note in few.notes)
    assert few.classes == ("1", "2", "3", "4", "5")


def test_whoever_says_what_a_target_is_decides():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoterieWarning)
        for task in ("classification", "regression"):
            assert clients_from(frame(SCORES), target="y", site="site", task=task)[0].task == task
            assert clients_from(frame(NUMBER % 5), target="y", site="site", task=task)[0].task == task
        listed = clients_from(frame(pd.Categorical(NUMBER % 30)), target="y", site="site")
        assert len(listed[0].classes) == 30
        texts = frame((NUMBER % 5).astype(str))
        assert clients_from(texts, target="y", site="site", task="regression")[0].task == "regression"
        names = [f"c{i}" for i in range(100)]
        assert Client.from_arrays(X, NUMBER % 40 * 2, name="a", classes=names).task == "classification"


def test_sites_decide_together():
    y = np.where(SITE == "a", np.array([500, 600, 700])[NUMBER % 3], SCORES)
    with pytest.warns(CoterieWarning, match="taken as numbers to predict"):
        clients = clients_from(frame(y), target="y", site="site")
    assert {c.task for c in clients} == {"regression"}


@pytest.mark.filterwarnings("ignore::coterie.CoterieWarning")
def test_clients_that_were_made_alone_and_disagree_are_refused():
    few = Client.from_arrays(X, np.array([500, 600, 700])[NUMBER % 3], name="few")
    many = Client.from_arrays(X, SCORES, name="many")
    with pytest.raises(
        BadData, match="'many' has a regression, 'few' a classification: use one task for all"
    ):
        check_clients([few, many])


class TestArrays:
    def test_labels_without_a_gap_are_classes_however_many(self):
        client = Client.from_arrays(X, NUMBER % 100, name="a")
        assert client.task == "classification"
        assert client.notes == ()

    def test_some_labels_of_many_are_a_question(self):
        line = (
            r"client 'a': targets may be classes or numbers \(40 different whole numbers in 240 rows, from 0 "
            r"to 78 with gaps\): pass task='classification' or task='regression'"
        )
        with pytest.raises(BadData, match=f"^{line}$"):
            Client.from_arrays(X, NUMBER % 40 * 2, name="a")

    def test_scores_are_numbers(self):
        with pytest.warns(CoterieWarning, match="taken as numbers to predict, a regression"):
            assert Client.from_arrays(X, SCORES, name="a").task == "regression"

    def test_outputs_that_stand_for_nothing_are_said(self):
        with pytest.warns(
            CoterieWarning, match="go up to 700, with 3 different ones: the model gets 701 outputs"
        ):
            client = Client.from_arrays(X, np.array([300, 500, 700])[NUMBER % 3], name="a")
        assert client.task == "classification"

    def test_names_are_no_classes(self):
        names = np.array([f"patient {i}" for i in range(ROWS)])
        with pytest.raises(
            BadData, match="targets hold 240 different texts in 240 rows, which are no classes"
        ):
            Client.from_arrays(X, names, name="a")

    def test_a_dataset_that_lists_its_classes_has_labels(self):
        class Pictures(torch.utils.data.Dataset):
            classes = tuple(f"c{i}" for i in range(100))

            def __len__(self):
                return 90

            def __getitem__(self, i):
                return torch.full((2,), i / 90), 7 * i % 100

        for dataset in (Pictures(), torch.utils.data.Subset(Pictures(), range(60))):
            assert Client.from_dataset(dataset, name="a").task == "classification"


def test_numbers_with_a_decimal_comma_are_no_classes():
    """Forty texts such as 7,3 were forty classes."""
    y = [f"{v:.1f}".replace(".", ",") for v in np.linspace(1, 9, 40)] * 2
    with pytest.raises(BadData, match="targets such as '1,0' are numbers with a decimal comma: write"):
        Client.from_arrays(np.zeros((80, 1)), np.array(y), name="a")
    few = Client.from_arrays(np.zeros((80, 1)), np.array(["0,0", "1,0"] * 40), name="a")
    assert few.classes == ("0,0", "1,0")


def test_classes_of_tables_that_are_written_in_several_ways():
    def table(no, yes):
        return pd.DataFrame({"x": np.arange(20.0), "ill": [no, yes] * 10})

    with pytest.raises(BadData, match="differ in case or blanks alone: 'Ja' and 'ja'; 'Nein'"):
        clients_from({"a": table("nein", "ja"), "b": table("Nein", "Ja")}, target="ill")
    with pytest.warns(CoterieWarning, match="no class in common with any other table: a has ja"):
        clients_from({"a": table("nein", "ja"), "b": table("no", "yes")}, target="ill")
