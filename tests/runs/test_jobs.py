"""Runs side by side in forked processes: the same bytes, one error for all, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.core.errors import BadInput, BadRun, Diverged, UnknownName
from coterie.runs import jobs
from coterie.runs.jobs import processes, side_by_side

STUDY = ("compare", "--data", "titanic", "--methods", "local", "fedavg", "--seeds", "2", "--rounds", "6")


def coterie(*words: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coterie", *words], capture_output=True, text=True, timeout=120, **more
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestHowMany:
    def test_those_asked_for_but_no_more_than_there_are_runs(self):
        assert processes(3, 10, small=False) == 3
        assert processes(3, 2, small=False) == 2

    def test_by_itself_one_for_each_core_for_small_runs_in_a_process_of_one_thread(self, monkeypatch):
        monkeypatch.setattr(jobs.os, "cpu_count", lambda: 4)
        monkeypatch.setattr(jobs.sys, "platform", "linux")
        for threads, small, found in [(1, True, 4), (1, False, 1), (2, True, 1)]:
            monkeypatch.setattr(jobs.threading, "active_count", lambda threads=threads: threads)
            assert processes(0, 10, small) == found
        monkeypatch.setattr(jobs.threading, "active_count", lambda: 1)
        monkeypatch.setattr(jobs.sys, "platform", "darwin")
        assert processes(0, 10, small=True) == 1

    def test_refusals(self, monkeypatch, refused):
        with refused(BadInput, "jobs=-1 must lie in [0, 64]: 0 takes one for each core where runs are small"):
            processes(-1, 4, small=True)
        monkeypatch.delattr(jobs.os, "fork")
        with refused(BadInput, "jobs=2 needs a system that can fork a process: leave it out"):
            processes(2, 4, small=True)


class TestSideBySide:
    def test_every_task_once_and_what_is_said_arrives(self):
        def work(task, say):
            say({"task": task, "by": os.getpid()})

        said = list(side_by_side(20, 2, work))
        assert sorted(e["task"] for e in said if "task" in e) == list(range(20))
        assert len([e for e in said if "spent" in e]) == 2
        assert os.getpid() not in {e.get("by") for e in said}

    @pytest.mark.parametrize("error", [Diverged("round 3: too far"), UnknownName("model", "x", ["y"])])
    def test_the_first_error_ends_all(self, error, tmp_path):
        def work(task, say):
            say({"by": os.getpid()})
            if task == 1:
                raise error
            time.sleep(60)

        begin, seen = time.monotonic(), []
        with pytest.raises((Diverged, BadInput), match=str(error)[:10]):
            seen += side_by_side(2, 2, work)
        assert time.monotonic() - begin < 30

    def test_a_process_that_was_killed_is_told(self):
        def work(task, say):
            if task == 1:
                os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(BadRun, match="a process ended with -9 before its runs were over: resume"):
            list(side_by_side(4, 2, work))


def test_the_same_bytes_with_one_process_and_with_two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*STUDY, "--jobs", "1", "--out", "1"]) == 0
    done = coterie(*STUDY, "--jobs", "2", "--out", "2")
    assert done.returncode == 0, done.stderr
    for place in ("local/seed-0", "local/seed-1", "fedavg/seed-0", "fedavg/seed-1"):
        for name in ("metrics.jsonl", "models.safetensors", "collaboration.jsonl", "config.toml"):
            one, two = (tmp_path / n / place / name for n in ("1", "2"))
            assert one.read_bytes() == two.read_bytes(), (place, name)


@pytest.mark.parametrize(
    ("by", "code"), [(signal.SIGKILL, -9), pytest.param(signal.SIGTERM, 130, marks=pytest.mark.slow)]
)
def test_ended_from_outside_nobody_goes_on(tmp_path, by, code):
    words = [*STUDY[:-1], "4000", "--jobs", "2", "--out", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "coterie", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as child:
        while child.poll() is None and len(list(tmp_path.glob("run/*/seed-*/metrics.jsonl"))) < 2:
            time.sleep(0.02)
        below = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        child.send_signal(by)
        _, said = child.communicate(timeout=60)
    assert child.returncode == code
    assert len(below) == 2
    assert ("go on with 'coterie resume run'" in said) == (code == 130)
    end = time.monotonic() + 30
    while any(alive(int(pid)) for pid in below) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(int(pid)) for pid in below)
