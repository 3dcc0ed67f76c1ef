"""Each feature's folder can be taken away: a run still works, and its models are the same (`without.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import features


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
