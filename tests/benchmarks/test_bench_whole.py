"""`coterie bench whole` in its quick version, and that plain scripts do the same work as ours."""

from __future__ import annotations

import csv
import json
import math
import re
import runpy
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from coterie.cli.flags import read_settings
from coterie.cli.main import main
from coterie.core.errors import BadInput, CoterieError, UnknownName
from coterie.core.held import at_coordinator, handles_in, hold
from coterie.data import downloads
from coterie.data.sources import SOURCES
from coterie.nets import InProcess
from coterie.runs.builder import Builder
from coterie.runs.compare import Comparison
from coterie.runs.settings import Settings
from coterie.storage import plugins
from coterie.studies.bench import table, whole
from coterie.studies.bench.command import bench
from coterie.studies.bench.whole import (
    NINE,
    SCRIPTS,
    STUDIES,
    WHOLES,
    Row,
    Study,
    Target,
    busy,
    measure_whole,
    row_of,
    timed,
)

COLUMNS = ("seed", "method", "round", "client", "accuracy", "balanced_accuracy", "auc", "ece", "brier", "nll")
STEADY = ("local", "fedavg", "finetune", "weight-erosion", "pens", "fl-swag", "central")
"""Methods whose steps do not depend on whom they choose."""


@pytest.fixture(autouse=True)
def in_empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as in the tests' own process


def read(path):
    with open(path) as file:
        return list(csv.DictReader(file))


@pytest.fixture
def plain(monkeypatch, capsys):
    """Runs a plain script in this process; returns its names, and what it printed."""

    def run(script, *words):
        capsys.readouterr()
        monkeypatch.syspath_prepend(str(SCRIPTS))
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, words)])
        try:
            made = runpy.run_path(str(SCRIPTS / script), run_name="__main__")
        finally:
            sys.modules.pop("plain_common", None)
        return made, capsys.readouterr().out

    return run


@pytest.fixture
def in_this_process(plain, monkeypatch):
    """Commands without a process of their own: the same words, and no start-up. Plugins are forgotten."""

    def run(name, words, folder):
        if words[1:3] == ["-m", "coterie"]:
            assert main(words[3:]) == 0
        else:
            (folder / "stdout.txt").write_text(plain(*words[1:])[1])
        return 1.0

    monkeypatch.setattr(whole, "timed", run)
    monkeypatch.setattr(SOURCES, "_known", dict(SOURCES._known))
    monkeypatch.setattr(plugins, "_loaded", set())


def steps_said(printed):
    return {line.split()[0]: int(line.split()[-1]) for line in printed.splitlines()}


@pytest.mark.slow
def test_both_sides_of_a_study_run_by_themselves(tmp_path, capsys):
    name = "study-titanic"
    assert bench(["whole", "--quick", "--workloads", name, "--out", "kept", "--csv", "made/whole.csv"]) == 0
    assert f"{name}: 1 repeats" in capsys.readouterr().out
    (row,) = read(tmp_path / "made" / "whole.csv")
    assert tuple(row) == tuple(f.name for f in fields(Row))
    assert (row["workload"], row["beside"], row["repeats"]) == (name, "plain script", "1")
    found = {column: float(row[column]) for column in ("ours_best", "other_best", "ratio_best")}
    assert found["ratio_best"] == pytest.approx(found["other_best"] / found["ours_best"], rel=1e-4)
    check_written(tmp_path / "kept" / name, name)


@pytest.mark.parametrize("name", ["study-hospitals", "study-digits"])
def test_both_sides_of_a_study_write_all_scores(name, tmp_path, in_this_process):
    if not STUDIES[name].comparison.settings.made("data").at_hand():
        pytest.skip(f"{name} needs data that is not at hand")
    assert measure_whole(WHOLES[name], 1, quick=True, out=tmp_path / "kept").ratio_best == 1
    check_written(tmp_path / "kept", name)


def check_written(kept, name):
    """Scores of every method, round and client by the plain script; folders and a report by ours."""
    methods, data = STUDIES[name].comparison.methods, f"{name.removeprefix('study-')}.npz"
    clients = np.load(kept / data)["0/names"].tolist()
    scores = read(kept / "plain-script-1" / "scores.csv")
    assert tuple(scores[0]) == COLUMNS
    assert [(s["method"], s["round"], s["client"]) for s in scores] == [
        (m, str(r), c) for m in methods for r in (1, 2) for c in clients
    ]
    assert list(steps_said((kept / "plain-script-1" / "stdout.txt").read_text())) == list(methods)
    study = kept / "ours-1" / "study"
    assert (study / "report.html").is_file()
    assert sorted(p.name for p in study.iterdir() if p.is_dir()) == sorted([*methods, "nothing"])


@pytest.mark.slow
def test_a_first_run_beside_torch(tmp_path):
    row = measure_whole(WHOLES["first-run"], 1, quick=True, out=tmp_path / "kept")
    assert row.beside == "import torch"
    assert min(row.ours_best, row.other_best) > 0
    assert (tmp_path / "kept" / "ours-1" / "run" / "report.html").is_file()


def test_many_clients_beside_their_bare_training(tmp_path, in_this_process):
    row = measure_whole(WHOLES["many"], 1, quick=True, out=tmp_path / "kept")
    assert (row.beside, row.ours_best) == ("bare training", 1)
    assert row.other_best > 0
    about = json.loads((tmp_path / "kept" / "ours-1" / "run" / "run.json").read_text())
    assert [(c["train"], c["test"]) for c in about["clients"]] == [(50, 10)] * 20
    assert about["parameters"] == 784 * 10 + 10


def test_steps_are_those_of_ours(plain, tmp_path, monkeypatch):
    """All nine methods, on Titanic's clients, which are always at hand."""
    titanic = STUDIES["study-titanic"].small().comparison
    study = replace(titanic, methods=NINE)
    whole.write_clients(tmp_path / "clients.npz", study)
    words = ["scores.csv", "--data", "clients.npz", "--seeds", 1, "--rounds", 2]
    _, printed = plain("plain_hospitals.py", *words)
    found = steps_said(printed)
    assert list(found) == list(NINE)
    ours = steps_of_ours(study, monkeypatch)
    assert {m: found[m] for m in STEADY} == {m: ours[m] for m in STEADY}
    for chooses in ("ndoye", "influence"):
        assert found[chooses] == pytest.approx(ours[chooses], rel=0.6)
    _, printed = plain("plain_titanic.py", *words)
    assert steps_said(printed) == {m: ours[m] for m in titanic.methods}


def steps_of_ours(comparison, monkeypatch):
    """Gradient steps of every method's rounds, from the plans of its visits."""
    taken, builder = {}, Builder()
    visit = InProcess.visit

    def counting(net, kernel, beliefs, edges, key, *more, **named):
        if hasattr(kernel, "plan"):
            steps.append(sum(len(kernel.plan(len(net.clients[h].train), key)) for h in edges[:, 1].tolist()))
        return visit(net, kernel, beliefs, edges, key, *more, **named)

    monkeypatch.setattr(InProcess, "visit", counting)
    for place, settings in comparison.cells():
        steps = []
        experiment = builder.prepare(settings)
        method, net, rounds = experiment.method, experiment.net, experiment.rounds
        state = method.init(hold(experiment.beliefs, at_coordinator(1)), net)
        for r in range(1, rounds + 1):
            state, _ = method.round(state, net, experiment.key.at_round(r, rounds))
            net.keep(handles_in(state), r)
        taken[Path(place).parent.name] = sum(steps)
    return taken


def test_scores_are_those_of_ours(plain, tmp_path):
    """The models of one of our runs, scored by the plain script on the rows that it was handed."""
    study = Comparison(Settings(data="titanic", kernel="sgd", rounds=2), ("local",), 1)
    whole.write_clients(tmp_path / "clients.npz", study)
    words = ["--methods", "local", "--seeds", "1", "--out", "run"]
    assert main(["compare", *whole.flags(study.settings), *words]) == 0
    folder = tmp_path / "run" / "local" / "seed-0"
    ours = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["scores"]["own/test"]
    models = load_file(folder / "models.safetensors")

    made, _ = plain("plain_titanic.py", "s.csv", "--data", "clients.npz", "--seeds", 1, "--rounds", 2)
    common = made["run_study"].__globals__
    clients = common["load_clients"]("clients.npz", 0)
    for i, client in enumerate(clients):
        model = common["Logistic"](clients[0].train_x.shape[1], 2)
        model.load_state_dict({f"linear.{n}": models[f"head.{n}"][i] for n in ("weight", "bias")})
        scores = common["evaluate"]([model], client.test_x, client.test_y)
        for metric, value in scores.items():
            # two rows that are equal but for rounding may change places
            assert value == pytest.approx(ours[metric][i], abs=2e-3 if metric == "auc" else 1e-5), metric


def test_busy_processes_stand_beside_and_are_gone_after(monkeypatch):
    started = recorded(monkeypatch)
    monkeypatch.setattr(Study, "ours", lambda study: [sys.executable, "-c", "pass"])
    row = measure_whole(WHOLES["busy"], 2, quick=True)
    burners = [c for c in started if "burn.py" in str(c.args)]
    others = [c for c in started if c not in burners]
    assert len(burners) == 2 * (whole.os.cpu_count() or 1)
    assert [c.returncode for c in others] == [0] * 4
    assert all(c.returncode == -9 for c in burners)
    assert (row.repeats, row.target) == (2, "at most 3 x its seconds")


def recorded(monkeypatch):
    """Every process that the bench starts from now on."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            started.append(self)

    monkeypatch.setattr(whole.subprocess, "Popen", Recorded)
    return started


def test_nothing_is_left_running_after_ctrl_c(monkeypatch, tmp_path):
    started, waits = recorded(monkeypatch), []
    wait = subprocess.Popen.wait

    def interrupted(child, timeout=None):
        waits.append(child)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return wait(child, timeout)

    monkeypatch.setattr(whole.subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), busy(1):
        timed("a sleep", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    assert [c.returncode for c in started] == [-9, -9]


def test_a_busy_process_ends_by_itself():
    assert subprocess.run([sys.executable, str(SCRIPTS / "burn.py"), "0"], timeout=60).returncode == 0


def test_a_failure_stops_in_one_line(tmp_path, refused):
    said = "import sys; print('much before', file=sys.stderr); sys.exit('no room left')"
    with refused(CoterieError, "study-x, plain ended with code 1: no room left"):
        timed("study-x, plain", [sys.executable, "-c", said], tmp_path)
    with refused(CoterieError, "study-x, plain ended with code 3: it said nothing"):
        timed("study-x, plain", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_a_workload_without_its_data_is_refused_before_anything_runs(monkeypatch, tmp_path, refused):
    monkeypatch.setattr(downloads, "roots", lambda: [tmp_path])
    started = recorded(monkeypatch)
    with refused(
        BadInput,
        "study-hospitals needs data that is not at hand: coterie data fetch heart-disease, or name other "
        "--workloads",
    ):
        bench(["whole", "--quick"])
    assert not started


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (["--workloads", "linear-100"], UnknownName, "unknown workload 'linear-100'"),
        (["--workloads", "study-titanik"], UnknownName, "did you mean study-titanic"),
        (["--engines", "loop"], BadInput, "leave out --engines and --loops"),
        (["--loops", "plain"], BadInput, "leave out --engines and --loops"),
        (["--repeats", "0"], BadInput, "repeats=0 must be at least 1"),
        (["--out", "."], BadInput, "is there already: name another --out"),
    ],
)
def test_refusals_in_one_line(words, kind, message):
    with pytest.raises(kind, match=message) as caught:
        bench(["whole", *words])
    assert "\n" not in str(caught.value)


def test_sides_take_turns_and_leave_nothing(tmp_path):
    turns = []

    def side(name, seconds):
        def run(folder):
            assert not list(folder.iterdir())
            (folder / "written").touch()
            turns.append((name, folder))
            return seconds.pop(0)

        return run

    def ready(folder, quick):
        return side("ours", [2.0, 1.0, 4.0]), side("other", [9.0, 6.0, 6.0])

    row = measure_whole(replace(WHOLES["study-titanic"], ready=ready), 3, quick=False)
    assert [name for name, _ in turns] == ["ours", "other"] * 3
    assert not any(folder.parent.exists() for _, folder in turns)
    assert (row.ours_best, row.ours_median, row.other_best, row.other_median) == (1, 2, 6, 6)
    assert (row.ratio_best, row.ratio_median, row.met) == (6, 3, True)


@pytest.mark.parametrize(
    ("target", "words", "ours", "met"),
    [
        (Target(1 / 3), "at least 3 times as fast", 3.34, False),
        (Target(1 / 3, most=25), "at least 3 times as fast, at most 25 s", 3.3, True),
        (Target(1 / 3, most=3), "at least 3 times as fast, at most 3 s", 3.3, False),
        (Target(1.5, more=0.5), "at most 1.5 x its seconds + 0.5", 15.4, True),
        (Target(1.5, more=0.5), "at most 1.5 x its seconds + 0.5", 15.6, False),
        (Target(2), "at most 2 x its seconds", 20.0, True),
    ],
)
def test_targets(target, words, ours, met):
    assert str(target) == words
    assert target.met(ours, other=10.0) is met


def test_markdown_has_a_line_for_each_workload():
    rows = [row_of(WHOLES[n], [2.0, 3.0, 4.0], [6.0, 6.0, 12.0]) for n in ("study-titanic", "busy")]
    text = table.whole_markdown(rows, "coterie bench whole")
    seconds = "2.00 | 3.00 | 6.00 | 6.00 | 3.00 | 2.00"
    assert f"| `study-titanic` | plain script | {seconds} | at least 3 times as fast | no |" in text
    assert f"| `busy` | the same alone | {seconds} | at most 3 x its seconds | yes |" in text
    assert "`coterie bench whole`, commit " in text
    assert WHOLES["busy"].about in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("small", [False, True])
def test_words_mean_the_study(name, small):
    study = STUDIES[name].small() if small else STUDIES[name]
    words = [w for w in study.ours()[4:] if w]
    methods = study.comparison.methods
    assert words[-len(methods) - 3 :] == ["--methods", *methods, "--seeds", str(study.comparison.seeds)]
    read_back, _ = read_settings(words[: -len(methods) - 3], "compare", "", [], methods)
    again = Comparison(read_back, methods, study.comparison.seeds)
    assert list(again.cells()) == list(study.comparison.cells())


def test_scripts_import_nothing_of_ours():
    for script in SCRIPTS.glob("plain_*.py"):
        assert not re.search(r"(import|from) coterie", script.read_text()), script


def test_pictures_can_be_learned():
    whole.write_pictures(Path("pictures.npz"), train=400, test=100)
    data = np.load("pictures.npz")
    assert data["train_x"].shape == (400, 1, whole.SIDE, whole.SIDE)
    assert data["test_y"].shape == (100,)
    assert len(np.unique(data["train_y"])) == whole.CLASSES
    assert data["train_x"].dtype == np.uint8
    assert math.isclose(float(torch.from_numpy(data["train_x"]).float().mean()), 127.5, rel_tol=0.01)
