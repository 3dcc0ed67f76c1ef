"""Whole runs with budgets: what their records say, after a kill too, and on sites in processes."""

from __future__ import annotations

import json

import pytest

from coterie.core.charge import Charge
from coterie.core.errors import BadInput
from coterie.features.privacy.command import foreseen
from coterie.kernels import SGD
from coterie.kernels.dp import DP
from coterie.privacy.accounting import COARSE, epsilon
from coterie.runs.builder import prepare
from coterie.runs.folder import Folder, read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings

dp = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld")
OPTIONS = {"dp": {"sigma": 4.0}, "sgd": {"batch": 20}}


def settings(wrap=("private=0.6",), method="fedavg", kernel="dp(sgd)", rounds=4, options=OPTIONS, **more):
    return Settings(
        data="breast-cancer",
        clients=3,
        method=method,
        kernel=kernel,
        rounds=rounds,
        wrap=tuple(wrap),
        options=dict(options),
        **more,
    )


def played(folder, some, watch=lambda record: None):
    """A run in a folder, which may be there already."""
    experiment = prepare(some, None)
    home = Folder(folder) if folder.exists() else Folder.create(folder, experiment.config, experiment.about)
    try:
        return run(experiment, home, some.method, watch).record
    finally:
        home.close()
        experiment.net.close()


def told(folder):
    return json.loads((folder / "privacy.json").read_text())


def rounds_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_run_that_was_cut_off_ends_with_the_same_record(tmp_path):
    played(tmp_path / "whole", settings())

    class Cut(BaseException):
        pass

    def cut(record):
        if record.done == 2:
            raise Cut

    with pytest.raises(Cut):
        played(tmp_path / "cut", settings(checkpoint=2), cut)
    played(tmp_path / "cut", settings(checkpoint=2))
    assert told(tmp_path / "cut") == told(tmp_path / "whole")
    assert rounds_of(tmp_path / "cut") == rounds_of(tmp_path / "whole")
    assert any("away" in entry for entry in rounds_of(tmp_path / "whole"))
    sites = told(tmp_path / "whole")["sites"]
    assert all(0 < site["epsilon"] <= 0.6 for site in sites)
    assert any("out" in site for site in sites)


def test_epsilon_of_the_record_is_an_accountants(tmp_path):
    record = played(tmp_path / "run", settings(wrap=(), rounds=3))
    statement = record.privacy()
    assert statement == read_record(tmp_path / "run").privacy() == told(tmp_path / "run")
    for site in statement["sites"]:
        batch, rows = 20, site["rows"]
        steps = 3 * -(-rows // batch)
        accountant = pld.PLDAccountant(value_discretization_interval=statement["grid"])
        cap = site["charges"][0]["cap"]
        step = dp.TruncatedSubsampledGaussianDpEvent(rows, batch / rows, cap, 4.0)
        accountant.compose(step, steps)
        assert site["epsilon"] == pytest.approx(accountant.get_epsilon(statement["delta"]), abs=1e-6)


@pytest.mark.slow
def test_sites_in_processes_have_the_same_record(tmp_path):
    here = played(tmp_path / "here", settings(engine="loop"))
    there = played(tmp_path / "there", settings(engine="loop", net="processes"))
    assert there.privacy() == here.privacy()
    for one, other in zip(there.metrics, here.metrics, strict=True):
        losses = [m["scores"]["own/test"]["loss"] for m in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
        assert one.get("away") == other.get("away")


@pytest.mark.usefixtures("coarsely")
@pytest.mark.parametrize("scores", ["noisy", "none"])
def test_scores_with_noise_or_none_at_all(tmp_path, scores):
    record = played(tmp_path / "run", settings([f"private:epsilon=5,scores={scores}"], rounds=2))
    statement = record.privacy()
    assert statement["scores"] == scores
    assert statement["outside"] == {"evaluation": {}, "method": {}}
    if scores == "none":
        assert all(m["scores"] is None for m in record.metrics)
    else:
        assert set(record.metrics[-1]["scores"]["own/test"]) == {"loss", "accuracy"}
        charges = [c for c in statement["sites"][0]["charges"] if c["sigma"] == 20.0]
        assert sum(c["times"] for c in charges) == 2 * 3  # two figures, before and after each round
    assert not [name for name in ("calibration.npz", "outcomes.npz") if (tmp_path / "run" / name).exists()]


@pytest.mark.usefixtures("coarsely")
@pytest.mark.parametrize(
    "method", ["pens", "ndoye", "greedy", "weight-erosion", pytest.param("dac", marks=pytest.mark.slow)]
)
def test_scores_that_methods_ask_for_are_charged(method):
    folds = {method: {"folds": 2, "passes": 1}} if method == "ndoye" else {}
    some = settings(["private:epsilon=100"], method, rounds=2, options={**OPTIONS, **folds})
    statement = run(prepare(some, None), None, method).record.privacy()
    assert statement["outside"]["method"] == {}
    noisy = [c for site in statement["sites"] for c in site["charges"] if c["sigma"] == 20.0]
    assert bool(noisy) == (method != "weight-erosion")
    assert all(c["for"] == "coordinator" for c in noisy)


def test_choices_of_peers_get_noise_too():
    options = {**OPTIONS, "pens": {"tell": "choices"}}
    experiment = prepare(settings(["private:epsilon=100"], "pens", rounds=2, options=options), None)
    record = run(experiment, None, "pens").record
    assert "chosen" in record.matrices
    assert "loss" not in record.matrices
    assert any(c["sigma"] == 20.0 for c in record.privacy()["sites"][0]["charges"])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"kernel": "sgd", "options": {}}, 'sgd gives no bound: take --kernel "dp(sgd)"'),
        ({"method": "central"}, "a method that moves rows has no bound"),
        (
            {"wrap": ["private:scores=none"], "method": "pens"},
            "the method asks for scores (loss), and scores=none",
        ),
        ({"wrap": ["private:delta=0.5"]}, "delta=0.5 is above 1/n"),
        ({"wrap": ["private=0.01"]}, "one visit costs epsilon"),
        (
            {"method": "influence", "options": {**OPTIONS, "influence": {"estimate": "first-order"}}},
            "slopes(",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:20],
)
def test_what_cannot_keep_a_budget_is_refused_before_anything_is_trained(tmp_path, change, line):
    with pytest.raises(BadInput) as caught:
        played(tmp_path / "run", settings(**change))
    assert line in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_noise_nothing_is_said_of_epsilon(tmp_path):
    record = played(tmp_path / "run", settings((), kernel="sgd", rounds=1, options={}))
    assert record.privacy() is None
    assert not (tmp_path / "run" / "privacy.json").exists()


@pytest.mark.usefixtures("coarsely")
@pytest.mark.parametrize(
    "method", ["fedavg", "pens", "weight-erosion", pytest.param("finetune", marks=pytest.mark.slow)]
)
def test_what_is_foreseen_is_what_is_spent(method):
    """Plans pass over training; who visits whom is the same, but for who is picked by scores."""
    options = {**OPTIONS, **({"finetune": {"tune": 1}} if method == "finetune" else {})}
    experiment = prepare(settings((), method, rounds=3, options=options), None)
    before = foreseen(experiment)
    run(experiment, None, method)
    after = experiment.net.net.book.ledger
    assert {i: a.spent for i, a in before.accounts.items()} == {i: a.spent for i, a in after.accounts.items()}


@pytest.mark.usefixtures("coarsely")
def test_a_visit_of_dp_is_what_the_ledger_has():
    experiment = prepare(settings((), rounds=2), None)
    run(experiment, None, "fedavg")
    rows = int(experiment.roster.sizes[0])
    (one,) = DP(SGD(batch=20), sigma=4.0).charges(rows)
    spent = experiment.net.statement()["sites"][0]
    wanted = epsilon([Charge(one.sigma, one.rate, one.cap, one.rows, 2 * one.times)], 1e-5, COARSE)
    assert spent["epsilon"] == pytest.approx(wanted, abs=0.01)
