"""Each feature's folder can be taken away: a run still works, and its models are the same (`without.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import features


def loaded(monkeypatch, folder, text):
    """What is found of a feature whose hook is this text."""
    (folder / "made_up").mkdir()
    (folder / "made_up" / "__init__.py").touch()
    (folder / "made_up" / "hook.py").write_text(text)
    monkeypatch.setattr(features, "__path__", [*features.__path__, str(folder)])
    there = (*features.names(), "made_up")
    monkeypatch.setattr(features, "names", lambda: there)
    try:
        return features._loaded("made_up", "hook")
    finally:
        for name in [name for name in sys.modules if name.startswith("coterie.features.made_up")]:
            del sys.modules[name]
        vars(features).pop("made_up", None)


@pytest.mark.parametrize("lacks", ["coterie.features.energy.recrod", "coterie.runs.hoks", "no_such_library"])
def test_a_feature_that_is_there_is_not_left_out_in_silence(lacks, monkeypatch, tmp_path):
    with pytest.raises(ModuleNotFoundError, match=lacks):
        loaded(monkeypatch, tmp_path, f"import {lacks}\n")


def test_a_feature_without_what_it_stands_on_is_left_out(monkeypatch, tmp_path):
    assert loaded(monkeypatch, tmp_path, "import coterie.features.taken_away.hook\n") is None


def test_a_hook_that_is_there_is_found(monkeypatch, tmp_path):
    assert loaded(monkeypatch, tmp_path, "HOOK = 1\n").HOOK == 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("without")
    script = Path(__file__).with_name("without.py")
    done = subprocess.run(
        [sys.executable, str(script), str(home)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.stem: json.loads(path.read_text()) for path in home.glob("*.json")}, done.stderr


@pytest.mark.parametrize("name", [*features.names(), "all"])
def test_a_run_does_without(name, runs):
    """From the shell and from Python."""
    found, said = runs
    assert name in found, said[-3000:]
    whole, rest = found["nothing"], found[name]
    assert (rest["code"], rest["report"]) == (0, True), said[-3000:]
    assert rest["scores"] == whole["scores"]
    assert rest["models"] == whole["models"]
    assert rest["python"] == whole["python"]
    left_out = set(features.names()) if name == "all" else {name}
    assert not left_out & set(rest["loaded"])
