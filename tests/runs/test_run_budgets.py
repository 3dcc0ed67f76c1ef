"""Budgets: what is spent by hand, when a run ends, and that a run cut off spends the same."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace

import numpy as np
import pytest

import coterie
from coterie.core.errors import BadInput
from coterie.core.kernel import gradient_steps
from coterie.core.method import UNTRAINED
from coterie.features.budgets import hook
from coterie.kernels import HMC, SGD, SWAG, Calibrate, Fold
from coterie.methods import METHODS
from coterie.runs.budget import read_budget, specs_of
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison
from coterie.runs.folder import read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings, digest, from_table, recorded

ONE = SGD(lr=0.01, batch=1)
EACH = 2 + 4 + 3  # steps of a round: clients a, b and c have so many rows, in batches of 1
SENT = 3 * (4 + 4) + 3 * 2 * 8  # bytes of a round of fedavg: a weight there and back, loss and samples


@pytest.fixture
def three(two_clients):
    a, b = two_clients()
    rows = a.train.x.new_tensor([[1.0], [2.0], [3.0]])
    c = replace(b, name="c", train=type(b.train)(rows, rows[:, 0].clone()))
    return [a, b, c]


@pytest.fixture
def played(tiny, three):
    """A record of a method on a, b and c."""

    def make(method="fedavg", local=ONE, **settings):
        return run(tiny(method, clients=three, local=local, **settings), None, method).record

    return make


def steps(record) -> list[int]:
    return [m["spent"]["steps"] for m in record.metrics]


def passed(record) -> list[int]:
    return [m["spent"]["bytes"] for m in record.metrics]


@pytest.mark.parametrize(
    ("kernel", "rows", "expected"),
    [
        (SGD(batch=32), 100, 4),  # 32, 32, 32 and 4
        (SGD(batch=32, epochs=3), 10, 3),
        (SGD(batch=32, steps=7), 100, 7),
        (Fold(SGD(batch=4), folds=5, fold=0, passes=3), 20, 12),  # 16 rows are left: 4 batches, 3 times
        (HMC(steps=2, leaps=10), 9, 22),  # where a step begins, and after each leap
        (Calibrate("test"), 100, 0),
        (SGD(), 0, 0),
    ],
)
def test_steps_of_a_visit(kernel, rows, expected):
    assert gradient_steps(kernel, rows) == expected


def test_steps_and_bytes_of_a_round_by_hand(played):
    fedavg = played(rounds=3)
    assert (steps(fedavg), passed(fedavg)) == ([0, EACH, EACH, EACH], [0, SENT, SENT, SENT])
    assert fedavg.spent()["steps"].tolist() == [0, 9, 18, 27]
    alone = played("local")  # each is given its first model, and tells two numbers a round
    assert (steps(alone), passed(alone)) == ([0, EACH, EACH], [12, 48, 48])
    central = played("central")  # rows of one input and a target move once; one pool of 9 rows
    assert (steps(central), passed(central)) == ([0, 9, 9], [0, 9 * 8, 0])


def test_every_visit_of_a_round_counts(played):
    """Of those who take part. ndoye trains each on all of its rows and then without each half of them, before
    anybody trains in a circle; a circle's visits are those of its members.
    """
    ndoye = played("ndoye", options={"folds": 2, "passes": 1})
    circles = (ndoye.weights[2] > 0) @ np.array([2, 4, 3])
    assert steps(ndoye) == [0, EACH + EACH, circles.sum()]
    sampled = played(options={"sample": 0.34}, rounds=4)
    assert {*steps(sampled)[1:]} <= {2, 3, 4}
    away = played(wrap=["absent=0.5"], rounds=6)
    assert {*steps(away)[1:]} <= {0, 2, 3, 4, 5, 6, 7, 9}
    assert min(steps(away)[1:]) < EACH


@pytest.mark.parametrize(
    ("given", "done", "ended"),
    [
        (["steps=27"], 3, "steps"),  # reached exactly: no further round begins
        (["steps=28"], 4, "steps"),  # a round is not cut
        (["steps=1"], 1, "steps"),  # the first round always runs
        ([f"bytes={2 * SENT}"], 2, "bytes"),
        (["steps=1000", f"bytes={SENT + 1}"], 2, "bytes"),  # the first that is reached
        (["seconds=1e-9"], 1, "seconds"),
        (["kwh=1e-15"], 1, "kwh"),
        (["steps=45"], 5, ""),  # the last round ends it anyway
        (["steps=1000"], 5, ""),
    ],
)
def test_a_run_ends_after_the_round_that_reaches_its_budget(played, given, done, ended):
    record = played(rounds=5, budget=given, evaluate=5)
    assert (record.done, record.ended, record.finished) == (done, ended, True)
    assert [m["round"] for m in record.evaluated()] == [0, done]  # the last is scored


def test_rounds_before_the_end_are_those_without_a_budget(played):
    free, cut = played(rounds=5), played(rounds=5, budget=["steps=27"])
    assert [m["scores"] for m in free.metrics[:4]] == [m["scores"] for m in cut.metrics]


@pytest.mark.parametrize("checkpoint", [1, 2])
def test_a_run_that_was_cut_off_spends_the_same(tiny, three, run_in, same_run, tmp_path, checkpoint):
    settings = {"clients": three, "local": ONE, "rounds": 6, "budget": ["steps=36"], "checkpoint": checkpoint}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_in(whole, tiny(**settings))
    assert run_in(parts, tiny(**settings), cut=3) is None
    again = run_in(parts, tiny(**settings))
    same_run(parts, whole)
    assert (again.record.done, again.record.ended) == (4, "steps")
    assert read_record(parts).finished
    assert run_in(parts, tiny(**settings)).record.done == 4  # nothing is left to do
    same_run(parts, whole)


def test_a_resumed_run_adds_up_its_seconds(tiny, three, run_in, tmp_path):
    settings = {"clients": three, "local": ONE, "rounds": 4}
    run_in(tmp_path / "run", tiny(**settings), cut=2)
    spent = run_in(tmp_path / "run", tiny(**settings)).record.spent()
    record = read_record(tmp_path / "run")
    assert [t["round"] for t in record.timings] == [0, 1, 2, 3, 4]
    assert spent["seconds"][-1] == pytest.approx(sum(t["seconds"] for t in record.timings))
    watts, cpu = 12, sum(t["cpu_seconds"] for t in record.timings)
    assert spent["kwh"][-1] == pytest.approx(cpu * watts / 3.6e6)


@pytest.mark.parametrize(
    ("method", "given", "options", "rounds"),
    [
        ("finetune", ["steps=45"], {"tune": 2}, 5),
        ("finetune", [f"bytes={4 * SENT}"], {"tune": 2}, 5),  # 3 rounds of 72, then 12 + 48: the 5th begins
        ("one-shot-fedavg", ["steps=28"], {}, 4),
        ("pens", ["steps=54"], {"sampled": 1}, 6),
        ("bayes-central", ["steps=40"], {"samples": 2}, 5),
    ],
)
def test_who_must_know_the_number_of_rounds_is_planned_for_it(tiny, three, method, given, options, rounds):
    local = SWAG(lr=0.01, batch=1) if method == "bayes-central" else ONE
    clients = [replace(c, validation=c.train) for c in three]
    made = tiny(method, clients=clients, local=local, options=options, rounds=20, budget=given)
    assert made.rounds == rounds
    record = run(made, None, method).record
    assert (record.done, record.finished, record.ended) == (rounds, True, "")
    kind, most = next(iter(read_budget(given).items()))
    assert record.spent()[kind][-2] < most
    assert any(f"planned for {rounds} of 20 rounds" in note for note in made.about["notes"])


@pytest.mark.parametrize(
    ("method", "given", "options", "said"),
    [
        ("finetune", ["seconds=3"], {"tune": 2}, "nobody can say beforehand after which round seconds=3 is"),
        ("pens", ["kwh=3"], {}, "picks in the first half of its rounds"),
        ("finetune", ["steps=9"], {"tune": 2}, "steps=9 affords 1 of 20 rounds of finetune: tune=2 leaves"),
        ("advised", ["steps=9"], {"candidates": ("fedavg",), "folds": 2}, "which no budget counts"),
    ],
)
def test_what_cannot_be_planned_is_refused(tiny, three, method, given, options, said):
    clients = [replace(c, validation=c.train) for c in three]
    with pytest.raises(BadInput, match=said):
        tiny(method, clients=clients, local=ONE, options=options, rounds=20, budget=given)


def test_pens_with_a_length_of_step_1_needs_no_plan(tiny, three):
    clients = [replace(c, validation=c.train) for c in three]
    made = tiny(
        "pens", clients=clients, options={"rounds_step1": 2, "sampled": 1}, rounds=9, budget=["seconds=3"]
    )
    assert made.rounds == 9


def test_every_method_that_reads_the_number_of_rounds_says_so():
    """In its own file; `similar` only looks whether its first round is the last, `cfl` whether it parts."""
    for name, cls in METHODS.items():
        if "key.rounds" in inspect.getsource(sys.modules[cls.__module__]) and name not in ("similar", "cfl"):
            assert hasattr(cls, "paced"), f"{name} reads key.rounds: say in `paced` what it does otherwise"


def test_a_budget_that_a_ranking_spends_alone_is_told(played):
    record = played("ndoye", options={"folds": 2, "passes": 1}, budget=["steps=5"], rounds=4)
    assert (record.done, record.ended) == (1, "steps")
    assert record.metrics[-1]["extras"]["note"] == UNTRAINED


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (("steps",), "budget 'steps' needs the form kind=amount: try steps=20000"),
        (("mice=3",), "unknown budget 'mice'"),
        (("steps=0",), "budget steps='0' must be a whole number above 0: try steps=20000"),
        (("steps=1.5",), "budget steps='1.5' must be a whole number above 0: try steps=20000"),
        (("bytes=nan",), "budget bytes='nan' must be a whole number above 0: try bytes=50M"),
        (("seconds=-1",), "budget seconds='-1' must be a number above 0: try seconds=60"),
        (("kwh=1e400",), "budget kwh='1e400' must be a number above 0: try kwh=0.001"),
        (("steps=1", "steps=2"), "budget steps is given twice: give it once"),
    ],
)
def test_bad_budgets_are_refused(specs, said):
    with pytest.raises(BadInput) as caught:
        Settings(budget=specs)
    assert said in str(caught.value)


def test_budgets_are_read():
    assert read_budget(("steps=2k", "bytes=1.5M", "seconds=.5", "kwh=1e-3")) == {
        "steps": 2000,
        "bytes": 1_500_000,
        "seconds": 0.5,
        "kwh": 0.001,
    }
    assert read_budget(specs_of({"steps": 10**15 + 1, "kwh": 1e-3})) == {
        "steps": 10**15 + 1,
        "kwh": 0.001,
    }


def test_settings_without_a_budget_are_what_they_were():
    assert {"budget", "power"}.isdisjoint(Settings().table())
    given = Settings(budget=("steps=5",), power=7.5)
    assert from_table(given.table(), "there") == given
    assert digest(given.table()) != digest(Settings().table())


def test_kwh_are_refused_where_others_train():
    for config in ({"net": "processes"}, {"device": "cuda"}):
        with pytest.raises(BadInput, match="only CPU seconds of this process are counted"):
            hook.check_budget(recorded({"budget": ["kwh=1"], **config}))


def test_a_comparison_is_refused_before_its_first_run():
    asked = Comparison(Settings(data="digits", budget=("seconds=3",)), ("local", "finetune"), 1)
    with pytest.raises(BadInput, match="finetune fine-tunes in its last rounds"):
        asked.check(Builder())


def test_budgets_from_python(tmp_path):
    rng = np.random.default_rng(0)
    clients = [
        coterie.Client.from_arrays(x := rng.normal(size=(20, 3)), (x[:, 0] > 0).astype(int), name=n)
        for n in "abc"
    ]
    steps = 3 * 2  # 14 training rows each, in batches of 8
    settings = {"rounds": 9, "lr": 0.1, "batch": 8, "budget": {"steps": 3 * steps}}
    result = coterie.train("logistic", clients, "fedavg", **settings)
    assert (result.record.done, result.record.ended) == (3, "steps")
    study = coterie.compare(
        "logistic", clients, ["local", "finetune:tune=1"], seeds=2, out=tmp_path / "s", **settings
    )
    assert study.summary()["steps"].tolist() == [0, 3 * steps, 3 * steps]
    with pytest.raises(BadInput, match="finetune"):
        coterie.compare(
            "logistic", clients, ["local", "finetune"], out=tmp_path / "t", **settings | {"budget": ["kwh=1"]}
        )
    assert not (tmp_path / "t").exists()
    with pytest.raises(BadInput, match="budget"):
        coterie.train("logistic", clients, budget=3)
