"""A run killed with SIGKILL at random moments, and resumed, ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from coterie.storage.atomic import read_lines

COTERIE = [sys.executable, "-m", "coterie.cli.main"]
# momentum kept between rounds and clients away: there is more to save than weights
RUN = ["run", "--data", "diabetes", "--clients", "3", "--rounds", "60", "--method", "finetune", "--sgd.keep"]
RUN += ["--sgd.momentum", "0.9", "--wrap", "absent=0.2", "--finetune.tune", "20", "--sgd.lr", "0.01"]
PENS = ["run", "--data", "digits", "--split", "clusters", "--clients", "4", "--rounds", "8", "--method", "pens"]
PENS += ["--pens.rounds-step1", "4", "--pens.sampled", "2", "--pens.top-m", "1"]


def start(words: Sequence[str]) -> subprocess.Popen:
    return subprocess.Popen(
        [*COTERIE, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # tests that run in the background inherit a Ctrl-C that is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(words: Sequence[str]) -> None:
    process = start(words)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()


def killed(words: Sequence[str], path: Path, lines: int, later: float = 0.0, by=signal.SIGKILL) -> bytes:
    """Starts it and ends it once so many rounds are written, and some seconds later; what it said."""
    process = start(words)
    while process.poll() is None and len(read_lines(path / "metrics.jsonl")) < lines:
        time.sleep(0.0005)
    time.sleep(later)
    assert process.poll() is None, process.stderr.read().decode()
    process.send_signal(by)
    _, said = process.communicate(timeout=60)
    return said


def test_killed_at_random_moments_and_resumed_is_bit_identical(same_run, tmp_path):
    reference, path = tmp_path / "unbroken", tmp_path / "run"
    finish([*RUN, "--out", str(reference)])
    timings = read_lines(reference / "timings.jsonl")[1:]
    a_round = sum(t["seconds"] + t["evaluate_seconds"] for t in timings) / len(timings)
    rng, words = random.Random(os.environ.get("COTERIE_KILL_SEED", "0")), [*RUN, "--out", str(path)]
    for _ in range(int(os.environ.get("COTERIE_KILLS", "3"))):
        # some rounds on from where the last one was killed, and then at any moment of a round
        wanted = len(read_lines(path / "metrics.jsonl")) + rng.randint(1, 12)
        killed(words, path, wanted, rng.uniform(0, 2 * a_round))
        words = ["resume", str(path)]
    finish(words)
    same_run(path, reference)


def test_pens_killed_in_step_1_at_the_switch_and_in_step_2(same_run, tmp_path):
    reference, path = tmp_path / "unbroken", tmp_path / "run"
    finish([*PENS, "--out", str(reference)])
    words = [*PENS, "--out", str(path)]
    for last in (2, 4, 6):  # the round after which it is killed; step 2 begins with 5
        killed(words, path, last + 1)
        words = ["resume", str(path)]
    finish(words)
    same_run(path, reference)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    # so many rounds that it cannot be over before the signal comes
    words = [*RUN[: RUN.index("60")], "300", *RUN[RUN.index("60") + 1 :], "--checkpoint", "1000"]
    words += ["--evaluate", "1000"]
    path = tmp_path / "run"
    said = killed([*words, "--out", str(path)], path, 5, by=signal.SIGINT)
    assert f"coterie resume {path}" in said.decode()
    done = len(read_lines(path / "metrics.jsonl")) - 1
    finish(["resume", str(path)])
    lines = read_lines(path / "metrics.jsonl")
    assert [m["round"] for m in lines] == list(range(301))
    assert len(read_lines(path / "timings.jsonl")) == 301
    assert 4 <= done < 300
