"""A federation in miniature, as a person uses it: run, look, kill, resume; nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import coterie
from coterie.cli.main import main
from coterie.core.errors import BadInput, BadRun
from coterie.nets.processes import SiteProcesses
from coterie.runs.folder import read_record
from coterie.use import load

WORDS = [
    "run",
    "--data",
    "breast-cancer",
    "--clients",
    "2",
    "--rounds",
    "5",
    "--net",
    "processes",
    "--method",
    "random",
]
WORDS += ["--sgd.momentum", "0.5", "--sgd.keep", "--engine", "loop"]


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def gone(pids: list[int]) -> bool:
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow  # daily in one process (tests/runs/test_kill.py) and over a federation (test_faults.py)
def test_killed_with_its_sites_and_resumed_it_ends_as_in_one_process(tmp_path, capsys):
    """A real process tree, killed after a round; then the same run whole, and in one process."""
    out = tmp_path / "killed"
    words = [sys.executable, "-m", "coterie.cli.main", *WORDS, "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = out / "metrics.jsonl"
    while process.poll() is None and not (lines.exists() and lines.read_text().count("\n") >= 3):
        time.sleep(0.02)
    sites = children_of(process.pid)
    assert len(sites) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(sites)
    assert not (out / "models.safetensors").exists()
    assert main(["resume", str(out)]) == 0
    here = [w for w in WORDS if w not in ("--net", "processes")]
    assert main([*here, "--out", str(tmp_path / "whole")]) == 0
    assert "report: " in capsys.readouterr().out
    records = [read_record(path) for path in (out, tmp_path / "whole")]
    for name in ("accuracy", "loss"):
        assert records[0].final(name) == pytest.approx(records[1].final(name), abs=1e-6)
    assert records[0].traffic() | {"seconds": 0} == records[1].traffic() | {"seconds": 0}
    mine, theirs = (record.models() for record in records)
    assert mine.keys() == theirs.keys()
    for client, belief in mine.items():
        for name, tensor in belief.items():
            torch.testing.assert_close(tensor, theirs[client][name], rtol=0, atol=1e-6)
    there, whole = (load(path, client).proba(np.zeros((3, 30))) for path in (out, tmp_path / "whole"))
    assert there == pytest.approx(whole, abs=1e-6)


def test_a_site_that_ends_ends_the_run_in_one_line_and_a_module_without_a_name_is_refused(client_of):
    sites = SiteProcesses([client_of(torch.zeros(2, 1), torch.tensor([0, 1]))])
    sites.children[0].kill()
    with pytest.raises(BadRun, match="site 'a' has ended"):
        sites.ask({0: b"hello"})
    sites.close()
    x = torch.randn(20, 2)
    clients = [coterie.Client.from_arrays(x, (x[:, 0] > 0).long(), name=name) for name in "ab"]
    with pytest.raises(BadInput, match="builds a model by its name"):
        coterie.train(torch.nn.Linear(2, 2), clients, net="processes", rounds=1)
