"""A run killed with SIGKILL at random moments, and resumed, ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.runs.files import read_lines

COTERIE = [sys.executable, "-m", "coterie.cli.main"]
# momentum kept between rounds and absent clients: the state has more in it than weights
RUN = ["run", "--data", "digits", "--clients", "5", "--rounds", "60", "--method", "finetune", "--sgd.keep"]
RUN += ["--sgd.momentum", "0.9", "--absent", "0.2", "--finetune.tune", "20", "--sgd.lr", "0.02"]
SAME = ("metrics.jsonl", "models.safetensors", "checkpoint.safetensors", "config.toml")


def start(*words: str) -> subprocess.Popen:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*COTERIE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)


def finish(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    path = tmp_path_factory.mktemp("unbroken") / "run"
    process = start(*RUN, "--out", str(path))
    while not (path / "checkpoint.safetensors").exists():
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.005)
    begin = time.monotonic()
    while not (path / "models.safetensors").exists():
        time.sleep(0.005)
    lasts = time.monotonic() - begin
    finish(process)
    return path, lasts


@pytest.mark.parametrize("attempt", range(int(os.environ.get("COTERIE_KILLS", "3"))))
def test_killed_and_resumed_run_is_bit_identical(attempt, unbroken, tmp_path):
    reference, lasts = unbroken
    rng = random.Random(f"{attempt} {os.environ.get('COTERIE_KILL_SEED', '0')}")
    path = tmp_path / "run"
    words, kills = [*RUN, "--out", str(path)], 0
    for _ in range(3):
        process = start(*words)
        # the folder may be there from before: wait until this process has written something of its own
        before = stamp(path)
        while process.poll() is None and stamp(path) == before:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.6 * lasts))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        if path.exists():
            words = ["resume", str(path)]
    finish(start(*words))
    assert kills, "no process was alive to be killed"
    for name in SAME:
        assert (path / name).read_bytes() == (reference / name).read_bytes(), name
    for matrix in sorted((reference / "collaboration").iterdir()):
        assert (path / "collaboration" / matrix.name).read_bytes() == matrix.read_bytes(), matrix.name
    leftovers = [p.name for p in path.iterdir() if p.name.startswith(".") and p.name != ".lock"]
    assert len(leftovers) <= kills, "only a file that was being written may stay behind"


def stamp(path: Path) -> tuple[int, int]:
    try:
        stat = (path / "metrics.jsonl").stat()
        return stat.st_mtime_ns, stat.st_size
    except FileNotFoundError:
        return 0, 0


def test_ctrl_c_saves_and_says_how_to_go_on(unbroken, tmp_path):
    reference, _ = unbroken
    path = tmp_path / "run"
    process = start(*RUN, "--out", str(path), "--checkpoint", "1000")
    while len(read_lines(path / "metrics.jsonl")) < 5:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"coterie resume {path}" in said.decode()
    finish(start("resume", str(path)))
    assert (path / "metrics.jsonl").read_bytes() == (reference / "metrics.jsonl").read_bytes()
    assert (path / "models.safetensors").read_bytes() == (reference / "models.safetensors").read_bytes()
