"""Comparisons from Python."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import coterie
from coterie.core.errors import BadInput, UnknownName


@pytest.fixture(scope="module")
def compared(hospitals):
    torch.manual_seed(0)
    methods = ("local", "fedavg", "finetune:tune=1")
    return coterie.compare(nn.Linear(4, 2), hospitals, methods, seeds=2, seed=7, rounds=3, lr=0.3)


def test_results_by_method_and_seed(compared):
    assert list(compared.results) == ["local", "fedavg", "finetune:tune=1"]
    assert [(r.label, r.config["seed"]) for r in compared.records] == [
        (label, seed) for label in compared.results for seed in (7, 8)
    ]
    assert compared.results["finetune:tune=1"][0].record.config["finetune"]["tune"] == 1
    assert all(r.config["sgd"]["lr"] == 0.3 for r in compared.records)


def test_methods_begin_alike_and_seeds_do_not(compared):
    first = {s: [r.record.metrics[0]["scores"]["own/test"] for r in rs] for s, rs in compared.results.items()}
    assert first["local"] == first["fedavg"] == first["finetune:tune=1"]
    assert first["local"][0] != first["local"][1]


def test_a_cell_is_the_same_as_training_by_itself(compared, hospitals):
    alone = coterie.train(nn.Linear(4, 2), hospitals, "fedavg", seed=8, rounds=3, lr=0.3, init="common")
    assert compared.results["fedavg"][1].record.metrics == alone.record.metrics


def test_the_summary_has_a_line_for_each_method(compared):
    summary = compared.summary().set_index("method")
    assert list(summary.index) == list(compared.results)
    for label, results in compared.results.items():
        by_seed = [sum(r.record.final("accuracy")) / 3 for r in results]
        assert summary.loc[label, "accuracy"] == pytest.approx(sum(by_seed) / 2)
    assert summary["seeds"].tolist() == [2, 2, 2]


def test_a_page(compared, tmp_path):
    page = compared.report(tmp_path / "deep" / "page.html")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    for label in compared.results:
        assert label in text


def test_refusals(hospitals, refused):
    model = nn.Linear(4, 2)
    with refused(BadInput, "seeds=0 must be at least 1: try 3"):
        coterie.compare(model, hospitals, seeds=0)
    with refused(UnknownName, "unknown method 'fedvg': did you mean fedavg?"):
        coterie.compare(model, hospitals, ["fedvg"], seeds=1, rounds=1)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"methods": []}, id="none"),
        pytest.param({"methods": ["local", "local"]}, id="twice"),
        pytest.param({"methods": ["local", "finetune:tune=9"]}, id="cannot work, found out too late"),
    ],
)
def test_refused_before_anything_runs(hospitals, asked):
    seen = []
    with pytest.raises(BadInput):
        coterie.compare(nn.Linear(4, 2), hospitals, seeds=1, rounds=2, watch=seen.append, **asked)
    assert seen == []


def test_a_folder_for_each_run(hospitals, tmp_path):
    coterie.compare(nn.Linear(4, 2), hospitals, ["local", "fedavg"], seeds=1, rounds=1, out=tmp_path / "here")
    assert len(list((tmp_path / "here").rglob("config.toml"))) == 2


def test_an_option_that_only_one_of_the_methods_has(hospitals):
    made = coterie.compare(nn.Linear(4, 2), hospitals, ["local", "finetune"], seeds=1, rounds=3, tune=1)
    assert made.records[1].config["finetune"]["tune"] == 1
