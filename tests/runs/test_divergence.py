"""A model that is far worse than saying nothing is no result: not written, not served, not reported.

By hand, on the clients of `conftest.py`, with lr 1 and one step: client a goes from w = 0 to 10, where its
squared error is (8² + 16²) / 2 = 160 and the variance of its targets 1; b goes to 2, error 1, variance 1.
"""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import coterie
from coterie.cli.main import main
from coterie.core.client import Client, Samples
from coterie.core.errors import BadRun, Diverged
from coterie.core.roster import Member, Roster
from coterie.kernels import SGD
from coterie.metrics.own import NOTHING
from coterie.runs.compare import diverged_in, read_records
from coterie.runs.folder import read_models, read_record
from coterie.runs.loop import run
from coterie.runs.scoring import FAR, Sight, got_worse, spread, variances


def test_variances_of_the_targets_by_hand():
    """R² = 1 - error / variance: errors of 9 and 4 with R² of -1.25 and -1 are variances of 4 and 2."""
    assert variances(np.array([3.0, 2.0]), np.array([-1.25, -1.0])).tolist() == [4, 2]


def test_the_variance_between_clients_by_hand():
    """Variances of 1 within, levels of 0, 0 and 30, whose variance is 200: 0² + 1 and 30² + 1 say 0."""
    assert spread(np.ones(3), np.array([1.0, 1.0, 901.0])) == pytest.approx(1 + 200)


def sight(task, outputs, figures):
    members = (Member("a", 100, 0, 7), Member("b", 50, 0, 7))
    experiment = SimpleNamespace(roster=Roster(members, task, (1,), outputs), own=NOTHING)
    return Sight(experiment, figures, {}, "train")


@pytest.mark.parametrize(
    ("task", "outputs", "figures", "times"),
    [
        ("classification", 2, {"nll": [np.log(2), None]}, [1, np.nan]),
        ("classification", 10, {"nll": [20 * np.log(10), 0.0]}, [20, 0]),
        ("survival", 1, {"loss": [np.log(100), 3 * np.log(50)]}, [1, 3]),
        ("regression", 1, {"rmse": [3.0, None], "r2": [-8.0, None]}, [9, np.nan]),
    ],
)
def test_times_the_loss_of_knowing_nothing(task, outputs, figures, times):
    found = sight(task, outputs, figures)
    np.testing.assert_allclose(found.losses / found.within, times)


def test_local_work_that_gets_worse():
    told = np.array([[9.0, 9.0, np.nan], [4.0, 4.0, np.nan], [5.9, 6.1, np.nan]])
    unknown = np.full(3, np.nan)
    assert got_worse(told, unknown).tolist() == [False, True, False]
    assert got_worse(told, np.array([3.0, 9.0, 1.0])).tolist() == [True, True, False]


def test_a_client_whose_model_ran_away_ends_the_run_and_no_model_is_written(tiny, run_in, tmp_path):
    said = (
        r"round 1: the model of 'a' has a loss 160 times that of always saying the mean of the targets: lower"
    )
    with pytest.raises(Diverged, match=said):
        run_in(tmp_path / "run", tiny("local", local=SGD(lr=1.0), rounds=1), error=KeyError)
    assert not (tmp_path / "run" / "models.safetensors").exists()
    assert "has a loss 160 times" in read_record(tmp_path / "run").diverged()
    for read in (read_models, read_records):
        with pytest.raises(BadRun, match="has no result, as training diverged"):
            read(tmp_path / "run")
    with pytest.raises(Diverged, match="160 times"):  # it does not become one by going on
        run_in(tmp_path / "run", tiny("local", local=SGD(lr=1.0), rounds=1), error=KeyError)


def test_who_starts_far_from_the_targets_and_is_slow_has_not_diverged(tiny, two_clients):
    """Targets of 3002 and 3004, from weight 0: 9,000,000 times their variance, before and after."""
    far = [
        Client(c.name, *(Samples(s.x, s.y + 3000) for s in (c.train, c.test, c.validation)))
        for c in two_clients()
    ]
    outcome = run(tiny("local", clients=far, local=SGD(lr=1e-6), rounds=1), None, "x")
    assert outcome.record.final("r2")[0] < -1e6


def test_what_was_learned_by_heart_has_not_diverged():
    """Labels are drawn: test rows are as far off as those of a model that diverged, training rows are not."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 20)), rng.integers(0, 2, 60)
    client = coterie.Client.from_arrays(X, y, name="a")
    result = coterie.train("mlp", [client], "local", kernel="adam", lr=0.1, rounds=60)
    assert result.record.final("nll")[0] / np.log(2) > FAR


def test_a_sum_that_does_not_suit_a_client_has_not_diverged():
    """Batch norms of sites that measure on other scales, averaged: work goes well, the sum is of no use."""
    rng = np.random.default_rng(0)
    clients = []
    for name, offset in (("north", 0), ("south", 300)):
        X = rng.normal(size=(100, 4))
        clients.append(
            coterie.Client.from_arrays(20 * X + offset, (X.sum(axis=1) > 0).astype(int), name=name)
        )
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    result = coterie.train(model, clients, "fedavg", rounds=10)
    assert max(result.record.final("nll")) / np.log(2) > FAR


def test_where_clients_lie_on_purpose_models_may_come_to_nothing():
    rng = np.random.default_rng(0)
    clients = [
        coterie.Client.from_arrays(x := rng.normal(size=(30, 3)), x.sum(1) + rng.normal(size=30), name=n)
        for n in "abcd"
    ]
    options = {"rounds": 30, "lr": 0.05}
    lies = "liars:kind=sign-flip,fraction=0.5,strength=10"
    spoilt = coterie.train("linear", clients, "fedavg", wrap=[lies], **options)
    assert min(v for v in spoilt.record.final("r2") if np.isfinite(v)) < -FAR
    coterie.train("linear", clients, "fedavg", **options)


GRAMS = ["--model", "linear", "--rounds", "8", "--sgd.lr", "0.15"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Birth weights in grams, and twelve columns that go together, so that usual steps overshoot."""
    home = tmp_path_factory.mktemp("grams")
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        base = rng.normal(size=60)
        columns = {f"x{i}": (base + 0.3 * rng.normal(size=60)).round(3) for i in range(12)}
        grams = (3300 + 150 * base + rng.normal(0, 400, 60)).round()
        pd.DataFrame({**columns, "grams": grams}).to_csv(home / f"{name}.csv", index=False)
    files = [str(home / f"{name}.csv") for name in ("north", "south")]
    assert main(["table", "inspect", *files, "--target", "grams", "--out", str(home / "r.toml")]) == 0
    return home / "r.toml"


@pytest.mark.parametrize("method", ["local", "fedavg"])
def test_the_shell_leaves_with_2_and_nothing_says_a_figure(recipe, tmp_path, capsys, method):
    out = tmp_path / "run"
    assert main(["run", "--recipe", str(recipe), *GRAMS, "--method", method, "--out", str(out)]) == 2
    assert (
        "times that of always saying the mean of the targets: lower the learning rate"
        in capsys.readouterr().err
    )
    assert not (out / "report.html").exists()
    assert not (out / "models.safetensors").exists()
    rows = str(recipe.parent / "north.csv")
    for words in (["report", out], ["predict", out, rows, "--client", "north"], ["resume", out]):
        assert main([str(word) for word in words]) == 2
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_comparison_goes_on_with_the_other_methods_and_names_what_diverged(recipe, tmp_path, capsys, jobs):
    """The method has no mean either: it would be that of the seeds in which it went well."""
    out = tmp_path / "both"
    words = [
        "compare",
        "--recipe",
        str(recipe),
        *GRAMS[:4],
        "--seeds",
        "2",
        "--jobs",
        jobs,
        "--out",
        str(out),
    ]
    assert main([*words, "--methods", "fedavg:sgd.lr=0.15", "local:sgd.lr=0.01"]) == 2
    shown = capsys.readouterr()
    assert "fedavg" not in shown.out
    assert "fedavg:sgd.lr=0.15 has no result, as it diverged in seed 0: round 8" in shown.err
    assert "has no result, as it diverged in seed 1" in (out / "report.html").read_text()
    assert [r.label for r in read_records(out)] == ["nothing"] * 2 + ["local:sgd.lr=0.01"] * 2
    assert len(diverged_in(out)) == 2
    events = (out / "fedavg-sgd.lr-0.15" / "seed-0" / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["what"] == "diverged"
    assert main(["report", str(out)]) == 0
    assert "fedavg" not in capsys.readouterr().out
    for place in out.glob("local*"):
        shutil.rmtree(place)
    assert main(["report", str(out)]) == 2
    assert "has no result, as training diverged" in capsys.readouterr().err


def test_an_estimator_without_test_rows_is_judged_by_its_training_rows():
    rng = np.random.default_rng(0)
    base = rng.normal(size=90)
    X = np.stack([base + 0.3 * rng.normal(size=90) for _ in range(12)], axis=1)
    y, sites = 3300 + 150 * base, np.repeat(["a", "b", "c"], 30)
    with pytest.raises(Diverged, match="times that of always saying the mean of the targets"):
        coterie.CoterieRegressor(rounds=8, options={"lr": 0.3}).fit(X, y, groups=sites)
    fine = coterie.CoterieRegressor(rounds=8, options={"lr": 0.01}).fit(X, y, groups=sites)
    assert np.abs(fine.predict(X, groups=sites)).max() < 1e4


def test_noise_is_judged_by_test_rows_alone():
    """Local work that has a bound on what it tells of training rows is not asked about them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    clients = [coterie.Client.from_arrays(X, rng.integers(0, 2, 60), name=n) for n in "ab"]
    with pytest.raises(Diverged, match="giving every class the same probability"):
        coterie.train("logistic", clients, "fedavg", kernel="dp(sgd)", rounds=5, lr=1000.0, sigma=1.0)


def numbers(levels, scale=1.0, rows=60, spread=1.0):
    """Clients whose targets are one slope and a level of their own."""
    rng, clients = np.random.default_rng(0), []
    for i, level in enumerate(levels):
        x = rng.normal(size=(rows, 4))
        y = level + spread * (x.sum(axis=1) / 2 + 0.3 * rng.normal(size=rows))
        clients.append(coterie.Client.from_arrays(scale * x, y, name=f"c{i}"))
    return clients


@pytest.mark.parametrize("method", ["fedavg", "central", "scaffold"])
def test_one_model_for_clients_of_other_levels_is_unsuited_and_has_not_diverged(method):
    """The best sum is 30 to 500 times the variance within a client: that is a result."""
    result = coterie.train("linear", numbers([0, 0, 0, 0, 30]), method, kernel="sgd", rounds=12)
    assert min(result.record.final("r2")) < -FAR


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fedadam", {"server_lr": 1000.0}),
        ("scaffold", {"server_step": 1000.0}),
        ("fedavgm", {"server_lr": 1e3}),
    ],
)
def test_a_server_that_blows_up_in_the_only_round(method, options):
    with pytest.raises(Diverged):
        coterie.train("linear", numbers([0, 0, 0]), method, kernel="sgd", rounds=1, **options)


def test_a_client_of_a_smaller_unit_is_not_hidden_by_the_others():
    (small,), others = numbers([3.4], scale=5.0, spread=0.5), numbers([34000] * 3, spread=5000.0)[1:]
    with pytest.raises(Diverged, match="model of 'c0'"):
        coterie.train("linear", [small, *others], "local", kernel="sgd", rounds=2)


def test_targets_that_are_all_the_same_are_held_against_the_first_model():
    X = np.random.default_rng(0).normal(size=(60, 4)) * 5
    same = [coterie.Client.from_arrays(X, np.full(60, 3400.0), name=n, task="regression") for n in "ab"]
    with pytest.raises(Diverged):
        coterie.train("linear", same, "local", kernel="sgd", rounds=6)


def test_classes_by_inputs_far_from_0_are_no_slow_start():
    """The first model is as far off as the last: it was never any good."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) * [1, 1, 50_000] + [0, 0, 250_000]
    with pytest.warns(coterie.CoterieWarning, match="reaches"):
        clients = [coterie.Client.from_arrays(X, rng.integers(0, 2, 80), name=n) for n in "ab"]
    with pytest.raises(Diverged):
        coterie.train("logistic", clients, "local", kernel="adam", lr=0.01, rounds=5)


def test_a_loss_of_ones_own_is_held_against_itself():
    """Counts that are mostly 0, by a logarithmic link: outputs of -3 are far from counts, and right."""

    def poisson(outputs, y):
        return outputs.squeeze(-1).exp() - y * outputs.squeeze(-1)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = rng.poisson(0.05, 200).astype(float)
    clients = [coterie.Client.from_arrays(X, y, name=n, task="regression") for n in "ab"]
    coterie.train("linear", clients, "fedavg", rounds=20, loss=poisson)


def test_noise_and_a_loss_that_is_no_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    clients = [coterie.Client.from_arrays(X, rng.integers(0, 2, 60), name=n) for n in "ab"]
    with pytest.raises(Diverged):
        coterie.train("mlp", clients, "fedavg", kernel="dp(sgd)", rounds=3, lr=1e30)


def test_a_ranking_whose_local_work_ran_away_is_none(recipe, tmp_path, capsys):
    words = [
        "rank",
        "--recipe",
        str(recipe),
        "--model",
        "linear",
        "--sgd.lr",
        "1",
        "--out",
        str(tmp_path / "rk"),
    ]
    assert main(words) == 2
    assert "lower the learning rate" in capsys.readouterr().err
    assert not (tmp_path / "rk").exists()
