"""What a run says of itself, counted by hand."""

import math

import numpy as np
import pytest

from coterie.nets.counting import Traffic, nothing_passed
from coterie.runs.builder import Builder
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.record import Record, line, triplets
from coterie.runs.settings import Settings

NOTHING = nothing_passed(2)


def passed(*entries, rows=(0, 0)) -> Traffic:
    """(sender, receiver, models, numbers) each, of models of 40 bytes; 2 is the coordinator."""
    found = nothing_passed(2)
    for sender, receiver, models, numbers in entries:
        found.models[sender, receiver] += models
        found.bytes[sender, receiver] += 40 * models
        found.numbers[sender, receiver] += numbers
    found.rows[:] = rows
    return found


FIRST = passed((0, 2, 1, 3), (2, 0, 1, 0), (2, 1, 1, 0))
SECOND = passed((0, 2, 1, 2), (1, 0, 2, 0), (2, 0, 1, 0), (2, 1, 1, 0))


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
        line(0, first, [None, None], NOTHING, passed((2, 0, 1, 4)), {}),
        line(1, None, [2.0, None], FIRST, NOTHING, {"rank": 3}),
        line(2, last, [1.5, 3.0], SECOND, NOTHING, {}),
    ]
    timings = [{"round": r, "seconds": s, "evaluate_seconds": 9.0} for r, s in enumerate((0.0, 1.25, 0.5))]
    weights, moved = {1: np.eye(2), 2: np.ones((2, 2)) / 2}, {1: triplets(FIRST), 2: triplets(SECOND)}
    return Record("mine", {"rounds": 3}, about, metrics, timings, weights, moved)


def test_how_far_it_came(record):
    assert (record.clients, record.done, record.finished) == (["a", "b"], 2, False)
    record.config = {"rounds": 2}
    assert record.finished
    nothing = Record("empty", {"rounds": 1}, record.about)
    assert (nothing.done, nothing.finished, list(nothing.evaluated())) == (0, False, [])
    assert (nothing.weights, nothing.matrices, nothing.models(), nothing.away()) == ({}, {}, {}, {})
    assert nothing.collaboration().empty
    assert nothing.given_away().empty


def test_final_figures_and_curves(record):
    assert [m["round"] for m in record.evaluated()] == [0, 2]
    assert record.final("accuracy") == [1.0, 0.5]
    assert record.final("accuracy", "shared/test") == [0.0, 0.125]
    a, b = record.final("auc")
    assert a == 0.875
    assert math.isnan(b)
    rounds, values = record.curve("accuracy")
    assert (rounds, values.tolist()) == ([0, 2], [[0.5, 0.25], [1.0, 0.5]])
    rounds, values = record.curve("accuracy", "shared/test")
    assert (rounds, values.tolist()) == ([2], [[0.0, 0.125]])
    assert np.isnan(record.curve("auc")[1][:, 1]).all()


def test_who_is_away_in_the_end_has_the_figures_of_its_last_scored_round(record):
    assert record.away() == {}
    record.metrics[2]["scores"] = {"own/test": {"accuracy": [None, 0.75], "auc": [None, None]}}
    assert record.away() == {"a": 0}
    assert record.final("accuracy") == [0.5, 0.75]
    a, b = record.final("auc")
    assert a == 0.75
    assert math.isnan(b)


def test_traffic(record):
    """A client's own: a sent 1 + 1 and b 2; a got 1 + 3 and b 1 + 1."""
    assert [(m["sent"], m["received"], m["numbers"]) for m in record.metrics[1:]] == [
        ([1, 0], [1, 1], [3, 0]),
        ([1, 2], [3, 1], [2, 0]),
    ]
    assert record.metrics[0]["sent"] == record.metrics[0]["received"] == [0, 0]
    assert record.metrics[0]["scoring"] == {"models": 1, "bytes": 40}
    # 3 models passed in round 1 and 5 in round 2; the two from b to a count once, though both are an end
    counts = {"sent": 4, "received": 6, "models": 8, "each": 4, "bytes": 320}
    assert record.traffic() == {**counts, "seconds": 1.75}
    for entry in record.metrics:  # as runs of earlier versions: what passed in rounds is in their matrices
        del entry["transfers"]
    assert record.traffic() == {**counts, "seconds": 1.75}
    record.metrics[0]["received"], record.metrics[0]["received_bytes"] = [1, 1], [40, 40]
    assert (record.traffic()["models"], record.traffic()["bytes"]) == (10, 400)  # handed out before round 1


@pytest.mark.parametrize(
    ("method", "options", "handed_out", "in_round"),
    [
        # three models go out, three come back to be averaged
        ("fedavg", {}, 0, 6),
        # everybody begins with one, and gets that of one other
        ("random", {"order": "at-once", "selected": 1}, 3, 3),
    ],
)
def test_a_transfer_counts_once_whoever_its_ends_are(method, options, handed_out, in_round):
    settings = Settings(
        data="diabetes", clients=3, method=method, rounds=1, validation=0.2, options={method: options}
    )
    record = run(Builder().prepare(settings), None, "x").record
    size = record.about["belief_bytes"]
    assert [m["transfers"] for m in record.metrics] == [
        {"models": n, "bytes": n * size} for n in (handed_out, in_round)
    ]
    traffic = record.traffic()
    models = handed_out + in_round
    assert (traffic["models"], traffic["each"], traffic["bytes"]) == (models, models / 3, models * size)
    # clients' own counts: of a peer's model both ends tell, of a server's one
    assert (traffic["sent"], traffic["received"]) == {"fedavg": (3, 3), "random": (3, 6)}[method]


def test_rows_are_said_where_some_moved():
    assert "rows" not in line(1, None, [], NOTHING, NOTHING, {})
    assert line(1, None, [], passed(rows=(3, 0)), NOTHING, {})["rows"] == [3, 0]


def test_what_was_given_to_whom(record):
    frame = record.given_away()
    assert list(frame) == ["sender", "receiver", "models", "bytes", "numbers"]
    assert frame.values.tolist() == [
        ["a", "coordinator", 2, 80, 5],
        ["b", "a", 2, 80, 0],
        ["coordinator", "a", 2, 80, 0],
        ["coordinator", "b", 2, 80, 0],
    ]


@pytest.mark.parametrize("method", ["fedavg", "pens", "weight-erosion", "one-shot-fedavg"])
def test_what_was_given_away_adds_up_to_the_lines_counts(method, tmp_path, run_in):
    rounds = {"one-shot-fedavg": 1}.get(method, 3)
    settings = Settings(
        data="diabetes", clients=3, validation=0.2, method=method, rounds=rounds, wrap=("absent=0.2",)
    )
    in_memory = run(Builder().prepare(settings), None, "x").record
    run_in(tmp_path / "run", Builder().prepare(settings))
    for record in (in_memory, read_record(tmp_path / "run")):
        frame, lines = record.given_away(), record.metrics[1:]
        for end, way in (("sender", "sent"), ("receiver", "received")):
            for i, name in enumerate(record.clients):
                mine = frame[frame[end] == name]
                assert mine["models"].sum() == sum(m[way][i] for m in lines)
                assert mine["bytes"].sum() == sum(m[f"{way}_bytes"][i] for m in lines)
        numbers = frame[frame["receiver"] == "coordinator"].set_index("sender")["numbers"]
        assert [numbers.get(name, 0) for name in record.clients] == np.sum(
            [m["numbers"] for m in lines], axis=0
        ).tolist()
        assert frame["models"].sum() > 0


def test_collaboration_by_round_and_client(record):
    record.metrics[0]["measures"] = {"drift": [0.0, 0.0]}
    record.metrics[1]["measures"] = {"recall": [1.0, 0.5], "precision": [0.25, None]}
    frame = record.collaboration()
    counts = ["round", "client", "sent", "received", "bytes", "numbers"]
    assert list(frame) == [*counts, "precision", "recall", "drift"]
    assert frame["round"].tolist() == [0, 0, 1, 1, 2, 2]
    assert frame["bytes"].tolist() == [0, 0, 80, 40, 160, 120]  # (sent + received) models of 40 bytes
    assert frame["numbers"].tolist() == [0, 0, 3, 0, 2, 0]
    assert frame["precision"].dropna().tolist() == [0.25]
    assert frame.query("round == 1")["recall"].tolist() == [1, 0.5]
    assert frame["drift"].dropna().tolist() == [0, 0]
    for entry in record.metrics:  # as runs of earlier versions
        del entry["measures"]
    assert list(record.collaboration()) == counts


def test_history_in_long_form(record):
    history = record.history()
    assert list(history) == ["round", "client", "model", "split", "metric", "value"]
    assert len(history) == 4 + 8 + 6  # scores of round 0 and of round 2, and losses of all three
    value = history.set_index(["round", "client", "model", "split", "metric"])["value"]
    assert value[0, "b", "own", "test", "accuracy"] == 0.25
    assert value[2, "b", "shared", "test", "accuracy"] == 0.125
    assert value[2, "a", "own", "test", "auc"] == 0.875
    assert value[1, "a", "own", "train", "loss"] == 2.0
    assert value[2, "b", "own", "train", "loss"] == 3.0
    assert math.isnan(value[1, "b", "own", "train", "loss"])
