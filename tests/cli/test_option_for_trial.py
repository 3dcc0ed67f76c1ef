"""A new option of a run is one field of `Settings`: flag, help, completion, keyword, bound, record follow."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import coterie
from coterie.api.checks import KEYWORDS
from coterie.runs import settings
from coterie.runs.settings import FACTS

FIELD = '''    trial: int = setting(3, least=1)
    """An option for trial."""
    seed: int = setting('''
CHILD = """
import contextlib, importlib.util, inspect, io, sys
import coterie, coterie.runs
spec = importlib.util.spec_from_file_location("coterie.runs.settings", "settings.py")
module = importlib.util.module_from_spec(spec)
sys.modules["coterie.runs.settings"] = coterie.runs.settings = module
spec.loader.exec_module(module)

from coterie.cli import completion
from coterie.cli.main import main

def said(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = main(list(words))
    return code, out.getvalue()

code, text = said("run", "--help")
assert code == 0 and "--trial INT" in text and "An option for trial. (default: 3)" in text, text
below = completion.everything()["subcommands"]
for command in ("run", "compare", "tune"):
    assert any("--trial" in option["flags"] for option in below[command]["options"]), command
code, text = said("run", "--trial", "0")
assert code == 2 and "trial=0 must be at least 1: try 3" in text, text
small = ("run", "--data", "digits", "--clients", "2", "--rounds", "1", "--method", "local")
code, text = said(*small, "--trial", "5", "--out", "shell")
assert code == 0, text
for function in (coterie.train, coterie.compare):
    assert inspect.signature(function).parameters["trial"].default == 3
    assert "An option for trial." in function.__doc__
clients = [coterie.Client.from_arrays([[0.0], [1.0]] * 5, [0, 1] * 5, name=n, test=0.4) for n in "ab"]
coterie.train("logistic", clients, rounds=1, trial=5, out="python", progress=False)
try:
    coterie.train("logistic", clients, trial=0)
except coterie.CoterieError as error:
    assert str(error) == "trial=0 must be a whole number of at least 1: try 3", error
else:
    raise AssertionError("trial=0 was taken")
"""


def test_one_field_is_all_it_takes(tmp_path):
    """Tried in a process of its own, on a copy of the file with one field more."""
    source = Path(settings.__file__).read_text()
    assert source.count("    seed: int = setting(") == 1
    (tmp_path / "settings.py").write_text(source.replace("    seed: int = setting(", FIELD))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    for place in ("shell", "python"):
        assert tomllib.loads((tmp_path / place / "config.toml").read_text())["trial"] == 5


@pytest.mark.parametrize("function", [coterie.train, coterie.compare])
def test_every_setting_of_a_run_is_a_keyword(function):
    """But those that decide which rows there are, which clients have already, and what has arguments."""
    known = inspect.signature(function).parameters
    missing = {name for name, facts in FACTS.items() if name not in known and not facts.source}
    assert missing - {"model", "method", "kernel"} == set()
    for name, option in KEYWORDS.items():
        if name not in ("init", "budget"):
            assert known[name].default == option.default, name


def test_states_of_earlier_rounds_can_be_kept_from_python(tmp_path):
    rows = [[0.0], [1.0]] * 5
    clients = [coterie.Client.from_arrays(rows, [0, 1] * 5, name=name, test=0.4) for name in "ab"]
    out = tmp_path / "run"
    coterie.train("logistic", clients, rounds=3, history=1, out=out, progress=False)
    assert sorted(p.stem for p in (out / "checkpoints").iterdir()) == ["00001", "00002", "00003"]
    assert tomllib.loads((out / "config.toml").read_text())["history"] == 1
    with pytest.raises(coterie.CoterieError, match="history=0 must be a whole number of at least 1"):
        coterie.train("logistic", clients, history=0)
