"""A run as a folder: cut off anywhere, it goes on to the same end; what it refuses leaves no trace."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coterie.core import belief as tree
from coterie.core.errors import BadRun
from coterie.core.held import at_coordinator, hold
from coterie.core.method import Info, state_type
from coterie.methods.server.finetune import FineTune
from coterie.runs import folder as folder_module
from coterie.runs.folder import Folder, is_run, read_models, read_record
from coterie.runs.loop import Outcome, run
from coterie.storage import atomic, locks
from coterie.storage.rounds import matrix_of, matrix_told


def same(one: Outcome, two: Outcome) -> None:
    """All figures, all matrices and all weights, to the last bit."""
    assert one.record.metrics == two.record.metrics
    assert list(one.record.weights) == list(two.record.weights)
    for r, matrix in one.record.weights.items():
        assert np.array_equal(matrix, two.record.weights[r])
    assert list(one.record.matrices) == list(two.record.matrices)
    for name, by_round in one.record.matrices.items():
        assert list(by_round) == list(two.record.matrices[name])
        for r, matrix in by_round.items():
            assert matrix.dtype == two.record.matrices[name][r].dtype == np.float64
            assert np.array_equal(matrix, two.record.matrices[name][r], equal_nan=True)
    assert one.record.given_away().equals(two.record.given_away())
    ours, theirs = one.models.beliefs.tensors, two.models.beliefs.tensors
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    assert torch.equal(one.models.of, two.models.of)


def rounds_in(path: Path) -> list[int]:
    return [json.loads(line)["round"] for line in path.read_text().splitlines()]


def test_what_a_run_leaves_in_its_folder(restless, run_in, tmp_path):
    experiment, path = restless(rounds=4), tmp_path / "deep" / "run"
    run_in(path, experiment)
    assert sorted(p.name for p in path.iterdir()) == [
        ".lock",
        "checkpoint.safetensors",
        "collaboration.jsonl",
        "config.toml",
        "events.jsonl",
        "ledger.jsonl",
        "metrics.jsonl",
        "models.safetensors",
        "now.json",
        "run.json",
        "timings.jsonl",
    ]
    assert rounds_in(path / "collaboration.jsonl") == [1, 2, 3, 4]
    assert tomllib.loads((path / "config.toml").read_text()) == experiment.config
    assert json.loads((path / "run.json").read_text()) == experiment.about
    assert rounds_in(path / "metrics.jsonl") == rounds_in(path / "timings.jsonl") == [0, 1, 2, 3, 4]
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["run"]


def test_a_folder_changes_no_number(restless, run_in, tmp_path):
    in_memory = run(restless(), None, "x")
    same(in_memory, run_in(tmp_path / "run", restless()))
    read = read_record(tmp_path / "run")
    assert read.metrics == in_memory.record.metrics
    assert all(np.array_equal(read.weights[r], w) for r, w in in_memory.record.weights.items())
    assert read.finished
    assert read.label == "finetune"
    assert read_record(tmp_path / "run", "mine").label == "mine"


def test_read_models_are_those_in_memory(restless, run_in, tmp_path):
    models = run_in(tmp_path / "run", restless()).models
    read = read_models(tmp_path / "run")
    assert list(read) == ["a", "b"]
    for i, name in enumerate(read):
        mine = tree.row(models.beliefs.tensors, int(models.of[i]))
        assert torch.equal(read[name]["weight"], mine["weight"])
    assert not torch.equal(read["a"]["weight"], read["b"]["weight"])
    assert torch.equal(read_record(tmp_path / "run").models()["b"]["weight"], read["b"]["weight"])


@dataclass(frozen=True)
class Telling(FineTune):
    """A method that also tells: in each round alpha, and under odd names in every second one."""

    def round(self, state, net, key):
        state, info = super().round(state, net, key)
        n = len(net.roster)
        alpha = torch.rand(n, n, generator=key.at("alpha").torch(), dtype=torch.float64)
        alpha[0, 1] = torch.nan
        odd = {"weights": alpha, "file": alpha / 3, "a/b \u03b1": -alpha} if key.round % 2 == 0 else {}
        return state, Info(info.weights, info.loss, matrices={"alpha": alpha, **odd})


def telling(experiment):
    return replace(experiment, method=Telling(**vars(experiment.method)))


def test_matrices_by_name_are_read_back_as_they_were(restless, run_in, tmp_path):
    in_memory = run(telling(restless(rounds=4)), None, "x")
    same(in_memory, run_in(tmp_path / "run", telling(restless(rounds=4))))
    read = read_record(tmp_path / "run")
    assert list(read.matrices) == ["alpha", "weights", "file", "a/b \u03b1"]
    assert list(read.matrices["alpha"]) == [1, 2, 3, 4]
    assert list(read.matrices["file"]) == [2, 4]
    assert len(read.matrices) == 4
    assert len(read.matrices["file"]) == 2
    for name, by_round in in_memory.record.matrices.items():
        for r, matrix in by_round.items():
            np.testing.assert_array_equal(read.matrices[name][r], matrix)
    np.testing.assert_array_equal(read.weights[2], in_memory.record.weights[2])
    with pytest.raises(KeyError):
        read.matrices["beta"]
    with pytest.raises(KeyError):
        read.matrices["file"][3]


def test_a_record_sees_matrices_of_rounds_to_come(tiny, tmp_path):
    seen = []
    experiment = telling(tiny("finetune", options={"tune": 1}, rounds=3))
    folder = Folder.create(tmp_path / "run", experiment.config, experiment.about)
    run(experiment, folder, "x", lambda record: seen.append({k: len(v) for k, v in record.matrices.items()}))
    folder.close()
    odd = {"weights": 1, "file": 1, "a/b \u03b1": 1}
    assert seen == [{}, {"alpha": 1}, {"alpha": 2, **odd}, {"alpha": 3, **odd}]


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<i8"])
@pytest.mark.parametrize("shape", [(0, 5), (1,), (3, 4)])
def test_a_matrix_as_text_and_back(kind, shape):
    matrix = np.arange(np.prod(shape)).astype(kind).reshape(shape)
    if kind != "<i8" and matrix.size:
        matrix.flat[0] = np.nan
    text = json.loads(json.dumps(matrix_told(matrix)))
    assert text.keys() == {"type", "shape", "zlib"}
    back = matrix_of(text)
    assert (back.dtype, back.shape) == (matrix.dtype, matrix.shape)
    assert back.tobytes() == matrix.tobytes()


def test_a_run_whose_lines_a_power_failure_took_begins_anew(restless, run_in, tmp_path):
    path = tmp_path / "run"
    run_in(path, restless(), cut=4)
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (path / "metrics.jsonl").write_text("".join(lines[:3]))
    resumed = run_in(path, restless())
    same(run(restless(), None, "x"), resumed)
    assert rounds_in(path / "metrics.jsonl") == list(range(8))
    assert rounds_in(path / "collaboration.jsonl") == list(range(1, 8))


def test_lines_are_synced_once_a_second_before_the_checkpoint(tiny, run_in, tmp_path, monkeypatch):
    synced, clock = [], itertools.count(step=0.4)
    monkeypatch.setattr(
        atomic.os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
    )
    monkeypatch.setattr(folder_module.time, "monotonic", lambda: next(clock))
    run_in(tmp_path / "run", tiny(rounds=6))
    rounds = [name for name in synced if not name.startswith((".models", ".calibration"))]
    lines = ["timings.jsonl", "collaboration.jsonl", "metrics.jsonl", "ledger.jsonl"]
    checkpoints = [i for i, name in enumerate(rounds) if name.startswith(".checkpoint")]
    assert 1 <= len(checkpoints) < 6
    assert all(rounds[i - 4 : i] == lines for i in checkpoints)
    assert synced[-5:-1] == lines  # and at the end, before the models


def test_damaged_matrices_and_models_are_told(tiny, run_in, tmp_path):
    path = tmp_path / "run"
    run_in(path, tiny(rounds=1))
    matrices, models = path / "collaboration.jsonl", path / "models.safetensors"
    matrices.write_text(matrices.read_text().replace('"zlib": "', '"zlib": "!'))
    models.write_bytes(models.read_bytes()[:20])
    record = read_record(path)
    with pytest.raises(BadRun, match=r"collaboration\.jsonl, round 1, is damaged \(.*\): delete the file"):
        record.weights[1]
    matrices.write_text('{"round": 1, "weights": no text}\n')
    with pytest.raises(BadRun, match=r"collaboration\.jsonl, round 1, is damaged"):
        list(read_record(path).matrices)
    with pytest.raises(BadRun, match=r"models\.safetensors is damaged \(.*\): delete it and make it again"):
        record.models()
    models.unlink()
    same_again = run_in(path, tiny(rounds=1))
    assert read_models(path).keys() == same_again.record.models().keys() == {"a", "b"}


@pytest.mark.parametrize(("every", "cut"), [(1, 0), (1, 5), (3, 2), (3, 5), (3, 7), (100, 5)])
def test_cut_off_and_resumed_is_the_same_as_unbroken(restless, run_in, tmp_path, every, cut):
    unbroken = run(restless(checkpoint=every), None, "x")
    path = tmp_path / "run"
    assert run_in(path, restless(checkpoint=every), cut) is None
    assert not (path / "models.safetensors").exists()
    same(unbroken, run_in(path, restless(checkpoint=every)))
    assert rounds_in(path / "metrics.jsonl") == list(range(8))
    assert rounds_in(path / "timings.jsonl") == list(range(8))


def test_cut_off_again_and_again_and_then_finished_for_good(restless, run_in, tmp_path):
    path = tmp_path / "run"
    for cut in (1, 2, 4, 5):
        run_in(path, restless(), cut)
    resumed = run_in(path, restless())
    same(run(restless(), None, "x"), resumed)
    assert (path / "metrics.jsonl").read_text() == "".join(
        json.dumps(m) + "\n" for m in resumed.record.metrics
    )
    before = (path / "timings.jsonl").read_bytes()
    same(resumed, run_in(path, restless()))
    assert (path / "timings.jsonl").read_bytes() == before


def test_what_lies_beyond_the_checkpoint_is_dropped(restless, run_in, tmp_path):
    path, experiment = tmp_path / "run", restless(checkpoint=3)
    run_in(path, experiment, cut=5)
    assert rounds_in(path / "metrics.jsonl")[-1] == 5
    folder = Folder(path)
    saved = folder.restore(state_type(experiment.method), experiment.config)
    folder.close()
    assert saved.stamp.round == 3
    assert saved.state.own is None
    assert rounds_in(path / "metrics.jsonl") == rounds_in(path / "timings.jsonl") == [0, 1, 2, 3]
    assert rounds_in(path / "collaboration.jsonl") == [1, 2, 3]


@pytest.mark.parametrize(
    ("file", "tail", "last"),
    [
        ("metrics.jsonl", '{"round": 4, "sco', 3),
        ("timings.jsonl", "\x00\x00\x00", 3),
        ("timings.jsonl", '{"round": 4}\n{"rou', 4),
    ],
)
def test_a_last_line_cut_short_does_not_count(restless, run_in, tmp_path, file, tail, last):
    path = tmp_path / "run"
    run_in(path, restless(), cut=3)
    with (path / file).open("a") as lines:
        lines.write(tail)
    entries = getattr(read_record(path), file.partition(".")[0])
    assert [e["round"] for e in entries] == list(range(last + 1))
    same(run(restless(), None, "x"), run_in(path, restless()))


def test_ctrl_c_saves_the_last_finished_round(restless, run_in, tmp_path):
    path = tmp_path / "run"
    run_in(path, restless(checkpoint=100), cut=5, error=KeyboardInterrupt)
    seen = []
    folder = Folder(path)
    resumed = run(restless(checkpoint=100), folder, "x", lambda record: seen.append(record.done))
    folder.close()
    assert seen == [5, 6, 7]
    same(run(restless(checkpoint=100), None, "x"), resumed)


@pytest.mark.parametrize("changed", [{"rounds": 9}, {"wrap": ["absent=0.1"]}])
def test_a_run_does_not_go_on_as_another(restless, run_in, tmp_path, changed):
    path = tmp_path / "run"
    run_in(path, restless(), cut=2)
    lines = (path / "metrics.jsonl").read_bytes()
    with pytest.raises(BadRun, match="belongs to another config"):
        run_in(path, restless(**changed))
    assert (path / "metrics.jsonl").read_bytes() == lines


def test_models_only_of_a_finished_run(restless, run_in, tmp_path, refused):
    path = tmp_path / "run"
    run_in(path, restless(), cut=2)
    with refused(BadRun, f"{path} has no models yet: go on with 'coterie resume {path}'"):
        read_models(path)
    assert read_record(path).models() == {}


def test_a_folder_that_is_no_run(tmp_path, refused):
    with refused(BadRun, f"{tmp_path} is not a run folder: it has no config.toml and run.json"):
        read_record(tmp_path)
    (tmp_path / "config.toml").write_text("")
    assert not is_run(tmp_path)
    (tmp_path / "run.json").write_text('{"clients": [')
    (tmp_path / "config.toml").write_text('method = "local"\nrounds = 1\n')
    with pytest.raises(BadRun, match=r"run\.json is damaged \(.*\): start this run anew"):
        read_record(tmp_path)


def everything(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def test_an_empty_folder_will_do(tmp_path, tiny):
    (tmp_path / "run").mkdir()
    experiment = tiny()
    Folder.create(tmp_path / "run", experiment.config, experiment.about).close()
    assert is_run(tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755


def test_create_refuses_what_is_there(tmp_path, tiny, refused):
    experiment, path = tiny(), tmp_path / "run"
    Folder.create(path, experiment.config, experiment.about).close()
    before = everything(tmp_path)
    with refused(
        BadRun,
        f"output folder {path} holds a run: go on with 'coterie resume {path}' or choose another --out",
    ):
        Folder.create(path, experiment.config, experiment.about)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    with refused(BadRun, f"output folder {tmp_path / 'thesis'} is not empty: choose another --out"):
        Folder.create(tmp_path / "thesis", experiment.config, experiment.about)
    assert everything(tmp_path) == sorted([*before, "thesis", "thesis/chapter.txt"])


@pytest.mark.parametrize("name", ["file", "file/run"])
def test_create_refuses_to_write_over_a_file(tmp_path, tiny, name):
    (tmp_path / "file").write_text("mine")
    experiment = tiny()
    with pytest.raises(BadRun, match=f"cannot write {tmp_path / name}: .*: free space or choose another"):
        Folder.create(tmp_path / name, experiment.config, experiment.about)
    assert everything(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_is_one_process_own(tmp_path, tiny, refused):
    experiment, path = tiny(), tmp_path / "run"
    first = Folder.create(path, experiment.config, experiment.about)
    with refused(
        BadRun, f"output folder {path} is in use by another process: wait for it or choose another --out"
    ):
        Folder(path)
    first.close()
    Folder(path).close()


def test_a_checkpoint_that_cannot_be_written(tmp_path, tiny, monkeypatch):
    """Full disk: one line, and the last good checkpoint stays."""
    experiment, path = tiny(), tmp_path / "run"
    folder = Folder.create(path, experiment.config, experiment.about)
    state = experiment.method.init(hold(experiment.beliefs, at_coordinator(1)), experiment.net)
    folder.save(state, 0, experiment.config, {})
    good = (path / "checkpoint.safetensors").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coterie.storage.tensors.save_file", full)
    with pytest.raises(BadRun, match=r"cannot write .*checkpoint\.safetensors: No space left on device"):
        folder.save(replace(state), 1, experiment.config, {})
    folder.close()
    assert (path / "checkpoint.safetensors").read_bytes() == good
    assert [p.name for p in path.iterdir() if p.name.startswith(".")] == [".lock"]


def test_without_fcntl_the_lock_is_that_of_windows(tmp_path, monkeypatch, refused):
    """There it is on the byte where a file stands, and asking for one that is taken fails at once."""
    taken = set()

    def locking(number, mode, count):
        assert (mode, count) == (2, 1)
        where = os.fstat(number).st_ino, os.lseek(number, 0, os.SEEK_CUR)
        if where in taken:
            raise PermissionError(13, "Permission denied")
        taken.add(where)

    fake = SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    spec = importlib.util.spec_from_file_location("locks_elsewhere", locks.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first = module.locked(tmp_path)
    assert (tmp_path / module.NAME).read_text() == str(os.getpid())
    with refused(
        BadRun, f"output folder {tmp_path} is in use by another process: wait for it or choose another --out"
    ):
        module.locked(tmp_path)
    first.close()
    taken.clear()
    module.locked(tmp_path).close()
