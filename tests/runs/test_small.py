"""Clients whose figures rest on little are told from the others by their sizes and labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coterie
from coterie.runs.about import SHARE, TEST, comments, half_width


def client(name="a", train=100, test=50, labels=((50, 50), (0, 0), (25, 25))):
    return {"name": name, "train": train, "validation": 0, "test": test, "labels": labels}


OTHERS = [client("b"), client("c")]


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (client(), None),
        (client(test=TEST), None),
        (client(test=TEST - 1), "29 test rows, on which an accuracy of 80 % is known to ±15 points"),
        (client(test=1), "1 test row, on which an accuracy of 80 % is known to ±78 points"),
        (client(test=0), None),  # it has no figure, and does not count
        (client(labels=((100, 0), (0, 0), (25, 25))), "training rows of one class"),
        (client(labels=((50, 50), (0, 0), (0, 50))), "test rows of one class"),
        (client(labels=((100, 0), (0, 0), (50, 0))), "training and test rows of one class"),
        (client(labels=None), None),  # a regression, or a site that keeps its labels to itself
        (client(train=9), "9 training rows where the median client has 100"),
        (client(train=int(SHARE * 100)), None),
        (
            client(train=1, test=18, labels=None),
            "18 test rows, on which an accuracy of 80 % is known to ±18 points; "
            "1 training row where the median client has 100",
        ),
    ],
)
def test_what_is_said(described, said):
    assert comments([described, *OTHERS]).get("a") == said
    assert not comments(OTHERS)


def test_numbers_have_no_accuracy():
    assert comments([client(test=18, labels=None), *OTHERS], "regression") == {"a": "18 test rows"}


def test_a_survival_has_no_classes_and_lacks_events_alone():
    said = {}
    for name, labels in {"all": ((0, 100), (0, 0), (0, 50)), "none": ((99, 1), (0, 0), (50, 0))}.items():
        said |= comments([client(name, labels=labels), *OTHERS], "survival")
    assert said == {"none": "test rows without an event"}


def test_the_half_width_by_hand():
    assert half_width(100, 0.5) == pytest.approx(9.8)
    assert half_width(30) == pytest.approx(196 * math.sqrt(0.16 / 30))


def test_a_record_keeps_it():
    x = np.random.default_rng(0).normal(size=(40, 2))
    clients = [
        coterie.Client.from_arrays(x[:n], (x[:n, 0] > 0).astype(int), name=f"of-{n}") for n in (40, 20)
    ]
    record = coterie.train("logistic", clients, "local", rounds=1).record
    tests = {c["name"]: c["test"] for c in record.about["clients"]}
    assert {name: said.partition(" ")[0] for name, said in record.about["small"].items()} == {
        name: str(n) for name, n in tests.items()
    }
