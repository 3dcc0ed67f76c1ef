"""Every refusal of a client: the client, the column, the value and the remedy, in one line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from coterie.core.errors import BadData, BadInput, CoterieError, UnknownName
from coterie.data.build import check_clients
from coterie.data.clients import Client

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12) % 2
FRAME = pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "ill": Y})


def with_hole(value, column="q", rows=(4,)) -> pd.DataFrame:
    frame = FRAME.astype({"p": float, "q": float})
    frame.loc[list(rows), column] = value
    return frame


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


HOLES = {value: with_hole(value)[["p", "q"]] for value in (np.nan, -np.inf)}
CASES = [
    (lambda: Client.from_arrays(HOLES[np.nan].to_numpy(), Y, name="a"), "column 1 is nan in row 4 (1 such"),
    (
        lambda: Client.from_arrays(HOLES[-np.inf], Y, name="a"),
        "column 'q' is -inf in row 4 (1 such values): fill",
    ),
    (
        lambda: Client.from_frame(with_hole(np.inf), target="ill", name="a", missing="median"),
        "column 'q' has 1 infinite value(s): fill or drop them",
    ),
    (lambda: Client.from_arrays(np.full((4, 1, 2, 2), np.nan), Y[:4], name="a"), "row 0 (16 such values)"),
    (lambda: Client.from_arrays(X, np.where(Y == 1, np.nan, 0.5), name="a"), "a target is NaN or infinite"),
    (lambda: Client.from_arrays(X, np.where(Y == 1, np.inf, 0.5), name="a"), "a target is NaN or infinite"),
    (lambda: Client.from_arrays(X[:0], Y[:0], name="a"), "is empty: add samples or leave it out"),
    (lambda: Client.from_arrays(X, Y, name="a", test=(X[:0], Y[:0])), "is empty: add samples"),
    (lambda: Client.from_arrays(X, Y[:11], name="a"), "12 inputs but 11 targets: give one target for each"),
    (lambda: Client.from_arrays(X[:, 0], Y, name="a"), "shape (12,), but need [samples, features, ...]"),
    (lambda: Client.from_arrays(np.array([["x", "y"]] * 12), Y, name="a"), "hold <U1, not numbers: encode"),
    (
        lambda: Client.from_arrays(FRAME.assign(q=["x"] * 12).astype({"q": object}), Y, name="a"),
        "column 'q' holds object, not numbers: use Client.from_frame or clients_from, which encode it",
    ),
    (
        lambda: Client.from_arrays(X, Y, name="a", features=["p", "q", "r"]),
        "3 feature names for 2 columns: name each once",
    ),
    (lambda: Client.from_arrays(X, X, name="a"), "targets have shape (12, 2), but need [samples]"),
    (
        lambda: Client.from_arrays(X, Y - 3, name="a"),
        "label -3 is negative; labels count from 0: pass classes",
    ),
    (
        lambda: Client.from_arrays(X, Y + 1, name="a", classes=["no", "yes"]),
        "labels run from 1 to 2, but 2 classes allow 0 to 1",
    ),
    (
        lambda: Client.from_arrays(FRAME[["p", "q"]], Y, name="a", test=(FRAME[["q", "p"]], Y)),
        "test and training columns differ: give both the same",
    ),
    (lambda: Client.from_arrays(X, Y, name="a", test=(X[:, :1], Y)), "test and training columns differ"),
    (
        lambda: Client.from_frame(FRAME, target="sick", name="a"),
        "no target column 'sick'; its columns are p, q",
    ),
    (
        lambda: Client.from_frame(with_hole(np.nan, rows=(1, 2, 3)), target="ill", name="a"),
        "missing or NaN values in column 'q' (3): fill or drop them, or pass missing='median' or missing=",
    ),
    (lambda: Client.from_dataset(Stream(), name="a"), "a dataset without a length cannot be read once"),
    (lambda: Client.from_dataset(TensorDataset(torch.zeros(0, 2), torch.zeros(0)), name="a"), "is empty"),
    *(
        (
            lambda rule=rule: Client.from_frame(
                with_hole(np.nan, column="ill"), target="ill", name="a", missing=rule
            ),
            "target 'ill' is missing or NaN in 1 row(s): fill or drop them",
        )
        for rule in ("refuse", "drop", "median")
    ),
]


@pytest.mark.parametrize(("make", "said"), CASES, ids=[said for _, said in CASES])
def test_data_that_cannot_be_learned_from(make, said):
    with pytest.raises(BadData) as refusal:
        make()
    assert str(refusal.value).startswith("client 'a'")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("labels", "said"), [(["x", "y"], "'y'"), ([0, 7], "7"), ([0.0, 0.5], "0.5")], ids=str
)
def test_a_label_that_is_no_class_reads_as_it_was_written(labels, said, refused):
    classes = [labels[0], "z"]
    if not isinstance(labels[0], str):
        classes = [labels[0], 99]
    with refused(BadData, f"client 'a': label {said} is not among the classes {classes}"):
        Client.from_arrays(X, labels * 6, name="a", classes=classes)


def test_one_sample(refused):
    message = "client 'a' has 1 sample(s), but training and testing need at least 2: add samples"
    with refused(BadInput, message):
        Client.from_arrays(X[:1], Y[:1], name="a")


@pytest.mark.parametrize(("part", "fraction"), [("test", 1.0), ("validation", -0.5)])
def test_fractions(part, fraction, refused):
    with refused(BadInput, f"client 'a': held-out fraction {fraction} must lie between 0 and 1: try 0.3"):
        Client.from_arrays(X, Y, name="a", **{part: fraction})


def test_a_rule_for_missing_values_that_is_unknown(refused):
    with refused(UnknownName, "unknown rule for missing values 'meadian': did you mean median?"):
        Client.from_frame(FRAME, target="ill", name="a", missing="meadian")


NOTHING = torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)
LABELS = torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "a"}, "client name 'a' is used 2 times: give each its own"),
        (
            {"x": NOTHING[0], "y": NOTHING[1], "test": (torch.zeros(4, 2), LABELS)},
            "client 'b' has 0 training and 4 test samples; both need at least 1",
        ),
        ({"test": NOTHING}, "client 'b' has 4 training and 0 test samples; both need at least 1"),
        (
            {"y": torch.zeros(4)},
            "client 'b' has a regression, 'a' a classification: use one task for all, task='classification'",
        ),
        ({"y": LABELS - 1}, "label -1 is none of 0 to 65535: count labels from 0"),
        ({"y": LABELS * 10**9}, "label 1000000000 is none of 0 to 65535: count labels from 0"),
        (
            {"features": ("p", "r")},
            "clients 'a' and 'b' disagree in columns (q, r): give all the same columns",
        ),
        ({"features": ("q", "p")}, "clients 'a' and 'b' disagree in columns (their order)"),
        ({"x": torch.zeros(4, 3, 1)}, "disagree in columns: shapes [2] and [3, 1]: give all the same"),
        ({"classes": ("no", "maybe")}, "disagree in classes (no, yes and no, maybe): pass the same classes"),
        ({"y": torch.ones(4, dtype=torch.int64)}, "client 'b' trains on one class only (yes), at least 2"),
    ],
)
def test_clients_that_do_not_go_together(other, said, client_of):
    shared = {"features": ("p", "q"), "classes": ("no", "yes")}
    good = client_of(torch.zeros(4, 2), LABELS, name="a", **shared)
    given = {"name": "b", "x": torch.zeros(4, 2), "y": LABELS, **shared, **other}
    with pytest.raises(CoterieError) as refusal:
        check_clients([good, client_of(given.pop("x"), given.pop("y"), **given)])
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_nobody(refused):
    with refused(BadInput, "no clients: give at least one"):
        check_clients([])


# What a person may well do, and what must not end in a traceback or pass in silence.
TRAPS = {
    "float64 that float32 cannot hold": lambda: Client.from_arrays(np.full((12, 2), 1e39), Y, name="a"),
    "target that float32 cannot hold": lambda: Client.from_arrays(X, np.full(12, 1e39), name="a"),
    "missing string label": lambda: Client.from_arrays(X, np.array(["x", None] * 6, object), name="a"),
    "missing label in a series": lambda: Client.from_arrays(X, pd.Series(["x", None, "y"] * 4), name="a"),
    "column twice": lambda: Client.from_arrays(pd.DataFrame(X, columns=["p", "p"]), Y, name="a"),
    "column twice in a table": lambda: Client.from_frame(
        pd.DataFrame(np.c_[X, Y], columns=["p", "p", "ill"]), target="ill", name="a"
    ),
    "target twice": lambda: Client.from_frame(
        pd.DataFrame(np.c_[X, Y], columns=["p", "ill", "ill"]), target="ill", name="a"
    ),
    "no columns": lambda: Client.from_arrays(X[:, :0], Y, name="a"),
    "nothing but the target": lambda: Client.from_frame(FRAME[["ill"]], target="ill", name="a"),
    "ragged rows": lambda: Client.from_arrays([[1.0, 2.0], [3.0]], [0, 1], name="a"),
    "ragged dataset": lambda: Client.from_dataset(
        [(torch.zeros(1 + i % 2), i % 2) for i in range(6)], name="a"
    ),
    "dataset of no pairs": lambda: Client.from_dataset([1.0, 2.0, 3.0], name="a"),
    "classes empty": lambda: Client.from_arrays(X, Y, name="a", classes=[]),
    "class named twice": lambda: Client.from_arrays(X, ["x", "y"] * 6, name="a", classes=["x", "y", "x"]),
    "labels to train on, fractions to test on": lambda: Client.from_arrays(X, Y, name="a", test=(X, Y / 2)),
    "numbers to train on, labels to test on": lambda: Client.from_arrays(
        X, Y / 3, name="a", test=(X, ["x", "y"] * 6)
    ),
    "labels beyond any model": lambda: Client.from_arrays(X, Y * 10**9, name="a"),
    "labels beyond 64 bits": lambda: Client.from_arrays(X, [2**70] * 12, name="a"),
    "whole fractions that may be classes or numbers": lambda: Client.from_arrays(X, Y + 1.0, name="a"),
    "half a test set": lambda: Client.from_arrays(X, Y, name="a", test=(X,)),
    "a seed of the wrong type": lambda: Client.from_arrays(X, Y, name="a", seed="7"),
    "classes that cannot be told apart": lambda: Client.from_arrays(X, Y, name="a", classes=[[0], [1]]),
    "one class as a text": lambda: Client.from_arrays(X, Y, name="a", classes="ab"),
    "dates in a table": lambda: Client.from_frame(
        FRAME.assign(born=pd.date_range("2000-01-01", periods=12)), target="ill", name="a"
    ),
    "a table of other things": lambda: Client.from_frame([1, 2, 3], target="ill", name="a"),
    "constants without a scale": lambda: Client.from_frame(
        FRAME, target="ill", name="a", scale="constants", constants={"p": (0, 0)}
    ),
    "dates": lambda: Client.from_arrays(np.arange(12).astype("datetime64[D]")[:, None], Y, name="a"),
    "complex numbers": lambda: Client.from_arrays(X * 1j, Y, name="a"),
    "test as a list": lambda: Client.from_arrays(X, Y, name="a", test=[X, Y]),
}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.filterwarnings("ignore")
def test_traps_are_refused_in_one_line_that_names_the_client(trap):
    with pytest.raises(CoterieError) as caught:
        TRAPS[trap]()
    assert "'a'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dataset_takes_any_number_as_the_fraction(refused):
    pairs = TensorDataset(torch.as_tensor(X), torch.as_tensor(Y))
    assert len(Client.from_dataset(pairs, name="a", test=np.float32(0.25)).test) == 3
    with refused(BadInput, "client 'a': held-out fraction 1 must lie between 0 and 1: try 0.3"):
        Client.from_dataset(pairs, name="a", test=1)


def test_names_with_line_breaks_stay_in_one_line():
    frame = pd.DataFrame({"p\nq": X[:, 0], "ill": Y})
    with pytest.raises(BadData) as caught:
        Client.from_frame(frame, target="sick", name="a")
    assert "\n" not in str(caught.value)
