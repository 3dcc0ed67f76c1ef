"""A run killed with SIGKILL at random moments, and resumed, ends as if nothing had happened."""

import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from coterie.cli import resume, run  # noqa: F401
from coterie.cli.main import main
from coterie.features.live import command  # noqa: F401
from coterie.features.live.live import KILLED, read_live
from coterie.runs.folder import read_record
from coterie.storage.atomic import read_lines
from coterie.storage.events import read_events

# momentum kept between rounds and clients away: there is more to save than weights
RUN = ["run", "--data", "diabetes", "--clients", "3", "--rounds", "40", "--method", "finetune", "--sgd.keep"]
RUN += ["--sgd.momentum", "0.9", "--wrap", "absent=0.2", "--finetune.tune", "15", "--sgd.lr", "0.01"]
PENS = [
    "run",
    "--data",
    "digits",
    "--split",
    "clusters",
    "--clients",
    "4",
    "--rounds",
    "8",
    "--method",
    "pens",
]
PENS += ["--pens.rounds-step1", "4", "--pens.sampled", "2"]


def start(words: Sequence[str], log: Path) -> int:
    """The command in a process of its own, forked so that nothing has to be imported again; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    sys.settrace(None)  # a Ctrl-C while coverage holds its own lock would never be over
    try:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
            # tests that run in the background inherit a Ctrl-C that is ignored
            signal.signal(signal.SIGINT, signal.default_int_handler)
            torch.set_num_threads(1)
            code = main(words)
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)


def over(child: int) -> int | None:
    """Its exit code, minus the signal that ended it; None while it runs."""
    done, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


@pytest.fixture
def finish(tmp_path):
    def go(words: Sequence[str]) -> None:
        _, status = os.waitpid(start(words, tmp_path / "log"), 0)
        assert os.waitstatus_to_exitcode(status) == 0, (tmp_path / "log").read_text()

    return go


@pytest.fixture
def killed(tmp_path):
    """Starts a command and ends it once so many lines are written, and some seconds later; its exit code."""

    def go(words: Sequence[str], path: Path, lines: int, later: float = 0.0, by=signal.SIGKILL) -> int:
        child = start(words, tmp_path / "log")
        while (code := over(child)) is None and len(read_lines(path / "metrics.jsonl")) < lines:
            time.sleep(0.0005)
        assert code is None, (tmp_path / "log").read_text()
        time.sleep(later)
        os.kill(child, by)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)

    return go


def test_killed_at_random_moments_and_resumed_is_bit_identical(finish, killed, same_run, tmp_path):
    reference, path = tmp_path / "unbroken", tmp_path / "run"
    assert main([*RUN, "--out", str(reference)]) == 0
    timings = read_record(reference).timings[1:]
    a_round = sum(sum(t["parts"].values()) for t in timings) / len(timings)
    rng, words = random.Random(os.environ.get("COTERIE_KILL_SEED", "0")), [*RUN, "--out", str(path)]
    for _ in range(int(os.environ.get("COTERIE_KILLS", "3"))):
        # some rounds on from where the last one was killed, and then at any moment of a round
        wanted = len(read_lines(path / "metrics.jsonl")) + rng.randint(1, 8)
        assert killed(words, path, wanted, rng.uniform(0, 2 * a_round)) == -signal.SIGKILL
        words = ["resume", str(path)]
    finish(words)
    same_run(path, reference)


def test_pens_killed_in_step_1_at_the_switch_and_in_step_2(finish, killed, same_run, tmp_path):
    reference, path = tmp_path / "unbroken", tmp_path / "run"
    assert main([*PENS, "--out", str(reference)]) == 0
    words, onlooker, seen = [*PENS, "--out", str(path)], 0, tmp_path / "seen"
    seen.touch()
    for last in (2, 4, 6):  # the round after which it is killed; step 2 begins with 5
        assert killed(words, path, last + 1) == -signal.SIGKILL
        live = read_live(path)
        assert (live.state, live.why) == ("stopped", KILLED)
        assert live.done >= last
        words = ["resume", str(path)]
        onlooker = onlooker or start(["watch", str(path)], seen)
        while "stopped after round" not in seen.read_text():
            assert over(onlooker) is None, seen.read_text()
            time.sleep(0.01)
    finish(words)
    same_run(path, reference)
    told = [event.what for event in read_events(path, 10)]
    assert told == ["begun", *["resumed"] * 3, "finished"]
    assert os.waitstatus_to_exitcode(os.waitpid(onlooker, 0)[1]) == 0
    said = seen.read_text()
    assert f"of 8: {KILLED}; accuracy " in said
    assert f"; waiting for it: go on with 'coterie resume {path}'" in said
    assert said.count("the run goes on") == 3, said
    assert "finished after round 8 of 8; accuracy " in said.splitlines()[-1]


def test_ctrl_c_saves_and_says_how_to_go_on(finish, killed, tmp_path):
    # so much work in so many rounds that it cannot be over before the signal comes, on a busy machine too
    words = [*RUN[: RUN.index("40")], "100", *RUN[RUN.index("40") + 1 :], "--checkpoint", "1000"]
    words += ["--evaluate", "1000", "--sgd.epochs", "12"]
    path = tmp_path / "run"
    assert killed([*words, "--out", str(path)], path, 5, by=signal.SIGINT) == 130
    assert f"coterie resume {path}" in (tmp_path / "log").read_text()
    done = len(read_lines(path / "metrics.jsonl")) - 1
    assert (read_live(path).state, read_live(path).events[-1].what) == ("stopped", "stopped")
    finish(["resume", str(path)])
    assert f"100 of 100 rounds: it went on after round {done}" in (tmp_path / "log").read_text()
    lines = read_lines(path / "metrics.jsonl")
    assert [m["round"] for m in lines] == list(range(101))
    assert [t["round"] for t in read_record(path).timings] == list(range(101))
    assert 4 <= done < 100
