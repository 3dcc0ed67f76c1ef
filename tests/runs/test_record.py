"""What a run says of itself, counted by hand."""

import math

import numpy as np
import pytest

from coterie.runs.record import Record, line


@pytest.fixture
def record():
    """Two rounds of two clients; the second client has no AUC, and round 1 was not scored."""
    about = {"clients": [{"name": "a"}, {"name": "b"}], "belief_bytes": 40, "task": "classification"}
    first = {"own/test": {"accuracy": [0.5, 0.25], "auc": [0.75, None]}}
    last = {
        "own/test": {"accuracy": [1.0, 0.5], "auc": [0.875, None]},
        "shared/test": {"accuracy": [0.0, 0.125], "auc": [0.5, None]},
    }
    metrics = [
        line(0, first, [None, None], [0, 0], [0, 0], {}),
        line(1, None, [2.0, None], [1, 0], [1, 1], {"rank": 3}),
        line(2, last, [1.5, 3.0], [1, 2], [3, 1], {}),
    ]
    timings = [{"round": r, "seconds": s, "evaluate_seconds": 9.0} for r, s in enumerate((0.0, 1.25, 0.5))]
    return Record("mine", {"rounds": 3}, about, metrics, timings, {1: np.eye(2), 2: np.ones((2, 2)) / 2})


def test_how_far_it_came(record):
    assert (record.clients, record.done, record.finished) == (["a", "b"], 2, False)
    record.config = {"rounds": 2}
    assert record.finished
    nothing = Record("empty", {"rounds": 1}, record.about)
    assert (nothing.done, nothing.finished, list(nothing.evaluated())) == (0, False, [])
    assert (nothing.weights, nothing.matrices, nothing.models()) == ({}, {}, {})


def test_only_scored_rounds_are_evaluated(record):
    assert [m["round"] for m in record.evaluated()] == [0, 2]


def test_final_figures(record):
    assert record.final("accuracy") == [1.0, 0.5]
    assert record.final("accuracy", "shared/test") == [0.0, 0.125]
    a, b = record.final("auc")
    assert a == 0.875
    assert math.isnan(b)


def test_curves(record):
    rounds, values = record.curve("accuracy")
    assert rounds == [0, 2]
    assert values.tolist() == [[0.5, 0.25], [1.0, 0.5]]
    rounds, values = record.curve("accuracy", "shared/test")
    assert rounds == [2]
    assert values.tolist() == [[0.0, 0.125]]
    assert np.isnan(record.curve("auc")[1][:, 1]).all()


def test_traffic(record):
    assert record.traffic() == {"sent": 4, "received": 6, "each": 5, "bytes": 400, "seconds": 1.75}


def test_collaboration_by_round_and_client(record):
    record.metrics[0]["measures"] = {"drift": [0.0, 0.0]}
    record.metrics[1]["measures"] = {"recall": [1.0, 0.5], "precision": [0.25, None]}
    frame = record.collaboration()
    assert list(frame) == ["round", "client", "sent", "received", "bytes", "precision", "recall", "drift"]
    assert frame["round"].tolist() == [0, 0, 1, 1, 2, 2]
    assert frame["bytes"].tolist() == [0, 0, 80, 40, 160, 120]  # (sent + received) models of 40 bytes
    assert frame["precision"].dropna().tolist() == [0.25]
    assert frame.query("round == 1")["recall"].tolist() == [1, 0.5]
    assert frame["drift"].dropna().tolist() == [0, 0]


def test_runs_of_earlier_versions_measured_nothing(record):
    for entry in record.metrics:
        del entry["measures"]
    assert list(record.collaboration()) == ["round", "client", "sent", "received", "bytes"]
    assert len(record.collaboration()) == 6
    assert Record("empty", {"rounds": 1}, record.about).collaboration().empty


def test_history_in_long_form(record):
    history = record.history()
    assert list(history) == ["round", "client", "model", "split", "metric", "value"]
    assert len(history) == 4 + 8 + 6  # scores of round 0 and of round 2, and losses of all three

    def value(*key):
        columns = ["round", "client", "model", "split", "metric"]
        (found,) = history[(history[columns] == list(key)).all(axis=1)]["value"]
        return found

    assert value(0, "b", "own", "test", "accuracy") == 0.25
    assert value(2, "b", "shared", "test", "accuracy") == 0.125
    assert value(2, "a", "own", "test", "auc") == 0.875
    assert value(1, "a", "own", "train", "loss") == 2.0
    assert value(2, "b", "own", "train", "loss") == 3.0
    assert math.isnan(value(1, "b", "own", "train", "loss"))
    assert math.isnan(value(2, "b", "own", "test", "auc"))
