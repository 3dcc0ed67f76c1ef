"""A user's mistake: exit code 2, one line that names the value and the remedy, nothing left behind."""

import fcntl
import json
import os
import resource
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "unknown command 'rnu': did you mean run?"),
        (["run", "--data", "titanik"], "unknown data source 'titanik': did you mean titanic?"),
        (["run", "--split", "dirichelt"], "unknown split 'dirichelt': did you mean dirichlet?"),
        (["run", "--model", "logistik"], "unknown model 'logistik': did you mean logistic?"),
        (["run", "--method", "fedavgg"], "unknown method 'fedavgg': did you mean fedavg?"),
        (["run", "--kernel", "sgdd"], "unknown kernel 'sgdd': did you mean sgd?"),
        (["run", "--engine", "lop"], "unknown engine 'lop': did you mean loop?"),
        (["compare", "--methods", "local", "fedvg"], "unknown method 'fedvg': did you mean fedavg?"),
        (["methods", "fedvg"], "unknown name 'fedvg': did you mean fedavg?"),
        (["data", "shwo", "digits"], "unknown data command 'shwo': did you mean show?"),
        (["data", "fetch", "mnits"], "did you mean mnist?"),
        (["run", "--roundz", "3"], "did you mean --rounds?"),
        (["run", "--rounds", "many"], "--rounds: invalid literal for int() with base 10: 'many'"),
        (["run", "--rounds", "0"], "rounds=0 must be at least 1"),
        (["run", "--rounds", "-3"], "rounds=-3 must be at least 1"),
        (["run", "--seed", "-1"], "seed=-1 must be at least 0"),
        (["run", "--clients", "0"], "clients=0 must be at least 1"),
        (["run", "--sgd.lr", "0"], "lr=0.0 must be above 0"),
        (["run", "--sgd.lr", "-0.1"], "lr=-0.1 must be above 0"),
        (["run", "--sgd.lr", "nan"], "lr=nan must be above 0"),
        (["run", "--sgd.epochs", "0"], "epochs=0 must be at least 1"),
        (["run", "--sgd.batch", "0"], "batch=0 must be at least 1"),
        (["run", "--sgd.momentum", "1"], "momentum=1.0 must lie in [0, 1)"),
        (["run", "--absent", "2"], "absent=2.0 must lie between 0 and 1"),
        (["run", "--test", "1.5"], "held-out fraction 1.5 must lie between 0 and 1"),
        (["run", "--validation", "1"], "validation=1.0 must lie in [0, 1)"),
        (["run", "--init", "commen"], "invalid choice 'commen'"),
        (["run", "--evaluate", "0"], "evaluate=0 must be at least 1"),
        (["run", "--method", "finetune", "--rounds", "5"], "tune=5 leaves none of 5 rounds"),
        (["run", "--fedavg.sample", "0"], "sample=0.0 must lie above 0"),
        (["run", "--clients", "1000"], "client"),
        (["run", "--data", "diabetes", "--split", "dirichlet"], "goes by class"),
        (["run", "--data", "titanic", "--model", "pens-cnn"], "needs pictures"),
        (["compare", "--seeds", "0"], "seeds=0 must be at least 1"),
        (["compare", "--methods", "local", "local"], "'local' is named twice"),
        (["compare", "--methods", "fedavg:sampl=1"], "unknown option of method fedavg 'sampl'"),
        (["compare", "--methods", "fedavg:sample=yes"], "must be of type float; got 'yes'"),
        (["resume", "nowhere"], "nowhere is not a run folder"),
        (["report", "nowhere"], "nowhere is no run or comparison"),
        (["run", "--config", "nowhere.toml"], "cannot read nowhere.toml"),
        (["completion", "powershell"], "invalid choice 'powershell'"),
    ],
)
def test_refused_in_one_line(refused, words, said):
    assert said in refused(*words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds = ", "is not valid TOML"),
        ("roundz = 3", "unknown option of bad.toml 'roundz': did you mean rounds?"),
        ("rounds = 'three'", "rounds must be of type int; got 'three'"),
        ("[fedvg]\nsample = 1.0", "unknown table in bad.toml 'fedvg': did you mean fedavg?"),
        ("[fedavg]\nsampl = 1.0", "unknown option of fedavg 'sampl': did you mean sample?"),
        ("[sgd]\nlr = 'fast'", "lr must be of type float; got 'fast'"),
        ("[adam]\nlr = 0.1", "options for 'adam', which this run does not use"),
    ],
)
def test_bad_config_file(refused, tmp_path, text, said):
    (tmp_path / "bad.toml").write_text(text)
    assert said in refused("run", "--config", "bad.toml")


QUICK = ("run", "--data", "digits", "--clients", "3", "--rounds", "2", "--out", "here")


def test_output_folder_that_holds_a_run(coterie, refused):
    assert coterie(*QUICK)[0] == 0
    assert "output folder here holds a run: go on with 'coterie resume here'" in refused(*QUICK)


def test_output_folder_that_is_not_empty(refused, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "thesis.txt").write_text("mine")
    assert "output folder here is not empty" in refused(*QUICK)


def test_output_folder_in_use(coterie, refused, tmp_path):
    assert coterie(*QUICK)[0] == 0
    (tmp_path / "here" / "models.safetensors").unlink()
    with (tmp_path / "here" / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "here is in use by another process" in refused("resume", "here")


def test_output_below_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in refused(*QUICK[:-1], "file/run")


def test_disk_that_fills_up(tmp_path):
    """A real process that may write no more than 6 kB into any file, as on a full disk."""
    words = ["run", "--data", "digits", "--clients", "3", "--rounds", "50", "--out", str(tmp_path / "here")]
    process = subprocess.run(
        [sys.executable, "-m", "coterie.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    last = process.stderr.strip().splitlines()[-1]
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr
    assert last.startswith("coterie: cannot write")
    assert "File too large" in last
    leftovers = [
        p.name for p in (tmp_path / "here").iterdir() if p.name.startswith(".") and p.name != ".lock"
    ]
    assert leftovers == []


def test_checkpoint_of_another_config(coterie, refused, tmp_path):
    assert coterie(*QUICK)[0] == 0
    folder = tmp_path / "here"
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("rounds = 2", "rounds = 4"))
    assert "belongs to another config" in refused("resume", "here")


def test_checkpoint_of_another_version(coterie, refused, monkeypatch):
    assert coterie(*QUICK[:-3], "3", "--out", "here", "--checkpoint", "1")[0] == 0
    os.unlink("here/models.safetensors")
    monkeypatch.setattr("coterie.__version__", "9.9")
    assert "was written by coterie 0.1.0, this is 9.9" in refused("resume", "here")


def test_damaged_checkpoint(coterie, refused, tmp_path):
    assert coterie(*QUICK)[0] == 0
    (tmp_path / "here" / "models.safetensors").unlink()
    (tmp_path / "here" / "checkpoint.safetensors").write_bytes(b"not a checkpoint at all")
    assert "checkpoint.safetensors is damaged" in refused("resume", "here")


def test_data_that_changed_since_the_run_began(coterie, refused, tmp_path):
    assert coterie(*QUICK)[0] == 0
    (tmp_path / "here" / "models.safetensors").unlink()
    about = json.loads((tmp_path / "here" / "run.json").read_text())
    about["fingerprint"] = "0" * 16
    (tmp_path / "here" / "run.json").write_text(json.dumps(about))
    assert "the data or the first model differ" in refused("resume", "here")


def test_loss_that_became_nan_keeps_the_last_good_state(coterie, tmp_path):
    words = ["--data", "digits", "--model", "mlp", "--clients", "3", "--rounds", "50", "--out", "here"]
    code, _, said = coterie("run", *words, "--sgd.lr", "1e12")
    last = said.strip().splitlines()[-1]
    assert code == 2
    assert "client 'client-" in last
    assert "lower the learning rate" in last
    done = int(last.split("keeps the state after round ")[1])
    assert f"round {done + 1}, " in last
    lines = (tmp_path / "here" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["round"] == done
    assert (tmp_path / "here" / "checkpoint.safetensors").exists()


def test_batch_larger_than_the_data_is_allowed_and_said(coterie):
    code, _, said = coterie(*QUICK, "--sgd.batch", "100000")
    assert code == 0
    assert "batch=100000 exceeds the training data of 3 client(s)" in said
