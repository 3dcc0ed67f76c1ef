"""A user's mistake: exit code 2, one line that names the value and the remedy, nothing left behind."""

import fcntl
import json
import os
import resource
import sys

import pytest

from coterie.cli import run  # noqa: F401
from coterie.cli.main import main
from coterie.storage.tensors import read_tensors, write_tensors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "unknown command 'rnu': did you mean run?"),
        (["run", "--data", "titanik"], "unknown data source 'titanik': did you mean titanic?"),
        (["run", "--method", "fedavgg"], "unknown method 'fedavgg': did you mean fedavg?"),
        (["run", "--kernel", "sgdd"], "unknown kernel 'sgdd': did you mean sgd?"),
        (["run", "--engine", "lop"], "unknown engine 'lop': did you mean loop?"),
        (["compare", "--methods", "local", "fedvg"], "unknown method 'fedvg': did you mean fedavg?"),
        (["methods", "fedvg"], "unknown name 'fedvg': did you mean fedavg?"),
        (["data", "shwo", "digits"], "unknown data command 'shwo': did you mean show?"),
        (["data", "fetch", "mnits"], "did you mean mnist?"),
        (["run", "--roundz", "3"], "did you mean --rounds?"),
        (["run", "--rounds", "many"], "--rounds must be a whole number; got 'many'"),
        (["run", "--rounds", "0"], "rounds=0 must be at least 1"),
        (["run", "--seed", "-1"], "seed=-1 must be at least 0"),
        (["run", "--deal", "-1"], "deal=-1 must be at least 0"),
        (["run", "--clients", "0"], "clients=0 must be at least 1"),
        (["run", "--sgd.lr", "0"], "lr=0.0 must be above 0"),
        (["run", "--sgd.lr", "nan"], "lr=nan must be above 0"),
        (["run", "--sgd.momentum", "1"], "momentum=1.0 must lie in [0, 1)"),
        (["run", "--absent", "0.3"], "unknown option --absent: see coterie run --help"),
        (["run", "--wrap", "absent=2"], "absent=2.0 must lie between 0 and 1"),
        (
            ["run", "--wrap", "nonsense"],
            "unknown wrapper 'nonsense': known are absent, circle, contributions, counting",
        ),
        (["run", "--wrap", "absnt=0.3"], "unknown wrapper 'absnt': did you mean absent?"),
        (["run", "--net", "in-proces"], "unknown net 'in-proces': did you mean in-process?"),
        (["run", "--test", "1.5"], "held-out fraction 1.5 must lie between 0 and 1"),
        (["run", "--validation", "1"], "validation=1.0 must lie in [0, 1)"),
        (["run", "--init", "commen"], "invalid choice 'commen'"),
        (["run", "--method", "finetune", "--rounds", "5"], "tune=5 leaves none of 5 rounds"),
        (["run", "--clients", "1000"], "client"),
        (["run", "--data", "diabetes", "--split", "dirichlet"], "goes by class"),
        (["run", "--data", "titanic", "--model", "pens-cnn"], "needs pictures"),
        (["compare", "--seeds", "0"], "seeds=0 must be at least 1"),
        (["compare", "--methods", "local", "local"], "'local' is named twice"),
        (["compare", "--methods", "fedavg:sampl=1"], "unknown option of method fedavg 'sampl'"),
        (["compare", "--methods", "fedavg:sample=yes"], "must be a number; got 'yes'"),
        (["resume", "nowhere"], "nowhere is not a run folder"),
        (["report", "nowhere"], "nowhere holds no run and no comparison: check the path"),
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
        ("rounds = 'three'", "rounds must be a whole number; got 'three'"),
        ("[fedvg]\nsample = 1.0", "unknown table in bad.toml 'fedvg': did you mean fedavg?"),
        ("[fedavg]\nsampl = 1.0", "unknown option of fedavg 'sampl': did you mean sample?"),
        ("[sgd]\nlr = 'fast'", "lr must be a number; got 'fast'"),
        ("[adam]\nlr = 0.1", "options for 'adam', which this run does not use"),
    ],
)
def test_bad_config_file(refused, tmp_path, text, said):
    (tmp_path / "bad.toml").write_text(text)
    assert said in refused("run", "--config", "bad.toml")


QUICK = ("run", "--data", "diabetes", "--clients", "3", "--rounds", "2", "--out", "here")


def test_output_folder_that_holds_a_run(coterie, refused):
    code, _, said = coterie(*QUICK, "--sgd.batch", "100000")
    assert code == 0
    assert "clients with fewer training rows than batch=100000, so that a step takes all" in said  # allowed
    assert "output folder here holds a run: go on with 'coterie resume here'" in refused(*QUICK)


def test_output_folder_that_is_not_empty(refused, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "thesis.txt").write_text("mine")
    assert "output folder here is not empty" in refused(*QUICK)


def test_output_below_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in refused(*QUICK[:-1], "file/run")


def test_disk_that_fills_up(tmp_path):
    """A process of its own that may write no more than 6 kB into any file, as on a full disk."""
    words = ["run", "--data", "diabetes", "--clients", "3", "--rounds", "50", "--out", str(tmp_path / "here")]
    child = os.fork()
    if not child:
        code = 1
        try:
            with (tmp_path / "log").open("w") as log:
                sys.stdout = sys.stderr = log
                resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
                code = main(words)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    said = (tmp_path / "log").read_text()
    assert os.waitstatus_to_exitcode(status) == 2, said
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert last.startswith("coterie: cannot write")
    assert "File too large" in last
    hidden = [p.name for p in (tmp_path / "here").iterdir() if p.name.startswith(".")]
    assert hidden == [".lock"]


def test_what_a_run_cannot_go_on_from(coterie, refused, tmp_path):
    """Another config, a checkpoint of another schema or damaged, other data: each in one line."""
    assert coterie(*QUICK)[0] == 0
    folder = tmp_path / "here"
    (folder / "models.safetensors").unlink()
    (folder / "report.html").unlink()
    kept = {p: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    checkpoint = folder / "checkpoint.safetensors"

    def resumed_without(file, content: bytes) -> str:
        file.write_bytes(content)
        said = refused("resume", "here")
        file.write_bytes(kept[file])
        return said

    config = folder / "config.toml"
    assert "belongs to another config" in resumed_without(
        config, kept[config].replace(b"rounds = 2", b"rounds = 4")
    )
    tensors, header = read_tensors(checkpoint)
    header["stamp"] = {"round": 2, "config": header["stamp"]["config"], "version": "0.1.0"}
    write_tensors(tmp_path / "old", tensors, header)
    old = (tmp_path / "old").read_bytes()
    said = resumed_without(checkpoint, old)
    assert "checkpoint.safetensors has schema 1, this version of Coterie reads" in said
    assert "checkpoint.safetensors is damaged" in resumed_without(checkpoint, b"not a checkpoint at all")
    about = folder / "run.json"
    changed = json.dumps(json.loads(kept[about]) | {"fingerprint": "0" * 16}).encode()
    assert "the data or the first model differ" in resumed_without(about, changed)
    with (folder / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "here is in use by another process" in refused("resume", "here")
    assert coterie("resume", "here")[0] == 0


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


SMALL = "hospital,age,ill\n" + "".join(
    f"{site},{30 + 7 * i % 50},{'yes' if i % 2 else 'no'}\n"
    for site, rows in {"a": 30, "b": 30, "c": 5, "d": 1}.items()
    for i in range(rows)
)


def test_small_sites_are_refused_by_a_run_all_at_once_and_looked_at_by_a_check(coterie, tmp_path):
    (tmp_path / "small.csv").write_text(SMALL)
    path = str(tmp_path / "small.csv")
    table = ["--data", "table", "--table.path", path, "--table.target", "ill", "--table.site", "hospital"]
    code, _, err = coterie("run", *table, "--rounds", "1", "--out", str(tmp_path / "run"))
    assert code == 2
    assert "hospital 'c' has 5 training rows, 'd' 1, at least 10 are needed: set --silos.small drop" in err
    assert not (tmp_path / "run").exists()
    code, out, _ = coterie("check", *table, "--out", str(tmp_path / "check"))
    assert code == 0
    assert "4 sites, 66 rows" in out
    said = "fewer than 10 training rows: c (5), d (1); they are looked at here, but a run refuses them"
    assert said in " ".join(out.split())
    assert said in (tmp_path / "check" / "quality.json").read_text()
    code, _, err = coterie(
        "run", *table, "--rounds", "1", "--silos.small", "drop", "--out", str(tmp_path / "run")
    )
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--split dirichlet --clients 400", "at most 179 client(s) or for --dirichlet.minimum 4"),
        ("--split bands", "for instance --bands.column age --bands.edges 20 35"),
        (
            "--method ifca --ifca.k 50",
            "models for 10 clients leave some to nobody: lower --ifca.k",
        ),
        ("--method pens --pens.patience 3", "(--validation 0.2), or set --pens.patience 0"),
        ("--method data-interpolation --sgd.keep", "set --sgd.no-keep"),
        ("--method scaffold --kernel adam", "use --kernel sgd"),
    ],
)
def test_remedies_are_what_the_shell_takes(coterie, words, line):
    code, _, err = coterie("run", "--data", "digits", *words.split(), "--rounds", "2")
    assert code == 2
    assert line in err
