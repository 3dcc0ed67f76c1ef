"""The loop over rounds: what is written down of each, by hand."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
import torch

from coterie.core.clock import PARTS
from coterie.core.errors import Diverged
from coterie.core.held import at_coordinator, hold
from coterie.core.method import Info
from coterie.core.seeds import Key
from coterie.features.absence.wrapper import Absent
from coterie.kernels import SGD
from coterie.methods.server.fedavg import FedAvg
from coterie.nets import Counting, Wrapped
from coterie.report.tables import summary_frame
from coterie.runs.builder import prepare
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.scoring import evaluate
from coterie.runs.settings import Settings

SEED = 6
# fedavg from w = 0 with lr 0.1: a gets to 1, b to 0.2, and they have 2 and 4 samples
AVERAGE = (2 * 1 + 4 * 0.2) / 6
# then each goes on alone
TUNED = (0.5 * AVERAGE + 1, 0.8 * AVERAGE + 0.2)


def on_test(w_a: float, w_b: float) -> dict[str, list[float | None]]:
    """Scores on a's test rows (1, 2), (2, 4), (3, 7) and on b's, twice (1, 3)."""
    square = (w_a - 2) ** 2 + (2 * w_a - 4) ** 2 + (3 * w_a - 7) ** 2
    spread = (49 + 1 + 64) / 9  # of 2, 4 and 7 around 13/3
    return {
        "loss": [pytest.approx(square / 3), pytest.approx((w_b - 3) ** 2)],
        "rmse": [pytest.approx((square / 3) ** 0.5), pytest.approx(abs(w_b - 3))],
        "r2": [pytest.approx(1 - square / spread), None],
    }


def test_round_0_scores_the_first_model(tiny):
    """A server keeps it, so that it goes out for scoring alone; where all are alone, each is given one."""
    first = run(tiny(), None, "x").record.metrics[0]
    nothing = {name: [0, 0] for name in ("sent", "received", "sent_bytes", "received_bytes", "numbers")}
    assert first == {
        "round": 0,
        "scores": {"own/test": on_test(0, 0), "shared/test": on_test(0, 0)},
        "train_loss": [None, None],
        **nothing,
        "transfers": {"models": 0, "bytes": 0},
        "scoring": {"models": 2, "bytes": 8},
        "extras": {},
        "measures": {"drift": [0, 0]},
        "spent": {"steps": 0, "bytes": 0},
    }
    alone = run(tiny("local"), None, "x").record.metrics[0]
    assert (alone["received"], alone["received_bytes"]) == ([1, 1], [4, 4])
    assert alone["scoring"] == {"models": 0, "bytes": 0}


def test_a_round_by_hand(tiny):
    outcome = run(tiny(), None, "x")
    line = outcome.record.metrics[1]
    assert line["scores"]["own/test"] == on_test(AVERAGE, AVERAGE)
    assert line["train_loss"] == [10.0, 1.0]
    assert (line["sent"], line["received"], line["extras"]) == ([1, 1], [1, 1], {})
    assert (line["sent_bytes"], line["received_bytes"], line["numbers"]) == ([4, 4], [4, 4], [2, 2])
    assert outcome.record.weights[1].dtype == np.float32
    assert outcome.record.weights[1] == pytest.approx(np.array([[1 / 3, 2 / 3]] * 2))
    again = (2 * (0.5 * AVERAGE + 1) + 4 * (0.8 * AVERAGE + 0.2)) / 6
    assert outcome.models.beliefs.tensors["weight"].flatten().tolist() == pytest.approx([again])
    assert outcome.models.of.tolist() == [0, 0]


def test_own_and_shared_part_once_tuning_begins(tiny):
    outcome = run(tiny("finetune", options={"tune": 1}), None, "x")
    before, after = outcome.record.metrics[1:]
    assert before["scores"]["own/test"] == before["scores"]["shared/test"] == on_test(AVERAGE, AVERAGE)
    assert after["scores"]["shared/test"] == on_test(AVERAGE, AVERAGE)
    assert after["scores"]["own/test"] == on_test(*TUNED)
    assert (after["sent"], after["received"]) == ([0, 0], [1, 1])  # the average, to go on from
    assert outcome.record.weights[2].tolist() == [[1, 0], [0, 1]]
    own = outcome.models.beliefs.tensors["weight"][outcome.models.of].flatten().tolist()
    assert own == pytest.approx(TUNED)


def test_a_method_without_a_shared_model_has_no_shared_scores(tiny):
    record = run(tiny("local"), None, "x").record
    assert [list(m["scores"]) for m in record.metrics] == [["own/test"]] * 3
    assert record.metrics[1]["scores"]["own/test"] == on_test(1, 0.2)


def test_validation_is_scored_if_everyone_has_some(tiny, two_clients):
    clients = two_clients(validation=((1, 1), (2, 4)))
    scores = run(tiny(clients=clients), None, "x").record.metrics[0]["scores"]
    assert scores["own/validation"] == {
        "loss": [8.5] * 2,
        "rmse": [pytest.approx(8.5**0.5)] * 2,
        "r2": [pytest.approx(1 - 17 / 4.5)] * 2,
    }
    some = [clients[0], two_clients()[1]]
    assert list(run(tiny(clients=some), None, "x").record.metrics[0]["scores"]) == ["own/test", "shared/test"]


class Listening(Wrapped):
    """A net that notes the pairs it is asked to score."""

    def visit(self, kernel, beliefs, edges, key, slot="", beside=None):
        PAIRS.extend((kernel.part, *edge) for edge in edges.tolist())
        return self.net.visit(kernel, beliefs, edges, key, slot, beside)


PAIRS = []


@pytest.mark.parametrize(
    ("method", "pairs"),
    [("fedavg", [("test", 0, 0), ("test", 0, 1)]), ("local", [("test", 0, 0), ("test", 1, 1)])],
)
def test_a_pair_of_model_and_client_is_scored_once(tiny, method, pairs):
    experiment = tiny(method)
    state = experiment.method.init(hold(experiment.beliefs, at_coordinator(1)), experiment.net)
    PAIRS.clear()
    listening = replace(experiment, net=Counting(Listening(experiment.net)))
    scores = evaluate(listening, experiment.method.models(state), 0)
    assert pairs == PAIRS
    assert scores["own/test"] == on_test(0, 0)


def test_who_is_away_is_not_scored_and_keeps_its_last_figures(tiny, run_in, tmp_path):
    """Of three rounds a is away in the second and b in the third."""
    here = Absent(tiny().net, 0.4)
    present = [here.present(Key(SEED).at_round(r, 3)).tolist() for r in (1, 2, 3)]
    assert present == [[True, True], [False, True], [True, False]]
    record = run_in(tmp_path / "run", tiny("local", rounds=3, seed=SEED, wrap=["absent=0.4"])).record
    third = on_test(0.5 * 1 + 1, 0.8 * 0.2 + 0.2)  # a trained in rounds 1 and 3, b in 1 and 2
    for metric, values in record.metrics[3]["scores"]["own/test"].items():
        assert values == [third[metric][0], None]
    assert record.metrics[2]["scores"]["own/test"]["loss"][0] is None
    assert record.metrics[3]["train_loss"][1] is None
    assert record.final("loss") == third["loss"]
    assert record.away() == read_record(tmp_path / "run").away() == {"b": 2}


def test_if_everybody_is_away_nothing_is_scored(tiny):
    record = run(tiny(wrap=["absent=1"]), None, "x").record
    assert [m["round"] for m in record.evaluated()] == [0]
    assert record.final("loss") == on_test(0, 0)["loss"]
    for line in record.metrics:
        assert line["train_loss"] == [None, None]
        assert line["sent"] == line["received"] == [0, 0]
    assert not record.weights[1].any()


@pytest.mark.parametrize(("every", "scored"), [(2, [0, 2, 4, 5]), (9, [0, 5])])
def test_scoring_every_so_many_rounds_and_after_the_last(tiny, every, scored):
    record = run(tiny(rounds=5, evaluate=every), None, "x").record
    assert [m["round"] for m in record.metrics] == [0, 1, 2, 3, 4, 5]
    assert [m["round"] for m in record.evaluated()] == scored
    always = run(tiny(rounds=5), None, "x").record
    for line in record.evaluated():
        assert line == always.metrics[line["round"]]
    assert [m["train_loss"] for m in record.metrics] == [m["train_loss"] for m in always.metrics]


def test_watch_is_called_after_each_round_which_is_timed(tiny):
    seen = []
    run(tiny(rounds=3), None, "x", lambda record: seen.append((record.done, record.finished)))
    assert seen == [(0, False), (1, False), (2, False), (3, True)]
    record = run(tiny(rounds=3), None, "x").record
    assert [t["round"] for t in record.timings] == [0, 1, 2, 3]
    assert all(t["seconds"] > 0 and t["evaluate_seconds"] > 0 for t in record.timings)
    for timing in record.timings:
        parts = timing["parts"]
        assert tuple(parts) == PARTS
        assert parts["training"] + parts["tracing"] == pytest.approx(timing["seconds"])
        assert parts["scoring"] == timing["evaluate_seconds"]


@dataclass(frozen=True, eq=False)
class Chatty:
    """FedAvg that also says something, and whose loss is not finite for one client."""

    inner: object

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def round(self, state, net, key):
        state, info = self.inner.round(state, net, key)
        return state, Info(info.weights, torch.tensor([0.5, torch.nan]), {"rank": key.round})


def test_extras_and_losses_that_are_no_numbers(tiny):
    experiment = tiny()
    record = run(replace(experiment, method=Chatty(experiment.method)), None, "x").record
    assert [m["extras"] for m in record.metrics] == [{}, {"rank": 1}, {"rank": 2}]
    assert record.metrics[1]["train_loss"] == [0.5, None]
    json.dumps(record.metrics, allow_nan=False)


@dataclass(frozen=True, eq=False)
class Telling:
    """FedAvg that fills a matrix in every round and another in the first alone, and then scribbles on it."""

    inner: object
    given: list = field(default_factory=list)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def round(self, state, net, key):
        for matrix in self.given:
            matrix.fill_(99)
        state, info = self.inner.round(state, net, key)
        alpha = torch.tensor([[1, 1 / key.round], [torch.nan, 1]], dtype=torch.float64)
        self.given.append(alpha)
        first = {"distance": torch.tensor([[0, 0.1], [0.1, 0]])} if key.round == 1 else {}
        return state, replace(info, matrices={"alpha": alpha, **first})


def test_matrices_of_a_round_by_name(tiny):
    experiment = tiny(rounds=3)
    matrices = run(replace(experiment, method=Telling(experiment.method)), None, "x").record.matrices
    assert list(matrices) == ["alpha", "distance"]
    assert list(matrices["alpha"]) == [1, 2, 3]
    assert list(matrices["distance"]) == [1]
    for round, matrix in matrices["alpha"].items():
        assert matrix.dtype == np.float64
        np.testing.assert_array_equal(matrix, [[1, 1 / round], [np.nan, 1]])
    assert run(experiment, None, "x").record.matrices == {}


def test_models_are_kept_for_the_report_while_they_are_small(tiny, monkeypatch):
    outcome = run(tiny("local", rounds=1), None, "x")
    kept = outcome.record.models()
    assert {name: belief["weight"].item() for name, belief in kept.items()} == pytest.approx(
        {"a": 1.0, "b": 0.2}
    )
    monkeypatch.setattr("coterie.runs.loop.KEPT", 3)  # one weight has four bytes
    assert run(tiny(rounds=1), None, "x").record.models() == {}


@pytest.mark.parametrize("every", [1, 40])
def test_a_run_that_diverges_says_which_state_is_kept_and_keeps_it(
    tiny, run_in, tmp_path, monkeypatch, every
):
    wild = partial(tiny, local=SGD(lr=1e6), rounds=50, checkpoint=every)
    with pytest.raises(Diverged) as caught:
        run_in(tmp_path / "run", wild())
    said = str(caught.value)
    done = int(said.split(f"{tmp_path / 'run'} keeps the state after round ")[1])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert done == len(lines) - 1 > 2
    assert said.startswith(f"round {done + 1}, client '")
    with pytest.raises(Diverged, match=r"lower the learning rate or scale the inputs$"):
        run(wild(), None, "x")
    seen, play = [], FedAvg.round
    monkeypatch.setattr(FedAvg, "round", lambda *told: seen.append(told[-1].round) or play(*told))
    with pytest.raises(Diverged):
        run_in(tmp_path / "run", wild())
    assert seen == [done + 1]


QUICK = Settings(data="titanic", rounds=3, method="finetune", options={"finetune": {"tune": 1}})


def test_the_same_config_gives_the_same_bytes_and_other_timings(run_in, same_run, tmp_path):
    for name in ("one", "two"):
        run_in(tmp_path / name, prepare(QUICK, None))
    same_run(tmp_path / "one", tmp_path / "two")
    timings = [(tmp_path / n / "timings.jsonl").read_text() for n in ("one", "two")]
    assert timings[0] != timings[1]


def test_independent_beginnings_are_one_for_each_client():
    def first(init):
        experiment = prepare(replace(QUICK, method="local", init=init, options={}), None)
        return experiment.beliefs["head.weight"]

    common, own = first("common"), first("independent")
    assert (len(common), len(own)) == (1, 4)
    assert torch.equal(common[0], own[0])
    assert len({tuple(w.flatten().tolist()) for w in own}) == 4


HELD_OUT = ((1.0, 2.0), (2.0, 3.0))
ASKING = {"weight-erosion": {}, "local": {}, "ndoye": {"folds": 0}, "influence": {"folds": 0}}


@pytest.mark.parametrize("method", ASKING)
@pytest.mark.parametrize("kept", [False, True])
def test_who_did_not_ask_has_no_model_and_no_figure(tiny, two_clients, run_in, tmp_path, method, kept):
    options = {"requester": "b", **ASKING[method]}
    clients = [replace(c, cluster=0) for c in two_clients(HELD_OUT)]
    experiment = tiny(method, clients=clients, options=options)
    outcome = run_in(tmp_path / "run", experiment) if kept else run(experiment, None, "x")
    assert outcome.models.of[0] == -1
    record = read_record(tmp_path / "run") if kept else outcome.record
    assert list(record.models()) == ["b"]
    for entry in record.metrics:
        for name in ("own/test", "own/validation"):
            assert all(a is None for a, _ in entry["scores"][name].values())
            assert entry["scores"][name]["loss"][1] is not None
        assert all(a is None for a, _ in entry["measures"].values())
        assert entry["train_loss"][0] is None
    assert record.metrics[-1]["train_loss"][1] is not None
    assert math.isnan(record.final("loss")[0])
    assert record.away() == {}


def test_one_requester_s_model_is_still_scored_on_everybody_as_the_shared_one(tiny):
    outcome = run(tiny("weight-erosion", options={"requester": "b"}), None, "x")
    w = float(outcome.models.beliefs.tensors["weight"])
    scores, whole = outcome.record.metrics[-1]["scores"], on_test(w, w)
    assert scores["shared/test"] == whole
    assert scores["own/test"] == {name: [None, b] for name, (_, b) in whole.items()}


def test_the_gain_of_one_requester_is_over_local_for_the_same_client(tiny):
    runs = [
        run(tiny("local"), None, "local").record,
        run(tiny("weight-erosion", options={"requester": "b"}), None, "weight-erosion").record,
    ]
    alone, asked = (float(r.final("rmse")[1]) for r in runs)
    row = summary_frame(runs).set_index("method").loc["weight-erosion"]
    assert row["rmse"] == row["worst_rmse"] == asked
    assert row["gain"] == pytest.approx(alone - asked)
    assert row["scored"] == 1
