"""Who watches a run: what they are told, what their mistakes do, and who writes it down elsewhere."""

from __future__ import annotations

import math
import sys
import types

import numpy as np
import pytest
from torch import nn

import coterie
from coterie.cli.main import main
from coterie.core.errors import BadInput, UnknownName
from coterie.watching import Round, nobody, spelled, watcher_of

ONE = {"rounds": 3, "lr": 0.3}


def test_a_round_says_what_the_record_says(hospitals):
    seen: list[Round] = []
    result = coterie.train("logistic", hospitals, "fedavg", watch=seen.append, seed=4, **ONE)
    assert [(s.round, s.rounds, s.label, s.seed, s.last) for s in seen] == [
        (r, 3, "fedavg", 4, r == 3) for r in range(4)
    ]
    last, names = seen[-1], tuple(result.record.clients)
    assert last.clients == names
    assert list(last.each["accuracy"].values()) == result.record.final("accuracy")
    assert last.metrics["accuracy"] == pytest.approx(np.mean(result.record.final("accuracy")))
    assert np.array_equal(last.weights, result.weights[-1])
    assert seen[0].weights is None
    assert all(math.isnan(v) for v in seen[0].loss.values())
    assert list(last.loss.values()) == result.record.metrics[-1]["train_loss"]
    assert (last.models, last.bytes) == (result.record.traffic()["models"], result.record.traffic()["bytes"])
    assert last.scalars()["test/accuracy/hospital-b"] == last.each["accuracy"]["hospital-b"]
    assert not [name for name in last.scalars(each=False) if "hospital" in name]


def test_only_scored_rounds_are_told(hospitals):
    seen = []
    coterie.train("logistic", hospitals, watch=lambda s: seen.append(s.round), rounds=5, evaluate=2)
    assert seen == [0, 2, 4, 5]


def test_a_comparison_tells_of_all_its_runs(hospitals):
    seen = []
    coterie.compare(
        "logistic", hospitals, ["local", "fedavg:weighted=true|false"], seeds=2, rounds=1, watch=seen.append
    )
    told = {(s.label, s.seed): s.round for s in seen}
    labels = ("nothing", "local", "fedavg:weighted=true", "fedavg:weighted=false")
    assert told == {(label, seed): 1 for label in labels for seed in (0, 1)}


def test_a_mistake_of_who_watches_ends_the_run_and_what_is_saved_stays(hospitals, tmp_path):
    def wrong(seen):
        if seen.round == 2:
            raise ZeroDivisionError("no good")

    options = {**ONE, "checkpoint": 100, "out": tmp_path / "run", "init": "common"}
    with pytest.raises(ZeroDivisionError, match="no good") as found:
        coterie.train(nn.Linear(4, 2), hospitals, watch=wrong, **options)
    assert "keeps the run up to round 2" in "".join(found.value.__notes__)
    seen = []
    result = coterie.train(nn.Linear(4, 2), hospitals, watch=seen.append, resume=True, **options)
    assert [s.round for s in seen] == [2, 3]
    whole = coterie.train(nn.Linear(4, 2), hospitals, **{**options, "out": None})
    assert result.record.metrics == whole.record.metrics


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_what_is_not_installed_is_said_in_a_line(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    with pytest.raises(
        BadInput, match=rf"^{name} is not installed: install it with pip install 'coterie\[{name}\]'"
    ):
        watcher_of(name)
    assert main(["run", "--watch", name, "--out", str(tmp_path / "no")]) == 2
    assert not (tmp_path / "no").exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_names_of_watchers():
    assert watcher_of("") is nobody
    with pytest.raises(UnknownName, match="did you mean tensorboard"):
        watcher_of("tensorbord:here")
    assert spelled("test/accuracy/north: a<b>") == "test/accuracy/north_3a_ a_3c_b_3e_"


class Log:
    """Stands in for a run of Weights & Biases."""

    def __init__(self, **asked):
        self.asked, self.lines, self.over = asked, [], False

    def log(self, figures, step):
        self.lines.append((step, figures))

    def finish(self):
        self.over = True


def test_wandb_stays_offline_and_has_a_run_for_each_seed(hospitals, monkeypatch, tmp_path):
    logs = []
    library = types.SimpleNamespace(
        init=lambda **asked: logs.append(Log(**asked)) or logs[-1], Settings=lambda **given: given
    )
    monkeypatch.setitem(sys.modules, "wandb", library)
    watch = coterie.watching.wandb(project="mine", folder=tmp_path / "here")
    coterie.compare("logistic", hospitals, ["local"], seeds=2, watch=watch, **ONE)
    assert [(log.asked["mode"], log.asked["name"], log.asked["project"]) for log in logs] == [
        ("offline", f"{name}-seed-{seed}", "mine") for seed in (0, 1) for name in ("nothing", "local")
    ]
    _, local, *_ = logs
    assert local.asked["config"]["sgd.lr"] == 0.3
    assert [step for step, _ in local.lines] == [0, 1, 2, 3]
    assert 0 < local.lines[-1][1]["test/accuracy"] <= 1
    assert all(log.over for log in logs)
    with pytest.raises(UnknownName, match="unknown mode 'onlin'"):
        coterie.watching.wandb(mode="onlin")


def test_tensorboard_for_real(hospitals, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = coterie.watching.tensorboard(tmp_path / "boards")
    result = coterie.train("logistic", hospitals, "fedavg", watch=watch, **ONE)
    found = EventAccumulator(str(tmp_path / "boards" / "fedavg-seed-0"))
    found.Reload()
    values = found.Scalars("test/accuracy")
    assert [v.step for v in values] == [0, 1, 2, 3]
    assert values[-1].value == pytest.approx(np.mean(result.record.final("accuracy")))


def test_mlflow_for_real(hospitals, tmp_path):
    library = pytest.importorskip("mlflow")
    watch = coterie.watching.mlflow("ours", folder=tmp_path / "runs")
    result = coterie.train("logistic", hospitals, "fedavg", watch=watch, **ONE)
    client = library.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("ours").experiment_id])
    assert run.data.metrics["test/accuracy"] == pytest.approx(np.mean(result.record.final("accuracy")))
    assert (run.data.params["sgd.lr"], run.info.status) == ("0.3", "FINISHED")


def test_wandb_for_real(hospitals, tmp_path):
    pytest.importorskip("wandb")
    watch = coterie.watching.wandb("ours", folder=tmp_path / "runs")
    coterie.train("logistic", hospitals, "fedavg", watch=watch, **ONE)
    assert list((tmp_path / "runs" / "wandb").glob("offline-run-*/*.wandb"))
