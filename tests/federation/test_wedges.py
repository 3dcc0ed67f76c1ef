"""Orders of a hostile lead that would take a site's time, memory or disk: each ends soon, with one line."""

from __future__ import annotations

import contextlib
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from hostile import Hostile, logistic
from room import Room

from coterie.core.errors import BadRun, CoterieError, Refused
from coterie.federation.policy.keys import Policy
from coterie.federation.site import session, state_folders
from coterie.kernels.recalibrate import put_right

NAMES = ["head.weight", "head.bias"]


def opened(folder, **policy):
    """A room of two, and a lead whose model is at a, under that id."""
    room = Room(folder, {"a": Policy(**{"max_visits": 10**9, **policy})}, ("a", "b"))
    lead = Hostile(room)
    lead.begin()
    lead.visit("a", {"name": "sgd"}, [logistic()])
    return room, lead, lead.replies[0]


def frozen(room):
    """Site b takes no letter; as a post would, who waits looks whether it is to end."""

    def send(to, header, body, deadline, patience, look=lambda: None):
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            look()
            time.sleep(0.05)
        raise BadRun(f"a letter from a to {to} was not taken: it does not answer")

    room.stations["a"].session.send_to_peer = send


def letters(lead, id, many, deadline=600.0):
    order = {"to": "b", "rows": [[[id, NAMES]]], "new": [7], "why": "visit"}
    return lead.ask("a", "letters", orders=[order] * many, deadline=deadline, patience=600.0)


# letters


@pytest.mark.parametrize("deadline", [0.1, 600.0])
def test_letters_to_a_frozen_site_end_with_the_seconds_of_the_policy(tmp_path, deadline):
    room, lead, mine = opened(tmp_path, max_seconds=1.0)
    frozen(room)
    before = time.monotonic()
    with pytest.raises(Refused, match="longer than the policy's 1 seconds"):
        letters(lead, mine, 100, deadline)
    assert time.monotonic() - before < 4
    lead.visit("a", {"name": "sgd"}, [logistic()])


def test_letters_are_cancelled(tmp_path):
    room, lead, mine = opened(tmp_path)
    frozen(room)
    said = []

    def work():
        try:
            letters(lead, mine, 3)
        except CoterieError as error:
            said.append(str(error))

    at_work = threading.Thread(target=work, daemon=True)
    at_work.start()
    time.sleep(0.5)
    lead.ask("a", "cancel")
    at_work.join(5)
    assert not at_work.is_alive()
    assert said == ["cancelled by lead, who leads the run"]


def test_a_message_has_a_bounded_number_of_letters(tmp_path):
    _, lead, mine = opened(tmp_path)
    with pytest.raises(Refused, match="10001 peer messages in an order, at most 10000"):
        letters(lead, mine, 10_001)


def test_a_letter_is_no_larger_than_the_memory_of_the_policy(tmp_path):
    """A row that is named very often is small in the message and large in the letter."""
    _, lead, mine = opened(tmp_path, max_memory=10**7)
    many = 20_000
    order = {"to": "b", "rows": [[[mine, NAMES]]] * many, "new": list(range(many)), "why": "visit"}
    with pytest.raises(Refused, match="bytes of models, above the policy's 10000000"):
        lead.ask("a", "letters", orders=[order], deadline=5.0, patience=5.0)


# offers


def sums(many, ids=1, share=0.1):
    return [
        {"to": "b", "ids": list(range(i * ids, i * ids + ids)), "share": share, "others": 1, "leverage": 0.1}
        for i in range(many)
    ]


def test_an_offer_takes_time_as_it_is_long(tmp_path):
    room, lead, _ = opened(tmp_path)
    before = time.monotonic()
    lead.ask("a", "offer", sums=sums(10_000, 5), circle=False)
    assert len(room.stations["a"].session.promised) == 50_000
    assert time.monotonic() - before < 3


def test_an_offer_is_bounded(tmp_path):
    _, lead, _ = opened(tmp_path)
    with pytest.raises(Refused, match="10001 sums in an offer, at most 10000"):
        lead.ask("a", "offer", sums=sums(10_001), circle=False)
    with pytest.raises(Refused, match="200000 models in an offer, at most 100000"):
        lead.ask("a", "offer", sums=sums(2, 100_000), circle=False)
    lead.ask("a", "offer", sums=sums(1, 90_000), circle=False)
    with pytest.raises(Refused, match="models promised in a round, at most 100000"):
        lead.ask("a", "offer", sums=[{**told, "to": ""} for told in sums(1, 90_000)], circle=False)


def test_what_is_said_of_many_sums_is_short(tmp_path):
    room, lead, _ = opened(tmp_path, share_at_most=0.2)
    before = len(room.said["a"])
    found, _ = lead.ask("a", "offer", sums=sums(5_000, share=0.9), circle=False)
    assert len(found["withdraws"]) == 5_000
    outcome = room.diary("a")[-1]["outcome"]
    assert outcome.count("withdrew from the sum of b") == 20
    assert outcome.endswith("and from 4980 more")
    assert len(room.said["a"]) - before < 30


# what a message names


def test_a_model_has_a_bounded_number_of_parts(tmp_path):
    _, lead, mine = opened(tmp_path)
    long = [[mine, NAMES]] * 1_001
    with pytest.raises(Refused, match="1001 parts of a model, at most 1000"):
        lead.ask("a", "copy", rows=[long], new=[1])
    with pytest.raises(Refused, match="101000 parts of models in a message, at most 100000"):
        lead.ask("a", "copy", rows=[long[:1000]] * 101, new=list(range(101)))
    order = {"to": "b", "rows": [long[:1000]], "new": [1], "why": "visit"}
    with pytest.raises(Refused, match="101000 parts of models in a message, at most 100000"):
        lead.ask("a", "letters", orders=[order] * 101, deadline=1.0, patience=1.0)


def test_many_guests_beside_models_of_many_parts_take_little_time(tmp_path):
    """Whose models are in what lies beside guests is asked once, not once for each of them."""
    room, _, mine = opened(tmp_path)
    origins = room.stations["a"].session.origins
    part = [[mine, NAMES]] * 1_000
    message = {
        "do": "visit",
        "kernel": {"name": "sgd"},
        "beliefs": [part],
        "beside": {"x": [part] * 90},
        "rows": [0] * 5_000,
        "replies": list(range(5_000)),
    }
    before = time.monotonic()
    origins.mark_made(message, {})
    origins.mark_made({**message, "do": "mix", "new": [*range(50)], "rows": [part] * 90}, weights(50, 90))
    assert time.monotonic() - before < 3


def weights(new, rows):
    return {"weights/*": torch.ones(new, rows)}


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "moments", "columns": 3, "classes": 10**6, "least": 5},
        {"name": "moments", "columns": 3, "classes": 3, "least": 5},
        {"name": "moments", "columns": 3, "classes": -1, "least": 5},
        {"name": "moments", "columns": 3, "classes": 10**5, "sigma": 1.0, "least": 5},
        {"name": "moments", "columns": 2000, "least": 5},
        {"name": "quantiles", "columns": 10**5},
        {"name": "quantiles", "columns": 10**5, "sigma": 1.0},
        {"name": "quantiles", "columns": 0},
    ],
    ids=str,
)
def test_a_look_is_at_the_columns_and_classes_that_are_here(tmp_path, kernel):
    _, lead, _ = opened(tmp_path)
    with pytest.raises(Refused, match=r"a look at -?\d+ (columns|classes), where \d are here"):
        lead.visit("a", kernel, [logistic()])
    kernel = {**kernel, "columns": 3} | ({"classes": 2} if "classes" in kernel else {})
    assert lead.visit("a", kernel, [logistic()])


# long work between models


def far(many, id):
    row, to = [[id, NAMES]], list(range(many))
    return {
        "replies": [row] * many,
        "origin": [row],
        "guests": [0],
        "to": to,
        "importance": {},
    }


def test_distances_count_by_pairs(tmp_path):
    _, lead, mine = opened(tmp_path, max_memory=10**8)
    with pytest.raises(Refused, match="bytes of models, above the policy's 100000000"):
        lead.ask("a", "distances", **far(4_000, mine))
    found = lead.ask("a", "distances", **far(130, mine))[1]["apart"]
    assert found.shape == (130, 130)


@contextlib.contextmanager
def cancelled(room, monkeypatch):
    """Whatever a is asked is cancelled as soon as it has begun."""
    watch = room.stations["a"].session.net.learner.watch
    limit = watch.limit

    def ended(*told):
        limit(*told)
        watch.end("cancelled")

    with monkeypatch.context() as patched:
        patched.setattr(watch, "limit", ended)
        with pytest.raises(Refused, match=r"^cancelled$"):
            yield


def test_what_names_many_models_looks_whether_it_is_to_end(tmp_path, monkeypatch):
    room, lead, mine = opened(tmp_path)
    with cancelled(room, monkeypatch):
        lead.ask("a", "distances", **far(2, mine))
    with cancelled(room, monkeypatch):
        lead.ask("a", "distances", **{**far(2, mine), "guests": []})
    with cancelled(room, monkeypatch):
        lead.ask("a", "copy", rows=[[[mine, NAMES]]], new=[1])
    with cancelled(room, monkeypatch):
        lead.ask("a", "offer", sums=sums(1), circle=False)
    with cancelled(room, monkeypatch):
        letters(lead, mine, 1)


def test_work_that_was_cancelled_at_its_first_look_spoils_no_engine(tmp_path, monkeypatch):
    room = Room(tmp_path, {}, ("a", "b"))
    lead = Hostile(room)
    lead.model["engine"] = {"name": "stacked"}
    lead.begin("a")
    for kernel in ({"name": "sgd"}, {"name": "score"}):
        with cancelled(room, monkeypatch):
            lead.visit("a", kernel, [logistic(), logistic(weight=1.0)])
        assert lead.visit("a", kernel, [logistic(), logistic(weight=1.0)])


# the disk


def folders(room):
    return sorted(path.name for path in (room.states["a"] / "runs").glob("*"))


def test_a_refused_begin_leaves_nothing(tmp_path):
    room = Room(tmp_path, {"a": Policy(max_rounds=5), "b": Policy(max_parameters=3)}, ("a", "b"))
    for name in ("a", "b"):
        lead = Hostile(room)
        with pytest.raises(Refused, match="max_rounds" if name == "a" else "max_parameters"):
            lead.begin(name)
        assert not [*(room.states[name] / "runs").glob("*")]
        assert room.stations[name].session is None


def test_a_lead_has_few_runs_that_never_end(tmp_path, monkeypatch):
    monkeypatch.setattr(state_folders, "MOST_FOLDERS", 3)
    room = Room(tmp_path, {"a": Policy(deals_a_day=1000)}, ("a", "b"))
    lead, begun = Hostile(room), []
    for _ in range(5):
        lead.begin("a")
        begun.append(lead.run["a"])
        time.sleep(0.02)
    assert folders(room) == sorted(begun[2:])
    lead.visit("a", {"name": "sgd"}, [logistic()])
    mine = lead.replies[0]
    lead.ask("a", "keep", live=[mine], round=1, store=1)
    room.open("a")
    lead.begin("a", run=begun[-1])  # one that was not ended goes on
    lead.ask("a", "fetch", live=[mine], round=1, fresh=True)
    assert folders(room) == sorted(begun[2:])


def test_so_many_rounds_are_written_down_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "MOST_STORED", 2)
    _, lead, mine = opened(tmp_path)
    for round in (1, 2, 2):
        lead.ask("a", "store", live=[mine], round=round)
    with pytest.raises(Refused, match="2 rounds are written down here"):
        lead.ask("a", "store", live=[mine], round=3)


@pytest.mark.parametrize("classes", [2, 3])
def test_putting_a_model_right_looks_whether_it_is_to_end(classes):
    """With outputs that no honest model has, and many rows, it takes minutes."""

    def over():
        raise Refused("it is to end")

    learner = SimpleNamespace(task="classification", watch=SimpleNamespace(check=over))
    outputs = torch.arange(5 * classes, dtype=torch.float64).sin().view(5, classes)
    with pytest.raises(Refused, match="it is to end"):
        put_right(learner, outputs, torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0]).double(), 1e-300)


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "fold", "passes": 10**5, "inner": {"name": "ridge"}},
        {"name": "sgd", "epochs": 10**5 * 5, "batch": 200},
    ],
    ids=str,
)
def test_plans_that_take_long_end_with_the_seconds_of_the_policy(tmp_path, kernel):
    """Before the first step, all of a visit is planned."""
    room = Room(tmp_path, {"a": Policy(max_seconds=1.0)}, ("a", "b"))
    lead = Hostile(room)
    lead.begin("a")
    before = time.monotonic()
    with pytest.raises(Refused, match="longer than the policy's 1 seconds"):
        lead.visit("a", kernel, [logistic()])
    assert time.monotonic() - before < 4
