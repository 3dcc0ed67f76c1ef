"""Comparisons from Python."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import coterie
from coterie.cli.main import main
from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.methods import Local
from coterie.methods.server.fedavg import FedAvg
from coterie.runs.compare import read_records


@pytest.fixture(scope="module")
def compared(hospitals):
    torch.manual_seed(0)
    methods = ("local", "fedavg", "finetune:tune=1")
    return coterie.compare(nn.Linear(4, 2), hospitals, methods, seeds=2, seed=7, rounds=3, lr=0.3)


def test_results_by_method_and_seed(compared):
    assert list(compared.results) == ["nothing", "local", "fedavg", "finetune:tune=1"]
    assert [(r.label, r.config["seed"]) for r in compared.records] == [
        (label, seed) for label in compared.results for seed in (7, 8)
    ]
    assert compared.results["finetune:tune=1"][0].record.config["finetune"]["tune"] == 1
    assert all(r.config["sgd"]["lr"] == 0.3 for r in compared.records if r.label != "nothing")


def test_methods_begin_alike_and_seeds_do_not(compared):
    scores = {s: [r.record.metrics[0]["scores"] for r in rs] for s, rs in compared.results.items()}
    first = {s: [one["own/test"]["loss"] for one in seeds] for s, seeds in scores.items()}
    for seed in (0, 1):
        for spec in ("fedavg", "finetune:tune=1"):
            assert first[spec][seed] == pytest.approx(first["local"][seed], rel=1e-6)
    assert first["local"][0] != pytest.approx(first["local"][1], rel=1e-3)


def test_a_cell_is_the_same_as_training_by_itself(compared, hospitals):
    alone = coterie.train(nn.Linear(4, 2), hospitals, "fedavg", seed=8, rounds=3, lr=0.3, init="common")
    assert compared.results["fedavg"][1].record.metrics == alone.record.metrics


def test_the_summary_has_a_line_for_each_method(compared):
    summary = compared.summary().set_index("method")
    assert list(summary.index) == list(compared.results)
    for label, results in compared.results.items():
        by_seed = [sum(r.record.final("accuracy")) / 3 for r in results]
        assert summary.loc[label, "accuracy"] == pytest.approx(sum(by_seed) / 2)
    assert summary["seeds"].tolist() == [2, 2, 2, 2]
    assert summary["rounds"].tolist() == [1, 3, 3, 3]


def test_a_page(compared, tmp_path):
    page = compared.report(tmp_path / "deep" / "page.html")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    for label in compared.results:
        assert label in text


def test_refusals(hospitals, refused):
    model = nn.Linear(4, 2)
    with refused(BadInput, "seeds=0 must be a whole number of at least 1: try 3"):
        coterie.compare(model, hospitals, seeds=0)
    with refused(UnknownName, "unknown method 'fedvg': did you mean fedavg?"):
        coterie.compare(model, hospitals, ["fedvg"], seeds=1, rounds=1)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"methods": []}, id="none"),
        pytest.param({"methods": ["local", "local"]}, id="twice"),
        pytest.param({"methods": ["local", "finetune:tune=9"]}, id="cannot work, found out too late"),
        pytest.param({"methods": ["fedavg:sgd.lr=0.1"], "kernel": "adam"}, id="options of other work"),
        pytest.param({"methods": ["fedavg:sgd.lr=0.1"], "kernel": coterie.SGD()}, id="work as an object"),
        pytest.param({"methods": ["fedavg"], "grid": {"tune": [1, 2]}}, id="a grid for nobody"),
    ],
)
def test_refused_before_anything_runs(hospitals, asked):
    seen = []
    with pytest.raises(BadInput):
        coterie.compare(nn.Linear(4, 2), hospitals, seeds=1, rounds=2, watch=seen.append, **asked)
    assert seen == []


@pytest.fixture(scope="module")
def kept(hospitals, tmp_path_factory):
    """A comparison in a folder: how to call it again, and where it is."""
    path = tmp_path_factory.mktemp("kept") / "here"
    torch.manual_seed(0)
    model = nn.Linear(4, 2)

    def again(**more):
        options = {"seeds": 2, "rounds": 2, "out": path, **more}
        return coterie.compare(model, hospitals, ["local", "fedavg:weighted=false"], **options)

    again()
    return again, path


def files(path):
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*.jsonl")}


def test_a_comparison_in_a_folder_is_what_coterie_report_reads(kept, capsys):
    _, path = kept
    places = {p.parent.relative_to(path).as_posix() for p in path.rglob("config.toml")}
    assert places == {f"{m}/seed-{s}" for m in ("nothing", "local", "fedavg-weighted-false") for s in (0, 1)}
    labels = [(r.label, r.config["seed"], r.finished) for r in read_records(path)]
    assert labels == [(m, s, True) for m in ("nothing", "local", "fedavg:weighted=false") for s in (0, 1)]
    assert main(["report", str(path)]) == 0
    assert f"report: {path / 'report.html'}" in capsys.readouterr().out
    assert "fedavg:weighted=false" in (path / "report.html").read_text()


def test_the_command_cannot_go_on_with_it_and_says_what_to_call(kept, capsys):
    _, path = kept
    before = files(path)
    assert main(["resume", str(path)]) == 2
    call = f"call coterie.compare again with out={str(path)!r}, resume=True"
    assert capsys.readouterr().err.strip() == f"coterie: {path} was started from Python: {call}"
    assert files(path) == before


def test_resuming_runs_what_is_left_and_nothing_else(kept, hospitals, monkeypatch):
    again, path = kept
    whole, played = files(path), []
    shutil.rmtree(path / "fedavg-weighted-false" / "seed-1")
    for method in (Local, FedAvg):
        real = method.round
        monkeypatch.setattr(
            method, "round", lambda *t, real=real: played.append((type(t[0]), t[-1].seed)) or real(*t)
        )
    compared = again(resume=True)
    assert played == [(FedAvg, 1)] * 2
    after = files(path)
    assert after.keys() == whole.keys()
    same = [p for p in whole if p.name == "metrics.jsonl" or "seed-1" not in p.parts]
    assert all(after[p] == whole[p] for p in same)
    assert compared.summary()["seeds"].tolist() == [2, 2, 2]


def test_a_comparison_of_before_nothing_was_beside_all_goes_on_without_it(hospitals, tmp_path):
    """Its compare.toml does not name it, and nothing else is to differ."""
    model, path = nn.Linear(4, 2), tmp_path / "old"
    asked = {"methods": ["local", "fedavg"], "seeds": 1, "rounds": 1, "out": path}
    coterie.compare(model, hospitals, **asked)
    shutil.rmtree(path / "nothing")
    file = path / "compare.toml"
    file.write_text(file.read_text().replace('"nothing",', ""))
    assert list(coterie.compare(model, hospitals, resume=True, **asked).results) == ["local", "fedavg"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "is not empty: pass resume=True to go on, or choose another out"),
        ({"resume": True, "seeds": 3}, "holds something else than this comparison"),
        ({"resume": True, "lr": 0.7}, "belongs to another config, model or data"),
    ],
)
def test_another_comparison_does_not_go_on_there(kept, more, message):
    again, path = kept
    before = files(path)
    with pytest.raises(BadRun, match=message):
        again(**more)
    assert files(path) == before


def test_what_cannot_work_leaves_no_folder(hospitals, tmp_path):
    with pytest.raises(BadInput, match="keep"):
        coterie.compare(
            nn.Linear(4, 2), hospitals, ["local", "weight-erosion:requester=all,sgd.keep=true"],
            seeds=1, rounds=2, out=tmp_path / "here",
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_method_is_checked_with_its_local_work_as_train_does(hospitals):
    """A form of low rank needs two states after the first half: a round of several steps has them."""
    work = {"kernel": "swag", "every": 1, "batch": 4, "samples": 2, "rounds": 2}
    made = coterie.compare(nn.Linear(4, 2), hospitals, ["fl-swag:form=low-rank"], seeds=1, **work)
    assert made.records[0].finished
    once = {**work, "batch": 64, "form": "low-rank"}  # one step a round
    for call in (coterie.train, coterie.compare):
        method = "fl-swag" if call is coterie.train else ["fl-swag"]
        with pytest.raises(BadInput, match="would collect 1 deviations"):
            call(nn.Linear(4, 2), hospitals, method, **once)


def test_an_option_that_only_one_of_the_methods_has(hospitals):
    made = coterie.compare(nn.Linear(4, 2), hospitals, ["local", "finetune"], seeds=1, rounds=3, tune=1)
    assert made.records[2].config["finetune"]["tune"] == 1


def test_options_that_method_and_work_both_have_go_where_they_are_said_to():
    """ditto and newton both have a pull: the plain name is the method's, as in the shell."""
    rng = np.random.default_rng(0)
    clients = []
    for i in range(3):
        x = rng.normal(size=(60, 4))
        y = (x[:, 0] + x[:, i] + rng.normal(size=60) > 0).astype(int)
        clients.append(coterie.Client.from_arrays(x, y, name=f"s{i}"))
    specs = [f"ditto:pull={pull},newton.pull=2" for pull in (0.01, 10)]
    compared = coterie.compare("logistic", clients, specs, rounds=3, seeds=1, progress=False)
    loose, tight = (compared.results[spec][0].record.config for spec in specs)
    assert (loose["ditto"]["pull"], tight["ditto"]["pull"]) == (0.01, 10)
    assert loose["newton"]["pull"] == tight["newton"]["pull"] == 2
    losses = compared.frame().groupby("label")["nll"].mean()
    assert losses[specs[0]] != losses[specs[1]]
    only = coterie.train("logistic", clients, "ditto", rounds=1, pull=3.0, progress=False).record.config
    assert (only["ditto"]["pull"], only["newton"]["pull"]) == (3.0, 1.0)
