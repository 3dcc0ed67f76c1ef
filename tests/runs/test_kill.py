"""A run killed with SIGKILL at random moments, and resumed, ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.storage.atomic import read_lines

COTERIE = [sys.executable, "-m", "coterie.cli.main"]
# momentum kept between rounds and absent clients: the state has more in it than weights
RUN = ["run", "--data", "digits", "--clients", "5", "--rounds", "60", "--method", "finetune", "--sgd.keep"]
RUN += ["--sgd.momentum", "0.9", "--absent", "0.2", "--finetune.tune", "20", "--sgd.lr", "0.02"]
SAME = ("metrics.jsonl", "models.safetensors", "checkpoint.safetensors", "config.toml", "calibration.npz")


def start(*words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*COTERIE, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # tests that run in the background inherit a Ctrl-C that is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run that was never killed, and how long one of its rounds took."""
    path = tmp_path_factory.mktemp("unbroken") / "run"
    finish(start(*RUN, "--out", str(path)))
    seconds = [t["seconds"] + t["evaluate_seconds"] for t in read_lines(path / "timings.jsonl")]
    return path, sum(seconds) / len(seconds)


@pytest.mark.parametrize("attempt", range(int(os.environ.get("COTERIE_KILLS", "3"))))
def test_killed_and_resumed_run_is_bit_identical(attempt, unbroken, tmp_path):
    reference, a_round = unbroken
    rng = random.Random(f"{attempt} {os.environ.get('COTERIE_KILL_SEED', '0')}")
    path = tmp_path / "run"
    words, kills = [*RUN, "--out", str(path)], 0
    for _ in range(3):
        process = start(*words)
        # some rounds on from where the last one was killed, and then at any moment of a round
        wanted = len(read_lines(path / "metrics.jsonl")) + rng.randint(1, 15)
        while process.poll() is None and len(read_lines(path / "metrics.jsonl")) < wanted:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 2 * a_round))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        words = ["resume", str(path)]
    finish(start(*words))
    assert kills, "no process was alive to be killed"
    assert_same(path, reference)


def assert_same(path: Path, reference: Path) -> None:
    for name in SAME:
        assert (path / name).read_bytes() == (reference / name).read_bytes(), name
    for matrix in sorted((reference / "collaboration").iterdir()):
        assert (path / "collaboration" / matrix.name).read_bytes() == matrix.read_bytes(), matrix.name
    assert sorted(p.name for p in path.iterdir()) == sorted(p.name for p in reference.iterdir())


PENS = ["run", "--data", "digits", "--split", "clusters", "--clients", "6", "--rounds", "24", "--validation"]
PENS += ["0.2", "--method", "pens", "--pens.rounds-step1", "12", "--pens.patience", "4", "--sgd.epochs", "5"]


def test_pens_killed_in_step_1_at_the_switch_and_in_step_2(tmp_path):
    reference, path = tmp_path / "unbroken", tmp_path / "run"
    finish(start(*PENS, "--out", str(reference)))
    words = [*PENS, "--out", str(path)]
    for last in (6, 12, 18):  # the round after which it is killed; step 2 begins with 13
        process = start(*words)
        while process.poll() is None and len(read_lines(path / "metrics.jsonl")) <= last:
            time.sleep(0.0005)
        assert process.poll() is None, "over before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        words = ["resume", str(path)]
    finish(start(*words))
    assert_same(path, reference)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    # so many rounds that it cannot be over before the signal comes
    words = [*RUN[: RUN.index("60")], "400", *RUN[RUN.index("60") + 1 :], "--checkpoint", "1000"]
    unbroken, path = tmp_path / "unbroken", tmp_path / "run"
    finish(start(*words, "--out", str(unbroken)))
    process = start(*words, "--out", str(path))
    while len(read_lines(path / "metrics.jsonl")) < 5:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said.decode()
    assert f"coterie resume {path}" in said.decode()
    finish(start("resume", str(path)))
    for name in ("metrics.jsonl", "models.safetensors"):
        assert (path / name).read_bytes() == (unbroken / name).read_bytes(), name
