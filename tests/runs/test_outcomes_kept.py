"""What came of each test row: kept where clients are in this process, if it adds up to the scores."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import coterie
from coterie.core.errors import BadInput, BadRun
from coterie.core.groups import Groups
from coterie.core.kernel import kernel_to_dict
from coterie.core.roster import roster_of
from coterie.data.clients import Client
from coterie.features.outcomes import hook
from coterie.features.outcomes.hook import FILE as OUTCOMES
from coterie.kernels.outcomes import RowByRow
from coterie.metrics.table import BY_ROW
from coterie.runs.folder import read_record

QUICK = {"rounds": 2, "seed": 0, "progress": False}


def sites(task: str = "classification") -> list[Client]:
    rng = np.random.default_rng(0)
    made = []
    for i, rows in enumerate((40, 60, 50)):
        X = rng.normal(size=(rows, 3))
        score = X[:, 0] + rng.normal(size=rows)
        y = (score > 0).astype(int) if task == "classification" else score
        made.append(Client.from_arrays(X, y, name=f"site-{i}", task=task))
    return made


@pytest.mark.parametrize(("task", "metric"), [("classification", "accuracy"), ("regression", "rmse")])
def test_rows_add_up_to_the_scores_and_come_back(tmp_path, task, metric):
    clients = sites(task)
    model = "logistic" if task == "classification" else "linear"
    made = coterie.train(model, clients, "fedavg", out=tmp_path / "run", **QUICK)
    kept = made.record.outcomes()
    assert kept.sizes.tolist() == [len(c.test) for c in clients]
    means = [part.mean() for part in np.split(kept.values, np.cumsum(kept.sizes)[:-1])]
    found = np.sqrt(means) if task == "regression" else means
    np.testing.assert_allclose(found, made.record.final(metric), rtol=1e-6)
    for client, rows in zip(clients, np.split(kept.values, np.cumsum(kept.sizes)[:-1]), strict=True):
        with torch.no_grad():
            out = made.models[client.name](client.test.x)
        np.testing.assert_allclose(rows, BY_ROW[metric].of_row(out, client.test.y), rtol=1e-4, atol=1e-5)
    in_memory = coterie.train(model, clients, "fedavg", **QUICK).record.outcomes()
    for mine, stored in zip(in_memory, read_record(tmp_path / "run").outcomes(), strict=True):
        assert (mine == stored).all()
    assert (tmp_path / "run" / OUTCOMES).stat().st_size < 5000


def test_who_did_not_ask_has_no_rows():
    made = coterie.train("logistic", sites(), "weight-erosion", requester="site-1", **QUICK)
    assert (made.record.outcomes().sizes > 0).tolist() == [False, True, False]


def test_rows_of_sites_elsewhere_stay_there():
    elsewhere = SimpleNamespace(roster=roster_of(sites()), net=SimpleNamespace(holds_rows=False))
    assert hook.asked_of(elsewhere) is None


@pytest.mark.slow  # the accountant takes its time
@pytest.mark.parametrize(("scores", "kept"), [("clear", True), ("noisy", False), ("none", False)])
def test_scores_that_do_not_leave_in_the_clear_keep_no_rows(scores, kept):
    private = {"wrap": (f"private=8:scores={scores}",), "kernel": "dp(sgd)", "batch": 8}
    found = coterie.train("logistic", sites(), "fedavg", **QUICK, **private).record.outcomes()
    assert (found is not None) == kept


def test_more_rows_than_are_kept(monkeypatch):
    monkeypatch.setattr(hook, "MOST", sum(len(c.test) for c in sites()) - 1)
    assert coterie.train("logistic", sites(), "fedavg", **QUICK).record.outcomes() is None


def test_an_average_of_predictions_is_what_is_kept():
    made = coterie.train("logistic", sites(), "bayavg", **{**QUICK, "rounds": 1}).record
    kept = made.outcomes()
    means = [part.mean() for part in np.split(kept.values, np.cumsum(kept.sizes)[:-1])]
    np.testing.assert_allclose(means, made.final("accuracy"))


def test_a_figure_that_rows_do_not_add_up_to_keeps_none():
    kernel = RowByRow(BY_ROW["accuracy"])
    scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    groups = Groups.of(torch.tensor([2, 1]))
    at = kernel.measure("classification", scores, torch.zeros(3), torch.tensor([0, 1, 1]), groups)["at"]
    assert hook.gathered(kernel, at, [0.5, 1.0]).values.tolist() == [1, 0, 1]
    assert hook.gathered(kernel, at, [0.5, None]).sizes.tolist() == [2, 0]
    assert hook.gathered(kernel, at, [0.6, 1.0]) is None


def test_it_has_no_name_to_be_sent_by():
    with pytest.raises(BadInput, match="has no name to be sent by"):
        kernel_to_dict(RowByRow(BY_ROW["accuracy"]))


def test_a_damaged_file_says_so(tmp_path):
    coterie.train("logistic", sites(), "local", out=tmp_path / "run", **QUICK)
    file = tmp_path / "run" / OUTCOMES
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadRun, match=r"outcomes\.npz is damaged"):
        read_record(tmp_path / "run").outcomes()
    np.savez(file, sizes=np.array([3]), values=np.array([1, 0]))
    with pytest.raises(BadRun, match="sizes do not add up"):
        read_record(tmp_path / "run").outcomes()
    file.unlink()
    assert read_record(tmp_path / "run").outcomes() is None
