"""Tuning, on clients whose cross-validated figures can be worked out by hand.

Each client's training rows are all alike, (1, y): from weight 0, a round of one full batch gives

    w ← w - lr · 2 (w - y) = 2 lr y      rmse on a held-out row: |y - w| = y |1 - 2 lr|

so with a (y = 2) and b (y = 1) the mean over clients is 1.5 |1 - 2 lr| in every fold, and lr = 0.5 is best.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.client import Client, Samples
from coterie.core.errors import BadInput, BadRun
from coterie.core.seeds import Key
from coterie.features.tuning import tuning as tuner
from coterie.features.tuning.search import Axis, default_axes, read_axis, suggest
from coterie.features.tuning.tuning import Trial, Tuned, Tuning, best_of, read_tuning, tune
from coterie.methods.server.finetune import FineTune
from coterie.runs.builder import Builder
from coterie.runs.compare import comparison_from, slug
from coterie.runs.settings import Settings, from_table, read_toml
from coterie.sites.folds import deal_folds, held_out

ONE = Settings(
    data="diabetes", kernel="sgd", rounds=1, engine="loop"
)  # what the data would be is replaced by the clients above
REAL = Settings(data="breast-cancer", clients=2, rounds=2, engine="loop")
RATES = ("sgd.lr=0.05..0.6",)


def same_rows(name: str, y: float, rows: int) -> Client:
    def part(n: int, value: float) -> Samples:
        return Samples(torch.ones(n, 1), torch.full((n,), value))

    return Client(name=name, train=part(rows, y), test=part(2, 99.0), validation=part(0, y))


@pytest.fixture
def by_hand(monkeypatch, setup_on):
    """Whatever the settings, sites are the clients a and b of the head of this file."""
    sites = setup_on([same_rows("a", 2.0, 5), same_rows("b", 1.0, 4)])
    monkeypatch.setattr(Builder, "setup", lambda self, settings, check: sites)


@pytest.fixture
def counted(monkeypatch):
    """How often a fold was computed."""
    calls = []
    real = tuner.validate

    def validate(experiment, metric, watch):
        calls.append(experiment)
        return real(experiment, metric, watch)

    monkeypatch.setattr(tuner, "validate", validate)
    return calls


def error_of(lr: float) -> float:
    return 1.5 * abs(1 - 2 * lr)


def test_values_are_those_worked_out_by_hand(by_hand):
    tuned = tune(Tuning(ONE, ("local",), RATES, trials=6))
    assert tuned.metric == "rmse"
    for trial in tuned.trials:
        wanted = error_of(trial.options["sgd.lr"])
        assert trial.folds == pytest.approx([wanted] * 3, abs=1e-6)
        assert trial.value == pytest.approx(wanted, abs=1e-6)
    nearest = min(tuned.trials, key=lambda t: abs(t.options["sgd.lr"] - 0.5))
    assert tuned.best("local") == nearest


def test_averaging_and_its_options_by_hand(by_hand):
    """One model for both: w = 2 lr (n_a 2 + n_b 1) / (n_a + n_b), or 2 lr 1.5 unweighted."""
    search = ("sgd.lr=0.25|0.5", "fedavg.weighted=true|false")
    tuned = tune(Tuning(ONE, ("fedavg",), search, trials=10, folds=4))
    values = {tuple(t.options.values()): t.folds for t in tuned.trials}
    assert values[0.5, False] == pytest.approx([0.5] * 4)  # w = 1.5: off by a half at both
    assert values[0.25, False] == pytest.approx([0.75] * 4)  # w = 0.75: off by 1.25 and 0.25
    # four folds of b's 4 rows leave 3; of a's 5 rows they leave 4, once 3: w = (4·2 + 3)/7 or (3·2 + 3)/6
    assert sorted(values[0.5, True]) == pytest.approx([0.5] * 4)  # |2 - w| + |1 - w| = 1 for w between
    w = [0.5 * 11 / 7, 0.5 * 11 / 7, 0.5 * 11 / 7, 0.75]
    wanted = sorted((abs(2 - v) + abs(1 - v)) / 2 for v in w)
    assert sorted(values[0.25, True]) == pytest.approx(wanted)


def test_the_first_trial_takes_the_options_as_given(by_hand):
    given_rate = replace(ONE, options={"sgd": {"lr": 0.3}})
    tuned = tune(Tuning(given_rate, ("local",), RATES, trials=2))
    assert tuned.trials[0].options == {"sgd.lr": 0.3}
    assert tuned.best("local").value <= error_of(0.3) + 1e-6
    elsewhere = tune(Tuning(given_rate, ("local",), ("sgd.lr=0.4..0.5",), trials=1))
    assert 0.4 <= elsewhere.trials[0].options["sgd.lr"] <= 0.5


@pytest.mark.parametrize(("metric", "larger"), [("rmse", False), ("loss", False), ("accuracy", True)])
def test_which_way_is_better(metric, larger):
    trials = [Trial("m", i, {}, v, [v, v]) for i, v in enumerate((0.2, 0.9, 0.9, 0.1))]
    trials.insert(0, Trial("m", 9, {}, None, [], "failed"))
    assert best_of(trials, metric).number == (1 if larger else 3)
    assert best_of(trials[:1], metric) is None


def test_a_trial_that_diverges_has_failed_and_tuning_goes_on(by_hand):
    """In the second round the squared error is of the order of lr², and 1e60 is no float32."""
    search = ("sgd.lr=0.25|1e30",)
    tuned = tune(Tuning(replace(ONE, rounds=2), ("local", "fedavg"), search, trials=4))
    failed = [t for t in tuned.trials if t.options["sgd.lr"] == 1e30]
    assert {t.method for t in failed} == {"local", "fedavg"}
    for trial in failed:
        assert (trial.value, trial.folds) == (None, [])
        assert "lower the learning rate" in trial.error
    for spec in ("local", "fedavg"):
        assert len(tuned.of(spec)) == 4
        assert tuned.best(spec).options == {"sgd.lr": 0.25}


def test_options_that_do_not_go_together_have_failed(by_hand):
    search = ("sgd.nesterov=true|false", "sgd.momentum=0.0|0.5")
    tuned = tune(Tuning(ONE, ("local",), search, trials=12))
    for trial in tuned.trials:
        bad = trial.options == {"sgd.nesterov": True, "sgd.momentum": 0.0}
        assert (trial.error is not None) == bad
    assert any(t.error == "nesterov needs a momentum above 0: try momentum=0.9" for t in tuned.trials)


def test_options_tried_already_are_not_computed_again(by_hand, counted):
    tuned = tune(Tuning(ONE, ("local",), ("sgd.lr=0.1|0.5",), trials=6, folds=2))
    assert [t.number for t in tuned.trials] == [1, 2, 3, 4, 5, 6]
    assert len(counted) == 2 * len({t.options["sgd.lr"] for t in tuned.trials})


def test_methods_are_tuned_independently(by_hand):
    search = (*RATES, "fedavg.sample=0.1..1.0")
    both = tune(Tuning(ONE, ("local", "fedavg"), search, trials=3))
    assert tune(Tuning(ONE, ("fedavg",), search, trials=3)).of("fedavg") == both.of("fedavg")
    assert {tuple(t.options) for t in both.of("local")} == {("sgd.lr",)}
    assert {tuple(t.options) for t in both.of("fedavg")} == {("sgd.lr", "fedavg.sample")}


def test_the_same_tuning_makes_the_same_trials_and_a_seed_others(by_hand):
    tuning = Tuning(ONE, ("local",), RATES, trials=4)
    assert tune(tuning).trials == tune(tuning).trials
    other = tune(replace(tuning, settings=replace(ONE, seed=1)))
    assert [t.options for t in other.trials[1:]] != [t.options for t in tune(tuning).trials[1:]]


def poisoned(part: str):
    """Sites of which one part is nothing but NaN and the other label."""
    real = Builder.setup

    def fake(self, settings, check):
        whole, clients = real(self, settings, check), []
        for c in whole.clients:
            old = getattr(c, part)
            clients.append(replace(c, **{part: Samples(torch.full_like(old.x, torch.nan), 1 - old.y)}))
        return replace(whole, clients=tuple(clients))

    return fake


def test_test_rows_never_reach_a_trial(monkeypatch):
    tuning = Tuning(REAL, ("local", "fedavg", "central"), trials=2, folds=2, metric="loss")
    honest = tune(tuning).trials
    assert all(t.error is None for t in honest)
    for part in ("test", "train"):
        with monkeypatch.context() as changed:
            changed.setattr(Builder, "setup", poisoned(part))
            again = tune(tuning).trials
        assert again == honest if part == "test" else all(t.error is not None for t in again)


class Cut(Exception):
    """Stands for a kill."""


def cut_after(rounds: int):
    def watch(step):
        if step.done >= rounds:
            raise Cut

    return watch


def test_a_tuning_that_was_cut_off_goes_on_and_repeats_nothing(by_hand, counted, tmp_path):
    tuning = Tuning(ONE, ("local", "fedavg"), RATES, trials=4)
    whole = tune(tuning, tmp_path / "whole")
    assert len(counted) == 24
    counted.clear()
    lines = tmp_path / "here" / "trials.jsonl"
    for rounds in (4, 14):  # in the 2nd and in the 5th of 8 trials of 3 rounds each
        with pytest.raises(Cut):
            tune(tuning, tmp_path / "here", cut_after(rounds))
        assert len(lines.read_text().splitlines()) == rounds // 3
        assert not (tmp_path / "here" / "best.toml").exists()
    with lines.open("a") as file:
        file.write('{"method": "fed')  # a kill while a line was written
    resumed = tune(read_tuning(tmp_path / "here"), tmp_path / "here")
    assert resumed.trials == whole.trials
    assert len(counted) == 24 + 1 + 2  # all folds, and those of the two trials that were cut
    for name in ("trials.jsonl", "tune.toml", "best.toml", "best/local.toml", "best/fedavg.toml"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    counted.clear()
    assert tune(tuning, tmp_path / "here").trials == whole.trials
    assert counted == []


def test_another_tuning_does_not_go_on_in_this_folder(by_hand, tmp_path, refused):
    path = tmp_path / "here"
    tuning = Tuning(ONE, ("local",), RATES, trials=1)
    tune(tuning, path)
    held = f"{path} holds another tuning: go on with 'coterie resume {path}' or choose another --out"
    for other in (replace(tuning, folds=2), replace(tuning, search=("sgd.lr=0.1..0.6",))):
        with refused(BadRun, held):
            tune(other, path)
    about = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(about | {"fingerprint": "0" * 16}))
    with pytest.raises(BadRun, match="the data or the first model differ"):
        tune(tuning, path)


def test_the_watch_sees_every_round(by_hand):
    steps = []
    tuned = tune(Tuning(replace(ONE, rounds=2), ("local",), RATES, trials=2), watch=steps.append)
    done = [s.done for s in steps]
    assert sorted(done) == done
    assert set(done) == set(range(13))
    assert {s.total for s in steps} == {12}
    assert steps[-1].best == tuned.best("local")


def test_the_best_options_are_settings_to_run(by_hand, tmp_path):
    settings = replace(ONE, rounds=3, options={"finetune": {"sample": 0.5}})
    search = ("sgd.lr=0.1|0.5", "finetune.tune=1..2", "finetune.weighted=true|false")
    tuned = tune(Tuning(settings, ("local", "finetune"), search, trials=2), tmp_path / "here")
    for spec in ("local", "finetune"):
        best = tuned.best(spec).options
        read = from_table(read_toml(tmp_path / "here" / "best" / f"{spec}.toml"), "best").resolved()
        assert (read.method, read.rounds, read.data) == (spec, 3, "diabetes")
        assert {name: read.options[name.split(".")[0]][name.split(".")[1]] for name in best} == best
    assert read.options["finetune"]["sample"] == 0.5
    table = read_toml(tmp_path / "here" / "best.toml")
    assert table["methods"] == tuned.specs()
    assert (table["seeds"], table["rounds"]) == (3, 3)
    assert "method" not in table


def test_specs_carry_the_best_options():
    tuning = Tuning(ONE, ("local", "fedavg:weighted=false", "finetune"), RATES, trials=2)
    options = {"sgd.lr": 0.3, "fedavg.sample": 0.5, "finetune.tune": 2, "finetune.weighted": True}
    trials = [
        Trial("local", 1, {"sgd.lr": 1e-05}, 2.0, [2.0]),
        Trial("fedavg:weighted=false", 1, {k: options[k] for k in ("sgd.lr", "fedavg.sample")}, 2.0, [2.0]),
        Trial("finetune", 1, {k: options[k] for k in ("finetune.tune", "finetune.weighted")}, 2.0, [2.0]),
        Trial("finetune", 2, {"finetune.tune": 3, "finetune.weighted": True}, 3.0, [3.0]),
    ]
    tuned = Tuned(tuning, "rmse", {}, tuple(trials))
    assert tuned.specs() == [
        "local:sgd.lr=1e-05",
        "fedavg:weighted=false,sgd.lr=0.3,sample=0.5",
        "finetune:tune=2,weighted=true",
    ]
    assert Tuned(tuning, "rmse", {}, tuple(trials[:1])).specs() == ["local:sgd.lr=1e-05"]


def test_what_a_spec_fixes_is_not_searched():
    tuning = Tuning(ONE, ("fedavg", "fedavg:sample=0.5"), ("fedavg.sample=0.1..1.0",))
    usual = ["sgd.lr", "sgd.weight_decay", "sgd.schedule"]
    assert [a.name for a in tuning.axes("fedavg")] == [*usual, "fedavg.sample"]
    assert [a.name for a in tuning.axes("fedavg:sample=0.5")] == usual
    assert slug("fedavg:sample=0.5") == "fedavg-sample-0.5"


@pytest.mark.parametrize(("kernel", "low", "high"), [("sgd", 0.001, 3.0), ("adam", 1e-05, 0.03)])
def test_by_default_what_matters_is_searched(kernel, low, high):
    rate, decay, schedule, rounds = default_axes(kernel, 30)
    assert rate == Axis(kernel, "lr", low, high, log=True)
    assert (decay.name, schedule.values) == (f"{kernel}.weight_decay", ("constant", "cosine"))
    assert rounds == Axis("", "rounds", values=(7, 15, 30))
    assert rate.holds(0.01)  # so that the first trial is what is given
    assert decay.holds(0.0)
    tuning = Tuning(replace(ONE, kernel=kernel), ("fedavg",), ("fedavg.sample=0.5|1",))
    names = [a.name for a in tuning.axes("fedavg")]  # of a single round, no number of them is searched
    assert names == [rate.name, decay.name, schedule.name, "fedavg.sample"]


def test_what_is_solved_is_searched_by_its_pull_and_a_strength_found_at_home_by_nothing():
    solved = Tuning(replace(ONE, kernel="auto", rounds=8), ("local", "ditto", "fedavg"), trials=2, folds=2)
    assert [a.name for a in solved.axes("fedavg")] == ["newton.pull", "newton.penalty"]
    assert [a.name for a in solved.axes("ditto")] == ["newton.pull", "newton.penalty", "ditto.pull"]
    assert solved.axes("local") == []
    tuned = tune(solved)
    alone = tuned.of("local")
    assert [t.options for t in alone] == [{}, {}]
    assert alone[0].folds == alone[1].folds
    assert tuned.settings("local").kernel == "ridge"
    assert tuned.of("fedavg")[0].options == {"newton.pull": 1.0, "newton.penalty": 0.0}


def test_options_of_other_work_mean_that_work():
    assert Tuning(replace(ONE, kernel="auto"), ("fedavg",), RATES).settings.kernel == "sgd"
    assert Tuning(replace(ONE, kernel="auto"), ("fedavg",), ("newton.pull=1..2",)).settings.kernel == "auto"


def test_rounds_are_searched_and_written(by_hand, tmp_path):
    """With lr = 0.25 each round halves what is left: rmse after r rounds is 1.5 / 2^r, and 4 are best."""
    search = ("rounds=1|2|4", "sgd.lr=0.25|1e-06")
    tuned = tune(Tuning(replace(ONE, rounds=2), ("local",), search, trials=12), tmp_path / "here")
    for trial in tuned.trials:
        left = (1 - 2 * trial.options["sgd.lr"]) ** trial.options["rounds"]
        assert trial.value == pytest.approx(1.5 * left, abs=1e-5)
    assert tuned.best("local").options == {"rounds": 4, "sgd.lr": 0.25}
    assert tuned.specs() == ["local:rounds=4,sgd.lr=0.25"]
    assert read_toml(tmp_path / "here" / "best" / "local.toml")["rounds"] == 4
    again = comparison_from(read_toml(tmp_path / "here" / "best.toml"), "best")
    assert {s.rounds for _, s in again.cells()} == {4}


@pytest.mark.parametrize(
    ("entry", "axis"),
    [
        ("sgd.lr=0.01..3:log", Axis("sgd", "lr", 0.01, 3.0, log=True)),
        ("sgd.lr=1..3", Axis("sgd", "lr", 1.0, 3.0)),
        ("sgd.weight-decay=1e-5..1e-2:log", Axis("sgd", "weight_decay", 1e-5, 1e-2, log=True)),
        ("finetune.tune=1..10", Axis("finetune", "tune", 1, 10)),
        ("finetune.tune=1..10:log", Axis("finetune", "tune", 1, 10, log=True)),
        ("finetune.weighted=true|false", Axis("finetune", "weighted", values=(True, False))),
        ("sgd.schedule=constant | cosine", Axis("sgd", "schedule", values=("constant", "cosine"))),
        ("sgd.lr=0.1|1", Axis("sgd", "lr", values=(0.1, 1.0))),
    ],
)
def test_what_can_be_searched(entry, axis):
    tuning = Tuning(ONE, ("finetune",), (entry,))
    found = next(a for a in tuning.axes("finetune") if a.name == axis.name)
    assert found == axis
    assert [type(e) for e in found.ends()] == [type(e) for e in axis.ends()]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("sgd.lrr=1..2", "unknown option of search of sgd 'lrr': did you mean lr?"),
        ("adam.lr=1..2", "'adam' is not tuned here: name an option of sgd, finetune"),
        ("sgd.lr=", "needs the form table.option=low..high: try sgd.lr=0.01..1:log"),
        ("lr=1..2", "needs the form table.option=low..high"),
        ("sgd.lr=1..1", "is an empty range: 1.0 must lie below 1.0"),
        ("sgd.lr=NaN..1", "is an empty range: nan must lie below 1.0"),
        ("sgd.lr=0..1:log", "a log scale needs bounds above 0; got 0.0"),
        ("sgd.lr=1..2:ln", "unknown scale 'ln': write :log or nothing"),
        ("sgd.lr=..2", "lr must be a number; got ''"),
        ("sgd.lr=1|1", "needs at least 2 different values: give low..high or a|b|c"),
        ("finetune.tune=1.5..3", "tune must be a whole number; got 1.5"),
        ("finetune.weighted=0..1", "weighted must be true or false; got 0"),
        ("sgd.schedule=constant|cosin", "schedule, 'cosin': did you mean cosine?"),
    ],
)
def test_refused_searches(entry, message):
    with pytest.raises(BadInput) as caught:
        Tuning(ONE, ("finetune",), (entry,))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trials": 0}, "trials=0 must be at least 1: try 20"),
        ({"folds": 1}, "folds=1 must be at least 2: try 3"),
        ({"methods": ("local", "local")}, "method 'local' is named twice: name each once"),
        ({"search": ("sgd.lr=1..2", "sgd.lr=1|2")}, "search names 'sgd.lr' twice: name each option once"),
    ],
)
def test_refused_tunings(refused, more, message):
    with refused(BadInput, message):
        Tuning(**{"settings": ONE, "methods": ("local",), **more})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"search": ("sgd.lr=-1..1",)}, "search of sgd.lr: lr=-1.0 must be above 0 and finite: try 0.1"),
        (
            {"methods": ("finetune",), "search": ("finetune.tune=1..10",)},
            "search of finetune.tune: tune=10 leaves none of 3 rounds for averaging: lower it",
        ),
        (
            {"folds": 5},
            "folds=5 exceeds the 4 training row(s) of client 'b': lower it or give every client more rows",
        ),
        ({"metric": "accuracy"}, "unknown metric for this data 'accuracy': known are loss, r2, rmse"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(by_hand, tmp_path, more, message):
    tuning = Tuning(**{"settings": replace(ONE, rounds=3), "methods": ("local",), **more})
    with pytest.raises(BadInput) as caught:
        tune(tuning, tmp_path / "here")
    assert str(caught.value) == message
    assert not (tmp_path / "here").exists()


def test_options_as_given_need_not_work_if_they_are_searched(by_hand):
    """finetune's own 5 rounds of tuning do not fit into 3."""
    assert FineTune().tune == 5
    tuned = tune(Tuning(replace(ONE, rounds=3), ("finetune:sgd.lr=0.1",), ("finetune.tune=1..2",), trials=2))
    assert all(t.error is None for t in tuned.trials)


def test_without_optuna(monkeypatch, tmp_path, refused):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with refused(BadInput, "tuning needs Optuna: install it with pip install 'coterie[tune]'"):
        tune(Tuning(ONE, ("local",)), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_folds_by_hand():
    """Six rows of two labels in three folds: one of each label in each."""
    y = np.array([0, 1, 0, 1, 0, 1])
    fold = deal_folds(y, 3, Key(0).numpy())
    assert sorted(fold[y == 0]) == sorted(fold[y == 1]) == [0, 1, 2]
    c = same_rows("a", 1.0, 6)
    numbered = replace(c, train=Samples(torch.arange(6.0)[:, None], torch.from_numpy(y)))
    part = held_out(numbered, np.array([0, 1, 2, 0, 1, 2]), 1)
    assert part.test.x.flatten().tolist() == [1.0, 4.0]
    assert part.test.y.tolist() == [1, 0]
    assert part.train.x.flatten().tolist() == [0.0, 2.0, 3.0, 5.0]


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=60),
    st.integers(2, 7),
    st.integers(0, 99),
)
def test_folds_are_alike_in_size_and_labels(labels, folds, seed):
    y = np.array(labels)
    fold = deal_folds(y, folds, Key(seed).numpy())
    assert (fold == deal_folds(y, folds, Key(seed).numpy())).all()
    assert set(fold) <= set(range(folds))
    for chosen in (np.ones(len(y), dtype=bool), *(y == label for label in set(labels))):
        counts = np.bincount(fold[chosen], minlength=folds)
        assert counts.max() - counts.min() <= 1


@given(st.integers(0, 99), st.lists(st.none() | st.floats(-1, 1), max_size=14), st.booleans())
def test_suggestions_lie_within_and_depend_on_nothing_else(seed, values, larger):
    axes = [
        Axis("sgd", "lr", 0.0123456, 0.98765, log=True),
        Axis("finetune", "tune", 2, 9),
        read_axis("finetune.weighted=true|false", {"finetune": FineTune}),
    ]
    tried = []
    for i, value in enumerate(values):
        tried.append((suggest(axes, tried, Key(seed, (i,)), larger), value))
    options = suggest(axes, tried, Key(seed), larger)
    assert options == suggest(axes, tried, Key(seed), larger)
    assert all(a.holds(options[a.name]) for a in axes)
    assert [type(v) for v in options.values()] == [float, int, bool]
