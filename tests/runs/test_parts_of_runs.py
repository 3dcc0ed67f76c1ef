"""What one client may see of a record of three, field by field."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from coterie.federation.site.views import AT_ONCE
from coterie.metrics.calibration import Calibration, Tally
from coterie.runs.record import Record
from coterie.runs.site_view import (
    ViewPublisher,
    about_for,
    calibration_for,
    config_for,
    heard_by,
    line_for,
    privacy_for,
)

NAMES = ["a", "b", "c"]
LINE = {
    "round": 4,
    "scores": {"own/test": {"loss": [0.1, 0.2, 0.3], "auc": [0.7, None, 0.9]}},
    "train_loss": [1.1, 1.2, 1.3],
    "transfers": {"models": 6, "bytes": 60},
    "sent": [1, 2, 3],
    "received": [4, 5, 6],
    "sent_bytes": [10, 20, 30],
    "received_bytes": [40, 50, 60],
    "numbers": [7, 8, 9],
    "scoring": {"models": 3, "bytes": 30},
    "rows": [11, 12, 13],
    "extras": {},
    "measures": {"drift": [0.4, 0.5, 0.6]},
    "away": {"c": "it has not answered in time"},
    "spent": {"steps": 99, "bytes": 60},
    "ended": "bytes",
}


def test_a_line_has_this_clients_numbers_and_nothing_in_the_place_of_others():
    assert line_for(LINE, 1, NAMES) == {
        "round": 4,
        "scores": {"own/test": {"loss": [None, 0.2, None], "auc": [None, None, None]}},
        "train_loss": [None, 1.2, None],
        "transfers": {"models": 7, "bytes": 70},
        "sent": [0, 2, 0],
        "received": [0, 5, 0],
        "sent_bytes": [0, 20, 0],
        "received_bytes": [0, 50, 0],
        "numbers": [0, 8, 0],
        "rows": [0, 12, 0],
        "extras": {},
        "measures": {"drift": [None, 0.5, None]},
        "away": {"c": "it has not answered in time"},
        "ended": "bytes",
    }


def test_a_round_without_scores_has_none():
    line = {k: v for k, v in LINE.items() if k not in ("rows", "away", "ended")} | {"scores": None}
    found = line_for(line, 0, NAMES)
    assert found["scores"] is None
    assert not {"rows", "away", "ended"} & found.keys()


MINE = {"site": "b", "receiver": "c", "share": 0.5, "others": 2, "leverage": 0.1, "why": "0.5", "of": "sum"}
FROM_MINE = {
    "site": "a",
    "receiver": "b",
    "share": 0.6,
    "others": 2,
    "why": "share above 0.6",
    "of": "circle",
}
GAME = {
    "receivers": [0, 1],
    "senders": [0, 2],
    "value": [[1.0, 2.0], [3.0, 4.0]],
    "variance": [[5.0, 6.0], [7.0, 8.0]],
    "given": {"value": [9.0, 10.0]},
    "said": {"orders": 3},
}
PRICE = {"looks": 4, "sent": 5, "bytes": 6}


@pytest.mark.parametrize(
    ("name", "told", "part"),
    [
        ("note", "nothing was trained", "nothing was trained"),
        ("published", 3, 3),
        ("ranked_pairs", 6, 6),
        ("step", 2, 2),
        ("sealed", {"replies": 3, "leverage": 0.5}, {"replies": 3, "leverage": 0.5}),
        ("left_out", {"a": "it diverged", "b": "it diverged"}, {"b": "it diverged"}),
        ("left_out", {"a": "it diverged"}, None),
        ("alpha", {"a": 0.1, "b": 0.2, "c": 0.3}, {"b": 0.2}),
        ("lambda", {"a": 0.1, "b": 0.2}, {"b": 0.2}),
        ("nobody", ["a", "b"], ["b"]),
        ("stopped", ["a"], None),
        ("stopped", 2, None),  # how many
        ("neighbours", [1, 2, 3], [None, 2, None]),
        ("circles", [1, 2, 3], [None, 2, None]),
        ("follows", ["local", "pens", "fedavg"], [None, "pens", None]),
        ("layer_weights", {"head": [0.1, 0.2, 0.3]}, {"head": [None, 0.2, None]}),
        (
            "withdrawals",
            [MINE, FROM_MINE, {**FROM_MINE, "receiver": "c"}, {**FROM_MINE, "receiver": "coordinator"}],
            [MINE, {"site": "a", "receiver": "b", "of": "circle", "why": "a limit of its own"}],
        ),
        (
            "kept_out",
            [{"site": s, "receiver": r} for s, r in ("ab", "bc", "ac")],
            [{"site": "a", "receiver": "b"}, {"site": "b", "receiver": "c"}],
        ),
        (
            "similar",
            {
                "columns": ["age"],
                "quantiles": {"a": [[1.0]], "b": [[2.0]]},
                "epsilon": 1.0,
                "drowned": {"quantiles": ["a", "b"], "transport": ["c"]},
                "more": 1,
            },
            {
                "columns": ["age"],
                "quantiles": {"b": [[2.0]]},
                "epsilon": 1.0,
                "drowned": {"quantiles": ["b"], "transport": []},
            },
        ),
        (
            "contributions",
            {
                "level": 0.95,
                "rows": "train",
                "unvalued": {"a judge went": 1},
                "by": {"gtg": {"games": [GAME, {**GAME, "receivers": [0, 2]}], **PRICE}},
            },
            {
                "level": 0.95,
                "rows": "train",
                "unvalued": {"a judge went": 1},
                "by": {
                    "gtg": {
                        "games": [
                            {
                                "receivers": [1],
                                "senders": [0, 2],
                                "value": [[3.0, 4.0]],
                                "variance": [[7.0, 8.0]],
                                "said": {"orders": 3},
                            }
                        ],
                        **PRICE,
                    }
                },
            },
        ),
        (
            "rule",
            {"f": {"server": 1, "a": 2, "b": 3}, "left_out": {"a": 4, "b": 5}, "stayed": {"c": 0.5}},
            {"f": {"server": 1, "b": 3}, "left_out": {"b": 5}, "stayed": {}},
        ),
        ("liars", [{"kind": "noise", "names": ["b"]}], None),
        ("clients of each model", [2, 1], None),
        ("samples_moved", 99, None),
        ("something of a plugin's", {"b": 1}, None),
    ],
)
def test_extras_are_this_clients_or_public_or_not_there(name, told, part):
    found = line_for({**LINE, "extras": {name: told}}, 1, NAMES)["extras"]
    assert found == ({} if part is None else {name: part})


def test_matrices_are_a_row_and_a_column():
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    distance = np.array([[0.0, 1.0, 2.0], [3.0, np.nan, 5.0], [6.0, 7.0, 8.0]])
    named = {"distance": distance, "rows of the other": weights, "dissimilarity": weights}
    passed = np.array([[0, 3, 1, 10, 0], [1, 3, 1, 10, 2], [0, 1, 2, 20, 0], [2, 0, 5, 50, 0]])
    found = heard_by(1, weights, named, passed, {})
    assert found == {
        "row": [3.0, 4.0, 5.0],
        "column": [1.0, 4.0, 7.0],
        "named": {"distance": [3.0, None, 5.0], "dissimilarity": [3.0, 4.0, 5.0]},
        "passed": [[1, 3, 1, 10, 2], [0, 1, 2, 20, 0]],
    }
    by_size = heard_by(1, weights, named, passed, {"similar": {"by": "size"}})
    assert by_size["named"].keys() == {"distance"}  # how many rows others have is nobody's business


def client(name, n):
    return {"name": name, "train": n, "validation": 0, "test": n, "labels": [[n]], "notes": ["x"]}


def test_what_a_run_is_about_without_others_sizes_and_without_the_leads_machine():
    about = {
        "coterie": "1.0",
        "versions": {"python": "3.11"},
        "machine": {"cores": 8},
        "command": "coterie run --federation.kit /home/lead",
        "task": "classification",
        "classes": ["no", "yes"],
        "clients": [client("a", 10), client("b", 20), client("c", 30)],
        "notes": ["clients with fewer training rows than batch=64: a"],
        "small": {"a": "10 test rows", "b": "20 test rows"},
        "fingerprint": "abc",
        "rows": "def",
    }
    unknown = {"train": 0, "validation": 0, "test": 0, "labels": None, "cluster": None, "notes": []}
    assert about_for(about, 1) == {
        "coterie": "1.0",
        "versions": {"python": "3.11"},
        "command": None,
        "task": "classification",
        "classes": ["no", "yes"],
        "clients": [{"name": "a", **unknown}, client("b", 20), {"name": "c", **unknown}],
        "notes": [],
        "small": {"b": "20 test rows"},
    }


def test_settings_without_paths_and_without_what_others_chose():
    config = {
        "method": "advised",
        "rounds": 3,
        "engine": "pool",
        "device": "cuda",
        "memory": "4G",
        "plugins": ["/home/lead/mine.py"],
        "wrap": [
            "absent=0.1",
            "circle:of=a,among=b+c",
            "circle:of=a,without=b",
            "circle:of=b,among=a",
            "circle:of=c,without=a",
        ],
        "pool": {"workers": 4},
        "advised": {"choice": ["local", "pens", "local"], "folds": 5},
        "mlp": {"hidden": [8], "start": "/home/lead/start.safetensors"},
        "federation": {"kit": "lead", "least": 2},
        "features": {"model": "x.safetensors"},
    }
    assert config_for(config, "b") == {
        "method": "advised",
        "rounds": 3,
        "wrap": ["absent=0.1", "circle:of=a,without=b", "circle:of=b,among=a"],
        "advised": {"folds": 5},
        "mlp": {"hidden": [8]},
        "federation": {"least": 2},
    }


def test_calibration_and_privacy_of_one():
    tally = Tally(*(torch.arange(6.0).reshape(3, 2) + 10 * i for i in range(3)))
    found = calibration_for(Calibration(tally, tally, tally), 1)
    assert found is not None
    assert found["entropy"] == [[2.0, 3.0], [12.0, 13.0], [22.0, 23.0]]
    assert found.keys() == {"confidence", "entropy", "above", "positive"}
    assert found["positive"] == [[], [], []]  # of more than two classes nothing is counted so
    sites = [{"name": name, "epsilon": i} for i, name in enumerate(NAMES)]
    told = {"delta": 1e-5, "sites": sites, "budget": None, "outside": {}, "scores": "clear", "more": 1}
    assert privacy_for(told, "c") == {
        "delta": 1e-5,
        "budget": None,
        "outside": {},
        "scores": "clear",
        "sites": [{"name": "c", "epsilon": 2}],
    }
    assert calibration_for(None, 1) is None
    assert privacy_for(None, "c") is None


# what sites have, and what they get next


def record_of(rounds):
    about = {"task": "regression", "clients": [client(name, 5) for name in NAMES], "notes": []}
    nothing = np.zeros((0, 5), dtype=int)
    return Record(
        "x",
        {"method": "x", "rounds": rounds, "seed": 0},
        about,
        [{**LINE, "round": r} for r in range(rounds + 1)],
        [{"round": r, "seconds": 1.0} for r in range(rounds + 1)],
        weights={r: np.eye(3) for r in range(1, rounds + 1)},
        passed=dict.fromkeys(range(1, rounds + 1), nothing),
    )


def shown(showing, number, answer):
    """Rounds of each order on one occasion, until nothing is left; `answer(order)` is what the site says."""
    showing.begin()
    orders = []
    while (order := showing.order(number)) is not None:
        json.dumps(order)
        orders.append(order)
        showing.answered(number, order, answer(order))
        assert len(orders) < 10, "it goes on for ever"
    return [[one["line"]["round"] for one in order["rounds"]] for order in orders], orders


def numbers(order):
    return [one["line"]["round"] for one in order["rounds"]]


def test_a_site_gets_every_round_once_and_the_settings_at_first():
    record = record_of(0)
    showing, longer = ViewPublisher(record), record_of(2)
    rounds, orders = shown(showing, 1, lambda order: 0)
    assert (rounds, [set(o) for o in orders]) == ([[0]], [{"config", "about", "rounds"}])
    assert "heard" not in orders[0]["rounds"][0]
    showing.record = longer
    rounds, orders = shown(showing, 1, lambda order: 2)
    assert (rounds, [set(o) for o in orders]) == ([[1, 2]], [{"rounds"}])
    showing.over = True
    rounds, orders = shown(showing, 1, lambda order: 2)
    assert (rounds, [set(o) for o in orders]) == ([[]], [{"rounds", "end"}])
    assert shown(showing, 1, lambda order: 2) == ([], [])


def test_one_that_comes_late_catches_up_in_bounded_messages():
    showing, have = ViewPublisher(record_of(150)), -1

    def answer(order):
        nonlocal have
        if numbers(order)[0] == have + 1:
            have = numbers(order)[-1]
        return have

    rounds, orders = shown(showing, 2, answer)
    assert rounds == [[150], [*range(64)], [*range(64, 128)], [*range(128, 151)]]
    assert ["config" in order for order in orders] == [True, False, False, False]
    assert AT_ONCE == 64


@pytest.mark.parametrize(
    ("answers", "rounds"),
    [
        ([3, 5], [[5], [4, 5]]),  # it has 3 rounds of an earlier process of the lead's
        ([None, 5], [[5], [0, 1, 2, 3, 4, 5]]),  # it has lost all
        ([-1, -1], [[5], [0, 1, 2, 3, 4, 5]]),  # it says one thing and the other
        (["not kept"], [[5]]),
        ([99], [[5]]),
        ([-7], [[5]]),
        ([True], [[5]]),
    ],
)
def test_whatever_a_site_says_it_has_comes_to_an_end(answers, rounds):
    said = iter(answers)
    assert shown(ViewPublisher(record_of(5)), 0, lambda order: next(said))[0] == rounds


def test_one_that_does_not_keep_it_gets_no_more_on_that_occasion_and_is_tried_again():
    showing = ViewPublisher(record_of(5))
    assert shown(showing, 0, lambda order: "not kept")[0] == [[5]]
    rounds, orders = shown(showing, 0, lambda order: 5)
    assert rounds == [[5]]
    assert "config" in orders[0]


# what features keep of a run


def test_a_record_knows_nothing_of_what_no_feature_keeps_and_hides_no_error_of_one_that_does():
    record = record_of(1)
    assert record.of("what nobody keeps") is None
    record.more["kept"] = lambda: None.missing
    with pytest.raises(AttributeError, match="missing"):
        record.of("kept")
