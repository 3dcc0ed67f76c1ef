"""A lead who means harm, with a genuine kit: each test plays an attack, and counts what it learned.

The other attacks are where what they attack is: a forged record in tests/ledger, a new kit in test_budgets.py
and unfinished messages in test_line.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time

import numpy as np
import pytest
import torch
from hostile import Hostile, logistic
from room import Room

from coterie.core.errors import BadRun, CoterieError, Refused
from coterie.core.method import Reveals
from coterie.federation.policy.keys import Policy, objections
from coterie.federation.policy.rules import work_for
from coterie.federation.site.server import CANCEL
from coterie.kernels.fold import fold_rows

CLOSED = {
    "to_coordinator": False,
    "to_peers": False,
    "rows": False,
    "distances": False,
    "quality": False,
    "label_counts": False,
    "scores": "own",
}
CAREFUL = Policy(**CLOSED, min_rows=20, deals_a_day=1000)
ROWS = 193  # of which 154 are for training


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path, dict.fromkeys(("a", "b"), CAREFUL), ("a", "b"), rows=ROWS)


def scored(lead, kernel, models, **more):
    """The losses of models, or None where the site refuses."""
    try:
        return lead.visit("a", kernel, models, **more)["loss"]
    except Refused:
        return None


PROBES = [logistic(weight=w, bias=b, column=c) for c in range(3) for w, b in ((1.0, 0.0), (-1.0, 0.0))]


def row_values(each):
    """[row, column] x with the sign of the label, from six losses of each: log(1+e^x) - log(1+e^-x) = x."""
    return np.array([[float(losses[2 * c + 1] - losses[2 * c]) for c in range(3)] for losses in each])


def recovered(guess, truth):
    """How many rows are told, to three digits."""
    y = truth.y.numpy() * 2 - 1
    real = truth.x.numpy() * y[:, None]
    close = np.abs(guess[:, None, :] - real[None]).max(axis=2) < 1e-3
    return int(close.any(axis=0).sum())


# rows read back


def test_folds_of_one_row_tell_nothing(room):
    lead = Hostile(room)
    lead.begin()
    n = len(lead.rows_of("a"))
    each = [scored(lead, {"name": "held-out", "folds": n, "fold": i}, PROBES) for i in range(n)]
    found = [losses for losses in each if losses is not None]
    assert not found, f"{recovered(row_values(found), lead.rows_of('a'))} of {n} rows were read back"


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "held-out", "folds": 8, "fold": 7},
        {"name": "noisy", "inner": {"name": "held-out", "folds": 154}, "sigma": 1e-9},
        {"name": "crowd", "inner": {"name": "held-out", "folds": 154}},
        {"name": "choice", "inner": {"name": "held-out", "folds": 154}},
        {"name": "fold", "folds": 154, "inside": True, "inner": {"name": "sgd", "lr": 1e-9}},
        {"name": "fold", "folds": 8, "fold": 7, "inside": True, "inner": {"name": "sgd", "lr": 1e-9}},
        {"name": "sgd", "steps": 1, "batch": 1, "lr": 1e-9},
        {"name": "sgd", "epochs": 1, "batch": 1, "lr": 1e-9},
        {"name": "sgd", "steps": 1, "batch": 19, "shuffle": False, "lr": 1e-9},
        {"name": "refresh", "batch": 3},
        {"name": "meta", "inner": {"name": "sgd", "batch": 10}},
        {"name": "tethered", "inner": {"name": "fold", "folds": 10, "inside": True}},
        {"name": "proximal", "inner": {"name": "sgd", "batch": 5, "steps": 1}},
        {"name": "gather", "inner": {"name": "swag", "batch": 4}},
        {"name": "ala", "rows": 0.05},
        {"name": "leaning", "inner": {"name": "adam", "batch": 1, "steps": 1}},
    ],
    ids=str,
)
def test_no_visit_looks_at_few_rows(room, kernel):
    lead = Hostile(room)
    lead.begin("a")
    with pytest.raises(Refused, match=r"below the policy's 20"):
        lead.visit("a", kernel, [logistic(weight=1.0)], beside=None)


def test_two_visits_that_differ_by_a_row_tell_nothing(room):
    """All training rows, and all but those of a fold of one: the difference is that row."""
    lead = Hostile(room)
    lead.begin("a")
    assert scored(lead, {"name": "score", "part": "train", "numbers": ["loss"]}, PROBES) is not None
    work = {"name": "sgd", "lr": 1e-9, "batch": 200}
    with pytest.raises(Refused, match="rows that differ by 1"):
        lead.visit("a", {"name": "fold", "folds": 154, "fold": 3, "inner": work}, PROBES)


def test_rows_dealt_in_other_ways_tell_nothing(room):
    """Test rows of many deals, in runs of their own: whatever is told of them does not add up to a row."""
    lead, sets = Hostile(room), []
    for deal in range(80):
        with contextlib.suppress(CoterieError):  # sums of columns are refused as well
            lead.begin("a", test=0.2, deal=deal)
        if scored(lead, {"name": "score", "numbers": ["loss"]}, PROBES) is not None:
            places = room.stations["a"].session.places["test"]
            sets.append(np.isin(np.arange(ROWS), places).astype(float))
    assert len(sets) > 10
    known = np.array(sets)
    assert (np.linalg.pinv(known) @ known).diagonal().max() <= 0.75 + 1e-6


def test_the_row_that_a_last_batch_has_alone_is_not_told(room):
    """All rows but one in the first step, and one in the second, which sees another model."""
    lead = Hostile(room)
    lead.begin("a")
    n = len(lead.rows_of("a"))
    assert "loss" not in lead.visit("a", {"name": "sgd", "batch": n - 1, "lr": 5.0}, [logistic()])
    assert "loss" in lead.visit("a", {"name": "sgd", "batch": n // 2, "lr": 5.0}, [logistic()])


def test_folds_of_many_seeds_do_not_add_up_to_a_row(room):
    """Every fold has 22 rows and differs from all others by more; together they would tell each row."""
    lead = Hostile(room)
    lead.begin("a")
    n, sets, answers = len(lead.rows_of("a")), [], []
    for seed in range(40):
        for fold in range(7):
            kernel = {"name": "held-out", "folds": 7, "fold": fold, "seed": seed}
            losses = scored(lead, kernel, PROBES)
            if losses is not None:
                rows = fold_rows(n, 7, fold, seed).numpy()
                sets.append(np.isin(np.arange(n), rows).astype(float))
                answers.append(losses.numpy() * len(rows))
    guess = np.linalg.lstsq(np.array(sets), np.array(answers), rcond=None)[0]
    assert recovered(row_values(guess), lead.rows_of("a")) <= 2  # of 154, by chance
    assert np.linalg.matrix_rank(np.array(sets)) <= 0.75 * n


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "sgd", "steps": 1, "batch": 40, "lr": 1e-9},
        {"name": "sgd", "steps": 5, "batch": 40, "lr": 1e-9},
        {"name": "sgd", "steps": 1, "batch": 40, "shuffle": False},
        {"name": "fold", "folds": 2, "inner": {"name": "sgd", "batch": 38}},
        {"name": "leaning", "inner": {"name": "adam", "steps": 2, "batch": 30}},
    ],
    ids=str,
)
def test_no_figure_is_told_of_rows_that_are_drawn_for_a_visit(room, kernel):
    """With rows known by the key and a rate that changes nothing, as many losses as rows would tell each."""
    lead = Hostile(room)
    lead.begin("a")
    assert set(lead.visit("a", kernel, [PROBES[0]])) <= {"samples"}


def test_a_model_with_a_bias_for_each_row_is_none(room):
    lead = Hostile(room)
    lead.begin("a")
    n = len(lead.rows_of("a"))
    apart = {"head.weight": torch.zeros(2, 3), "head.bias": torch.zeros(n, 2)}
    for kernel in ({"name": "sgd", "batch": n, "epochs": 1}, {"name": "score", "part": "train"}):
        with pytest.raises(BadRun, match="where the model's has"):
            lead.visit("a", kernel, [apart])


@pytest.mark.parametrize("name", ["slopes", "downhill"])
def test_numbers_of_each_step_are_of_one_step(tmp_path, name):
    room = Room(tmp_path, {"a": Policy(min_rows=20)}, ("a", "b"), rows=ROWS)
    lead = Hostile(room)
    lead.begin("a")
    n = len(lead.rows_of("a"))
    with pytest.raises(Refused, match="figures of each of 2 steps"):
        lead.visit("a", {"name": name, "inner": {"name": "sgd", "batch": n - 1}}, [logistic()])


def test_slopes_need_distances(room):
    lead = Hostile(room)
    lead.begin("a")
    with pytest.raises(Refused, match="distances"):
        lead.visit("a", {"name": "slopes"}, [logistic()])


@pytest.mark.parametrize(
    "kernel", [{"name": "column-sums"}, {"name": "fold", "inner": {"name": "column-sums"}}]
)
def test_sums_of_columns_are_no_models(tmp_path, kernel):
    """What is trained may go to who leads; sums of columns may not, though they come as a model does."""
    room = Room(tmp_path, {"a": Policy(min_rows=20)}, ("a", "b"), rows=ROWS)
    lead = Hostile(room)
    lead.begin("a")
    session = room.stations["a"].session
    session.policy = Policy(sums=False, min_rows=20)  # where sites scale by themselves, a run begins with it
    with pytest.raises(Refused, match="sums = true"):
        lead.visit("a", kernel, [logistic()])
    with pytest.raises(Refused, match="sums = true"):
        lead.visit("a", {"name": "curvature", "tau": 1.0}, [logistic()], beside={})
    lead.visit("a", {"name": "ridge"}, [logistic()])
    work = work_for(Reveals(), ["column-sums"], "linear", 3, 4)
    assert "set sums = true" in objections(Policy(sums=False), work)[0]
    assert not objections(Policy(sums=False, sealed=True), dataclasses.replace(work, sealed=True))


def test_how_work_diverged_tells_no_loss(tmp_path):
    lead = Hostile(Room(tmp_path, {}, ("a", "b")))
    lead.begin("a")
    with pytest.raises(BadRun, match=r"^head\.\w+ is no longer finite$"):
        lead.visit("a", {"name": "sgd", "lr": 1e38, "epochs": 50, "momentum": 0.9}, [logistic(weight=1e30)])


def test_answers_a_day_are_counted_over_runs_and_restarts(tmp_path):
    room = Room(tmp_path, {"a": Policy(answers_a_day=10)}, ("a", "b"))
    lead = Hostile(room)
    lead.begin("a")
    lead.visit("a", {"name": "score", "part": "train"}, PROBES)
    room.open("a")
    lead.begin("a")
    with pytest.raises(Refused, match="6 models were tried here within 24 hours, and 6 more are above"):
        lead.visit("a", {"name": "score", "part": "train"}, PROBES)


# a model through an honest peer


@pytest.fixture
def peers(tmp_path):
    """a keeps its models from who leads; b and c would give theirs."""
    return Room(tmp_path, {"a": Policy(to_coordinator=False, distances=False)}, ("a", "b", "c"))


def through(lead, to="b", id=None):
    """a's trained model goes to a peer, as in honest methods; the id that it has there."""
    if id is None:
        lead.visit("a", {"name": "sgd", "epochs": 3}, [logistic()])
        id = lead.replies[0]
    new = lead.id()
    order = {"to": to, "rows": [whole(id)], "new": [new], "why": "mix"}
    sent = lead.ask("a" if to == "b" else "b", "letters", orders=[order], deadline=5, patience=5)[0]["sent"]
    assert isinstance(sent[0], int), sent
    return new


def whole(id):
    return [[id, ["head.weight", "head.bias"]]]


def mixed(lead, site, rows, weights):
    new = lead.id()
    lead.ask(site, "mix", {"weights/*": torch.tensor([weights])}, rows=[whole(i) for i in rows], new=[new])
    return new


def disguises(lead, foreign):
    """Ways in which b makes something of its own of a's model."""
    own = logistic(weight=1.0)
    lead.visit("b", {"name": "sgd"}, [own])
    mine = lead.replies[0]
    yield mixed(lead, "b", [foreign], [1.0])
    yield mixed(lead, "b", [foreign, mine], [1.0, 0.0])
    yield mixed(lead, "b", [foreign, mine], [1e-3, 1.0])
    yield mixed(lead, "b", [mixed(lead, "b", [foreign, mine], [0.5, 0.5]), mine], [2.0, -1.0])
    lead.ask("b", "copy", rows=[whole(foreign)], new=[copied := lead.id()])
    yield mixed(lead, "b", [copied], [1.0])
    lead.visit("b", {"name": "sgd", "lr": 1e-9}, [foreign])
    yield lead.replies[0]
    lead.visit(
        "b",
        {"name": "tethered", "strength": 1e6, "inner": {"name": "sgd", "lr": 1e-9}},
        [own],
        beside={"anchor": [whole(foreign)]},
    )
    yield lead.replies[0]


def test_what_has_a_foreign_part_stays_foreign(peers):
    lead = Hostile(peers)
    lead.begin()
    foreign, said = through(lead), []
    for id in disguises(lead, foreign):
        with pytest.raises(Refused) as caught:
            lead.ask("b", "give", rows=[whole(id)], new=[lead.id()], why="mix")
        said.append(str(caught.value))
        with pytest.raises(Refused, match="a's in it, whose policy has distances = false"):
            lead.ask(
                "b",
                "distances",
                replies=[whole(id)],
                origin=[whole(id)],
                guests=[0],
                to=[0],
                importance=None,
            )
    assert len(said) == 7
    assert all("a model that came from another site" in line or "has one of a's" in line for line in said)
    assert sum("has one of a's in it, whose policy has to_coordinator = false" in line for line in said) == 4


def test_what_work_remembers_of_a_foreign_model_stays_foreign(peers):
    """A posterior's book keeps states of a's model, and comes home with a model of the lead's."""
    lead = Hostile(peers)
    lead.begin()
    foreign = through(lead)
    work = {"name": "gather", "inner": {"name": "swag", "keep": True, "lr": 1e-9, "epochs": 1, "burn": 0}}
    lead.visit("b", work, [foreign])
    lead.visit("b", work, [logistic(weight=2.0)], round=2)
    with pytest.raises(Refused, match="has one of a's in it"):
        lead.ask("b", "give", rows=[whole(lead.replies[0])], new=[lead.id()], why="mix")


def launderings(lead, foreign):
    """Orders that fail halfway, or make nothing, after which a mark might be gone; and the id to ask for."""
    own, copied = logistic(weight=1.0), lead.id
    weights = {"weights/*": torch.tensor([[1.0]])}

    def tries(do, tensors=None, **message):
        with contextlib.suppress(CoterieError):
            lead.ask("b", do, tensors, **message)

    tries("copy", rows=[whole(foreign)], new=[one := copied(), copied()])
    yield one
    tries("copy", rows=[whole(foreign), whole(999_999)], new=[one := copied(), copied()])
    yield one
    tries("copy", rows=[whole(foreign)], new=[one := copied()], squeeze="nonsense")
    yield one
    tries("mix", {**weights, "weights/z": torch.zeros(0)}, rows=[whole(foreign)], new=[one := copied()])
    yield one
    tries("mix", {"weights/*": torch.tensor([[True]])}, rows=[whole(foreign)], new=[one := copied()])
    yield one
    tries("mix", weights, rows=[whole(foreign)], new=[one := copied(), copied()])
    yield one
    with contextlib.suppress(CoterieError):
        lead.visit("b", {"name": "score"}, [own], replies=[foreign])
    yield foreign
    tries("keep", live=[foreign], round=1, store=1)
    tries("keep", live=[], round=1)
    tries("fetch", live=[foreign], round=1, fresh=True)
    yield foreign


def test_orders_that_fail_lose_no_mark(peers):
    lead = Hostile(peers)
    lead.begin()
    foreign = mixed(lead, "b", [through(lead)], [1.0])
    for id in launderings(lead, foreign):
        with pytest.raises(CoterieError):
            lead.ask("b", "give", rows=[whole(id)], new=[lead.id()], why="mix")


def test_a_site_speaks_for_itself_alone(peers):
    """c says that a's models may go to who leads; a has said otherwise."""
    lead = Hostile(peers)
    lead.begin()
    lead.visit("b", {"name": "sgd"}, [through(lead)])
    made = lead.replies[0]
    said = {"bonds": {"a": {"coordinator": True, "open": True, "distances": True, "vetoes": []}}}
    peers.stations["b"].session.origins.came("c", [lead.id()], said)
    with pytest.raises(Refused, match="has one of a's in it"):
        lead.ask("b", "give", rows=[whole(made)], new=[lead.id()], why="mix")


def test_a_foreign_part_stays_foreign_over_two_peers_and_a_restart(peers):
    lead = Hostile(peers)
    lead.begin()
    at_b = through(lead)
    made = mixed(lead, "b", [at_b], [1.0])
    at_c = through(lead, "c", made)
    made = mixed(lead, "c", [at_c], [1.0])
    with pytest.raises(Refused, match="has one of a's in it"):
        lead.ask("c", "give", rows=[whole(made)], new=[lead.id()], why="mix")
    lead.ask("c", "keep", live=[made], round=1, store=1)
    peers.open("c")
    lead.begin("c", run=lead.run["c"])
    lead.ask("c", "fetch", live=[made], round=1, fresh=True)
    with pytest.raises(Refused, match="has one of a's in it"):
        lead.ask("c", "give", rows=[whole(made)], new=[lead.id()], why="mix")


def test_sites_that_give_their_models_mix_them_as_before(tmp_path):
    room = Room(tmp_path, {}, ("a", "b", "c"))
    lead = Hostile(room)
    lead.begin()
    made = mixed(lead, "b", [through(lead)], [1.0])
    lead.visit("b", {"name": "sgd"}, [made])
    found = lead.ask("b", "give", rows=[whole(lead.replies[0])], new=[7], why="mix")[1]
    assert set(found) == {"7/head.weight", "7/head.bias"}


# messages that wedge a site


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "hmc", "steps": 10_000, "leaps": 100_000},
        {"name": "hmc", "steps": 1, "leaps": 100_000},
        {"name": "sgd", "steps": 10**7, "batch": 112},
        {"name": "sgd", "epochs": 10**9},
        {"name": "fold", "passes": 10**8, "inner": {"name": "sgd"}},
        {"name": "moreau", "inner_steps": 10**8, "inner": {"name": "sgd"}},
        {"name": "ala", "passes": 10**9},
        {"name": "swag", "rank": 10**9},
        {"name": "gather", "inner": {"name": "swag", "rank": 10**8}},
        {"name": "quantiles", "columns": 10**9},
        {"name": "moments", "columns": 10**6, "classes": 10**6},
    ],
    ids=str,
)
def test_work_beyond_the_policy_is_refused_before_it_begins(tmp_path, kernel):
    room = Room(tmp_path, {}, ("a", "b"))
    lead = Hostile(room)
    lead.begin("a")
    before = time.monotonic()
    with pytest.raises(CoterieError):
        lead.visit("a", kernel, [logistic()])
    assert time.monotonic() - before < 5
    lead.visit("a", {"name": "sgd"}, [logistic()])  # and the site goes on


def test_work_ends_with_the_seconds_of_the_policy(tmp_path):
    room = Room(tmp_path, {"a": Policy(max_seconds=1.0, max_steps=10**9)}, ("a", "b"))
    lead = Hostile(room)
    lead.begin("a")
    before = time.monotonic()
    for kernel in ({"name": "sgd", "steps": 10**6}, {"name": "hmc", "steps": 10**4, "leaps": 900}):
        with pytest.raises(Refused, match="longer than the policy's 1 seconds"):
            lead.visit("a", kernel, [logistic()])
    assert time.monotonic() - before < 30
    lead.visit("a", {"name": "sgd"}, [logistic()])


def test_what_a_message_names_counts_though_it_is_small(tmp_path):
    room = Room(tmp_path, {"a": Policy(max_memory=10**8, max_visits=10**9)}, ("a", "b"))
    lead = Hostile(room)
    lead.begin("a")
    lead.visit("a", {"name": "sgd"}, [logistic()])
    mine = lead.replies[0]
    many = 10**5
    with pytest.raises(Refused, match="bytes of models, above the policy's 100000000"):
        lead.ask("a", "copy", rows=[whole(mine)] * many, new=list(range(many)))
    with pytest.raises(Refused, match="above the policy's 100000000"):
        lead.visit("a", {"name": "score"}, [mine] * many)
    for i in range(24):  # much, bit by bit
        lead.ask("a", "take", {f"{10**6 + i}/w": torch.zeros(10**6)}, copies=False)
    with pytest.raises(Refused, match="bytes of models, above"):
        lead.ask("a", "take", {"999/w": torch.zeros(10**6)}, copies=False)


@pytest.mark.parametrize("who", ["lead", "site", "person"])
def test_work_is_cancelled(tmp_path, who):
    room = Room(tmp_path, {"a": Policy(max_steps=10**9)}, ("a", "b"))
    lead, said = Hostile(room), []
    lead.begin("a")

    def work():
        try:
            lead.visit("a", {"name": "hmc", "steps": 10**5, "leaps": 99}, [logistic()])
        except CoterieError as error:
            said.append(str(error))

    at_work = threading.Thread(target=work)
    at_work.start()
    time.sleep(1.0)
    assert at_work.is_alive()
    if who == "lead":
        lead.ask("a", "cancel")
    elif who == "site":
        room.stations["a"].cancel("ended by a person at this site")
    else:
        (room.states["a"] / CANCEL).touch()  # as coterie site cancel does, in another process
    at_work.join(20)
    assert not at_work.is_alive()
    assert said
    assert ("cancelled by lead" if who == "lead" else "ended by a person") in said[0]
    lead.visit("a", {"name": "sgd"}, [logistic()])


def test_no_bin_of_a_tally_has_few_rows(room):
    """Confidences of a chosen model are a column: a bin with one row would tell its value."""
    from coterie.kernels.calibrate import unpacked

    lead = Hostile(room)
    lead.begin("a")
    for kernel in ({"name": "tallied", "part": "train"}, {"name": "tallied", "part": "train", "least": 1}):
        found = unpacked(lead.visit("a", kernel, PROBES))
        for kind in found[:2]:
            assert ((kind.samples == 0) | (kind.samples >= 20)).all()
            assert (kind.samples.sum(dim=1) == len(lead.rows_of("a"))).all()
        reached = found.above.samples - torch.nn.functional.pad(found.above.samples[:, 1:], (0, 1))
        assert ((reached == 0) | (reached >= 20)).all()


def test_scores_do_not_say_how_many_rows_are_of_each_class(room):
    """With the accuracy, sensitivity and specificity would; the policy keeps counts, whatever is asked."""
    from coterie.kernels.calibrate import unpacked

    lead = Hostile(room)
    lead.begin("a")
    for asked in ({}, {"label_counts": True}):
        found = lead.visit("a", {"name": "calibrate", "part": "train", **asked}, PROBES)
        assert not torch.isnan(found["accuracy"]).any()
        for name in ("sensitivity", "specificity", "net_benefit"):
            assert torch.isnan(found[name]).all()
        told = unpacked(lead.visit("a", {"name": "tallied", "part": "train", **asked}, PROBES))
        assert torch.isnan(told.positive.samples).all()
        assert told.positive.samples.shape[1] == 101
