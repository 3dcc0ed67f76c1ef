"""Every command, as one would type it."""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import coterie as package
from coterie.cli.data import label_table
from coterie.cli.main import COMMANDS, GROUPS, main
from coterie.core import clock
from coterie.core.options import options_of
from coterie.data.sources import SOURCES
from coterie.methods import METHODS
from coterie.runs import loop as runner
from coterie.runs.folder import read_models
from coterie.runs.settings import PARTS, Settings

TITANIC = ("--data", "titanic", "--rounds", "2")
FILES = {
    ".lock",
    "calibration.npz",
    "recalibration.json",
    "checkpoint.safetensors",
    "collaboration.jsonl",
    "config.toml",
    "events.jsonl",
    "ledger.jsonl",
    "metrics.jsonl",
    "models.safetensors",
    "now.json",
    "outcomes.npz",
    "probabilities.npz",
    "report.html",
    "run.json",
    "timings.jsonl",
}


@pytest.fixture
def done(coterie):
    """Runs a command that must succeed; returns what it printed."""

    def run(*words: str) -> str:
        code, printed, said = coterie(*words)
        assert code == 0, said
        return printed

    return run


def config_of(path: str) -> dict:
    return tomllib.loads(Path(path, "config.toml").read_text())


def flat(text: str) -> str:
    """Without the line breaks and boxes of a narrow terminal."""
    return " ".join(re.sub(r"[│╭╮╰╯─|]", " ", text).split())


def test_help_names_every_command(done):
    printed = done()
    assert printed == done("--help") == done("-h") == done("help")
    first, *groups = re.split(r"\n\n(?=[A-Z][a-z ]+:\n)", printed.partition("\n\n-v tells more")[0])
    assert "examples:\n  coterie demo" in first
    assert len(first.splitlines()) <= 10
    found = []
    for title, *lines in map(str.splitlines, groups):
        found += [(title.rstrip(":"), *line.split(maxsplit=1)) for line in lines]
    assert found == [(GROUPS[entry.group], name, entry.about) for name, entry in COMMANDS.items()]
    assert max(map(len, printed.splitlines())) <= 100


def test_version(done):
    assert done("--version") == done("-V") == f"{package.__version__}\n"


@pytest.mark.parametrize("command", [*([c] for c in COMMANDS), ["data", "show"]], ids=" ".join)
def test_help_of_every_command_shows_an_example(done, command):
    printed = done(*command, "--help")
    examples = re.split(r"examples?:\n", printed)[1]
    assert examples.startswith(f"  coterie {' '.join(command)}")


def test_help_of_a_run_shows_the_options_of_its_parts(done):
    printed = flat(done("run", "--data", "titanic", "--method", "finetune", "--kernel", "adam", "--help"))
    for option in options_of(Settings):
        assert f"--{option.name.replace('_', '-')} " in printed
    for flag in ("--finetune.tune INT", "--adam.beta1 FLOAT", "--titanic.minor-if-unknown"):
        assert flag in printed
    assert "Rounds at the end in which each client trains alone. (default: 5)" in printed
    assert "--fedavg.sample" not in printed
    assert "--sgd.lr FLOAT" not in printed


def test_a_run_with_defaults_writes_its_folder(done):
    printed = done("run", "--data", "digits", "--rounds", "2")
    folder = Path("runs/digits-shift-fedavg-seed0")
    assert {p.name for p in folder.iterdir()} == FILES
    assert printed.splitlines()[-1] == f"report: {folder}/report.html"
    assert "fedavg" in printed
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert len(read_models(folder)) == 10
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    about = json.loads((folder / "run.json").read_text())
    assert sum(c["train"] + c["test"] for c in about["clients"]) <= 1797
    done("run", "--data", "digits", "--rounds", "1")
    assert sorted(p.name for p in Path("runs").iterdir()) == [folder.name, f"{folder.name}-2"]


def test_the_command_is_kept_as_typed(done, monkeypatch):
    words = ["run", *TITANIC, "--out", "here"]
    monkeypatch.setattr("sys.argv", ["coterie", *words])
    done(*words)
    assert json.loads(Path("here/run.json").read_text())["command"] == "coterie " + " ".join(words)


def test_flags_and_a_file_say_the_same(done):
    Path("my.toml").write_text(
        'data = "titanic"\nrounds = 2\nmethod = "finetune"\nvalidation = 0.1\n'
        "[finetune]\ntune = 1\nweighted = false\n[sgd]\nlr = 0.5\n[age-strict]\nunknown = 'drop'\n"
    )
    done("run", "--config", "my.toml", "--out", "by-file")
    flags = ["--method", "finetune", "--validation", "0.1", "--finetune.tune", "1", "--finetune.no-weighted"]
    flags += ["--sgd.lr", "0.5", "--age-strict.unknown", "drop"]
    done("run", *TITANIC, *flags, "--out", "by-flags")
    for name in ("config.toml", "metrics.jsonl", "models.safetensors"):
        assert Path("by-file", name).read_bytes() == Path("by-flags", name).read_bytes()
    config = config_of("by-file")
    assert config["finetune"] == {"tune": 1, "weighted": False, "sample": 1.0, "norm": "average"}
    assert config["age-strict"] == {"unknown": "drop"}
    assert (config["split"], config["model"], config["validation"]) == ("age-strict", "logistic", 0.1)


def test_flags_go_before_the_file(done):
    Path("my.toml").write_text(
        'data = "titanic"\nrounds = 9\nseed = 1\nout = "there"\n[sgd]\nlr = 0.5\nbatch = 8\n'
    )
    done("run", "--config=my.toml", "--rounds=1", "--sgd.batch", "16", "--out", "here")
    config = config_of("here")
    assert (config["rounds"], config["seed"]) == (1, 1)
    assert (config["sgd"]["lr"], config["sgd"]["batch"]) == (0.5, 16)
    assert not Path("there").exists()


def test_a_runs_own_config_repeats_it(done):
    done("run", *TITANIC, "--method", "local", "--seed", "6", "--wrap", "absent=0.3", "--out", "one")
    done("run", "--config", "one/config.toml", "--out", "two")
    assert config_of("one")["wrap"] == ["absent=0.3"]
    for name in ("config.toml", "metrics.jsonl", "models.safetensors"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    assert "away when models were scored last" in Path("one/report.html").read_text()


def accuracies(path: str) -> float:
    """The mean over clients after the last round, from the run's own lines."""
    last = json.loads(Path(path, "metrics.jsonl").read_text().splitlines()[-1])
    values = last["scores"]["own/test"]["accuracy"]
    return sum(values) / len(values)


COMPARE = ("compare", *TITANIC, "--methods", "local", "fedavg", "fedavg:weighted=false", "--seeds", "2")


def test_a_comparison(done):
    printed = done(*COMPARE, "--out", "here")
    figures = [line.split() for line in printed.splitlines() if "±" in line]
    assert [row[0] for row in figures[:3]] == ["nothing", "local", "fedavg"]
    assert "fedavg:weight" in printed
    means = [
        sum(accuracies(f"here/{name}/seed-{seed}") for seed in (0, 1)) / 2 for name in ("local", "fedavg")
    ]
    assert [row[1] for row in figures[1:3]] == [f"{100 * mean:.1f}" for mean in means]
    assert printed.splitlines()[-1] == "report: here/report.html"
    assert {p.name for p in Path("here").iterdir()} == {
        ".lock",
        "compare.toml",
        "report.html",
        "timings.jsonl",
        "nothing",
        "local",
        "fedavg",
        "fedavg-weighted-false",
    }
    assert "fedavg:weighted=false" in Path("here/report.html").read_text()
    before = {p: p.stat().st_mtime_ns for p in Path("here").rglob("models.safetensors")}
    assert len(before) == 8
    again = done("resume", "here")
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert again.splitlines()[-1] == "report: here/report.html"


def test_a_cell_of_a_comparison_is_a_run_like_any_other(done):
    done(
        "compare", *TITANIC, "--methods", "fedavg:sample=0.5", "--seeds", "1", "--seed", "3", "--out", "here"
    )
    done("run", *TITANIC, "--fedavg.sample", "0.5", "--seed", "3", "--out", "alone")
    cell = Path("here/fedavg-sample-0.5/seed-3")
    for name in ("metrics.jsonl", "models.safetensors", "config.toml"):
        assert (cell / name).read_bytes() == Path("alone", name).read_bytes()


def test_methods_from_a_file_and_their_options_as_flags(done):
    Path("my.toml").write_text('data = "titanic"\nrounds = 2\nmethods = ["fedavg", "finetune"]\nseeds = 1\n')
    flags = ["--finetune.tune", "1", "--fedavg.sample", "0.5", "--sgd.lr", "0.5"]
    done("compare", "--config", "my.toml", *flags, "--out", "here")
    assert config_of("here/fedavg/seed-0")["fedavg"]["sample"] == 0.5
    assert config_of("here/finetune/seed-0")["finetune"]["tune"] == 1


def test_a_comparison_with_nothing_but_its_data(done):
    Path("runs/compare-titanic-age-strict").mkdir(parents=True)
    printed = done("compare", "--data", "titanic", "--rounds", "6", "--seeds", "1")
    assert printed.splitlines()[-1] == "report: runs/compare-titanic-age-strict-2/report.html"
    made = {p.parent.name for p in Path("runs/compare-titanic-age-strict-2").glob("*/seed-0")}
    assert made == {"nothing", "local", "fedavg", "finetune", "central"}


@pytest.mark.parametrize("text", ['methods = "local"', 'seeds = "three"', "out = 3"])
def test_a_file_with_a_value_of_another_type(refused, text):
    Path("my.toml").write_text(text)
    assert "must be a" in refused("compare", *TITANIC, "--config", "my.toml", "--methods", "fedavg")


def test_a_comparison_that_cannot_begin_leaves_nothing_behind(refused):
    keeping = "weight-erosion:requester=all,sgd.keep=true"
    said = refused("compare", *TITANIC, "--methods", "fedavg", keeping, "--out", "here")
    assert "keep" in said
    said = refused("compare", "--data", "digits", "--methods", "fedavg", "--clients", "1000", "--out", "here")
    assert "1000 clients need 2000 training samples" in said


def test_resuming_a_finished_run(coterie, done):
    done("run", *TITANIC, "--out", "here")
    before = {n: Path("here", n).read_bytes() for n in FILES - {"report.html", "timings.jsonl"}}
    Path("here/report.html").unlink()
    code, printed, said = coterie("resume", "here")
    assert code == 0
    assert "2 of 2 rounds: it was finished" in said
    assert printed.splitlines()[-1] == "report: here/report.html"
    assert Path("here/report.html").exists()
    assert {n: Path("here", n).read_bytes() for n in before} == before
    Path("here/models.safetensors").unlink()
    done("resume", "here")
    assert Path("here/models.safetensors").read_bytes() == before["models.safetensors"]


@pytest.fixture
def interrupted(coterie, monkeypatch):
    """Runs a command and presses Ctrl-C once a run that is not over has finished its first round."""

    def run(*words: str) -> str:
        def watcher(bar, label, before=0):
            def watch(record):
                if record.done == 1 and not record.finished:
                    raise KeyboardInterrupt

            return watch

        with monkeypatch.context() as patched:
            patched.setattr("coterie.cli.screen.watcher", watcher)
            code, _, said = coterie(*words)
        assert code == 130
        return said.splitlines()[-1]

    return run


def test_a_comparison_interrupted_again_and_again(interrupted, done):
    done("compare", *TITANIC, "--methods", "fedavg", "central", "--seeds", "1", "--out", "whole")
    words = ("compare", *TITANIC, "--methods", "fedavg", "central", "--seeds", "1", "--out", "here")
    assert interrupted(*words).endswith("go on with 'coterie resume here'")
    assert "stopped after round 1 of 2" in flat(done("report", "here"))
    assert interrupted("resume", "here").endswith("go on with 'coterie resume here'")
    done("resume", "here")
    for place in ("fedavg/seed-0", "central/seed-0"):
        for name in ("metrics.jsonl", "models.safetensors", "config.toml"):
            assert Path("here", place, name).read_bytes() == Path("whole", place, name).read_bytes()


def test_a_resumed_run_takes_the_threads_it_began_with(done, monkeypatch):
    done("run", *TITANIC, "--out", "here")
    Path("here/models.safetensors").unlink()
    about = json.loads(Path("here/run.json").read_text())
    threads = about["machine"]["threads"]
    assert threads == torch.get_num_threads()
    about["machine"]["threads"] = threads + 1
    Path("here/run.json").write_text(json.dumps(about))
    used = []
    monkeypatch.setattr(runner, "use", used.append)
    done("resume", "here")
    assert used == [threads + 1]
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", ["config.toml", "compare.toml"])
@pytest.mark.parametrize("command", ["report", "resume"])
def test_a_folder_whose_file_lost_its_lines(refused, name, command):
    Path("here").mkdir()
    Path("here", name).write_text("rounds = 2\n")
    Path("here/run.json").write_text("{}")
    assert refused(command, "here").startswith("coterie: here")


def test_a_run_from_python_is_resumed_there(refused):
    client = package.Client.from_arrays([[0.0], [1.0]] * 5, [0, 1] * 5, name="a")
    package.train(torch.nn.Linear(1, 2), [client], rounds=1, out="mine")
    said = refused("resume", "mine")
    assert said == (
        "coterie: mine was started from Python: call coterie.train again with out='mine', resume=True"
    )


def test_report_with_tables_and_figures(done):
    done("run", *TITANIC, "--method", "local", "--out", "here")
    Path("here/report.html").unlink()
    printed = done("report", "here", "--csv", "--figures", "svg")
    assert Path("here/report.html").exists()
    written = [
        line.partition(": ")[2] for line in printed.splitlines() if line.startswith(("table:", "figure:"))
    ]
    assert {"here/history.csv", "here/summary.csv", "here/clients.csv"} <= set(written)
    figures = [name for name in written if name.endswith(".svg")]
    assert "here/figures/rounds.svg" in figures
    assert all(Path(name).read_text().startswith("<?xml") for name in figures)
    with Path("here/clients.csv").open() as file:
        clients = list(csv.DictReader(file))
    assert [c["client"] for c in clients] == ["age 0-20", "age 21-35", "age 36+", "age unknown"]
    assert sum(int(c["train"]) + int(c["test"]) for c in clients) == 1309
    with Path("here/summary.csv").open() as file:
        (summary,) = csv.DictReader(file)
    assert (summary["method"], summary["rounds"]) == ("local", "2")
    mean = sum(float(c["accuracy"]) for c in clients) / 4
    assert float(summary["accuracy"]) == pytest.approx(mean)


def test_report_of_several_runs_in_one_folder(done):
    done("run", *TITANIC, "--out", "all/one")
    done("run", *TITANIC, "--method", "local", "--out", "all/two")
    Path("all/notes.txt").write_text("not a run")
    printed = done("report", "all", "--csv")
    assert "report: all/report.html" in printed
    for name in ("one", "two"):
        assert Path("all", name, "history.csv").exists()
    assert Path("all/report.html").read_text().count("titanic, split by age-strict") >= 2


def test_report_of_a_run_that_is_not_over(coterie, done):
    done("run", *TITANIC, "--out", "here")
    lines = Path("here/metrics.jsonl").read_text().splitlines(keepends=True)
    Path("here/metrics.jsonl").write_text("".join(lines[:2]))
    assert "stopped after round 1 of 2" in flat(done("report", "here"))
    Path("here/metrics.jsonl").write_text("")
    code, _, said = coterie("report", "here")
    assert code == 2
    assert said == "coterie: here has no finished round yet: go on with 'coterie resume here'\n"


def test_data_list(done):
    printed = done("data", "list")
    rows = {line.split()[0]: line.split()[1:3] for line in printed.splitlines()[1:] if line[1:2].strip()}
    assert set(SOURCES) <= rows.keys()
    assert rows["digits"][0] == rows["titanic"][0] == "yes"


def test_data_show_counts_labels(done):
    rows = done("data", "show", "titanic", "--validation", "0.2").splitlines()
    assert rows[0].split() == ["client", "died", "survived", "training", "validation", "test"]
    counts = {" ".join(r.split()[:-5]): [int(n) for n in r.split()[-5:]] for r in rows[1:]}
    assert list(counts) == ["age 0-20", "age 21-35", "age 36+", "age unknown"]
    assert {c: sum(n[2:]) for c, n in counts.items()} == {
        "age 0-20": 248,
        "age 21-35": 476,
        "age 36+": 322,
        "age unknown": 263,
    }
    for died, survived, training, validation, test in counts.values():
        assert died + survived == training
        assert test == round(0.3 * (training + validation + test))
        assert validation == round(0.2 * (training + validation))


def test_of_many_classes_the_first_are_shown():
    labels = [[*range(30)], [0] * 30, [1] * 30]
    client = {"name": "a", "train": 435, "validation": 0, "test": 30, "labels": labels}
    table = label_table({"classes": [f"c{i}" for i in range(30)], "clients": [client]})
    assert [str(c.header) for c in table.columns][1:] == [
        *(f"c{i}" for i in range(20)),
        "training",
        "validation",
        "test",
    ]
    assert table.caption == "the first 20 of 30 classes"


def test_data_show_follows_the_split(done):
    words = ["--split", "shift", "--shift.distribution", "C", "--clients", "10", "--seed", "1"]
    rows = done("data", "show", "digits", *words).splitlines()
    assert rows[0].split()[1:11] == list("0123456789")
    first = rows[1].split()
    assert first[0] == "client-0"
    assert [n == "·" for n in first[1:11]] == [False] * 4 + [True] * 6
    assert len(rows) == 11
    assert rows == done("data", "show", "--data", "digits", *words).splitlines()


def test_data_show_of_a_regression(done):
    rows = done("data", "show", "diabetes", "--clients", "4").splitlines()
    assert rows[0].split() == ["client", "training", "validation", "test"]
    assert sum(int(n) for r in rows[1:] for n in r.split()[1:]) == 442


def test_methods_lists_every_name(done):
    words = set(done("methods").split())
    for kind in ("method", "split", "model", "kernel", "engine"):
        assert words.issuperset(PARTS[kind])


@pytest.mark.parametrize("kind", PARTS)
def test_methods_explains_every_part_with_its_options(done, kind):
    for name, cls in PARTS[kind].items():
        printed = done("methods", name)
        assert f"\n{name}: {cls.__doc__.splitlines()[0]}" in printed
        for option in options_of(cls):
            assert f"--{name}.{option.name.replace('_', '-')} (default: " in printed
            assert option.help.strip(), f"{name}.{option.name} has no help"
            assert option.help.split("\n")[0] in printed


def test_a_plugin_is_a_method_like_any_other(done, monkeypatch):
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    Path("mine.py").write_text(
        '"""A method of my own."""\n'
        "from dataclasses import dataclass\n"
        "from coterie.core.method import METHODS\n"
        "from coterie.methods.server.fedavg import FedAvg\n"
        '@METHODS.register("mine-too")\n'
        "@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n"
        '    """FedAvg under another name."""\n'
    )
    words = ["--plugins=mine.py", "--method", "mine-too", "--mine-too.sample", "0.5"]
    done("run", *TITANIC, *words, "--out", "here")
    config = config_of("here")
    assert config["mine-too"] == {"weighted": True, "sample": 0.5, "norm": "average"}
    done("run", *TITANIC, "--fedavg.sample", "0.5", "--out", "there")
    assert Path("here/metrics.jsonl").read_bytes() == Path("there/metrics.jsonl").read_bytes()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert "report: ../here/report.html" in done("resume", "../here")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "plugin mine.py is not a Python file: check the path"),
        ("1 / 0", "plugin mine.py fails: ZeroDivisionError: division by zero"),
        ("def", "plugin mine.py fails: SyntaxError: invalid syntax"),
    ],
)
def test_a_plugin_that_fails(refused, content, said):
    if content is not None:
        Path("mine.py").write_text(content)
    assert said in refused("run", *TITANIC, "--plugins", "mine.py")


@pytest.mark.parametrize("words", [["--help"], ["methods"]], ids=" ".join)
def test_a_reader_that_goes_away(words, monkeypatch, capfd):
    """As in `coterie methods | head -1`: nothing on the screen, and the exit code of a broken pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(words) == 141
    assert capfd.readouterr().err == ""


def test_the_flag_that_was_meant(refused):
    said = refused("run", "--method", "finetune", "--no-finetune.weighted")
    assert "did you mean --finetune.weighted?" in said


def test_where_the_time_went(coterie, done, monkeypatch, caplog):
    monkeypatch.setattr(clock.CLOCK, "_spent", dict.fromkeys(clock.PARTS, 0.0))
    with caplog.at_level(logging.INFO, "coterie"):  # as -v sets it, for the whole process
        code, _, said = coterie("run", *TITANIC, "--out", "here")
    assert code == 0
    table = said[said.index("where the time went") :].splitlines()[2:]
    assert [line.split()[0] for line in table] == [*clock.PARTS, "in"]
    whole = json.loads(Path("here/timings.jsonl").read_text().splitlines()[-1])["whole"]
    assert tuple(whole) == clock.PARTS
    assert all(whole[part] > 0 for part in ("data", "training", "scoring", "writing", "report"))
    shares = [int(line.split()[-1]) for line in table]
    assert abs(sum(shares[:-1]) - 100) <= 4
    page = Path("here/report.html").read_text()
    assert "Where the time went" in page
    done("report", "here")  # the page again, from the folder
    assert "Where the time went" in Path("here/report.html").read_text()
