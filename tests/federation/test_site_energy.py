"""A site keeps what its own work took; nobody is sent it."""

from __future__ import annotations

import json
import time

import pytest
from room import Room

from coterie.cli.main import main
from coterie.core.errors import BadRun
from coterie.federation.site.request_log import ENERGY, CpuTime, site_energy


def busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_seconds_add_up_by_run_and_over_processes(tmp_path):
    for _ in range(2):  # the second process goes on
        effort = CpuTime(tmp_path)
        with effort.of("run-1", "ana"):
            busy(0.02)
        with effort.of("run-2", "ben"):
            busy(0.01)
        effort.write()
        effort.write()  # nothing new
    found = site_energy(tmp_path)
    assert [(run, spent.by) for run, spent in found.items()] == [("run-1", "ana"), ("run-2", "ben")]
    assert 0.04 <= found["run-1"].cpu_seconds < 0.4
    assert 0.02 <= found["run-2"].cpu_seconds < 0.4
    assert len((tmp_path / ENERGY).read_text().splitlines()) == 4


def test_what_was_spent_in_vain_was_spent(tmp_path):
    effort = CpuTime(tmp_path)

    def fails():
        with effort.of("run", "ana"):
            busy(0.01)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    effort.write()
    assert site_energy(tmp_path)["run"].cpu_seconds >= 0.01


def test_a_disk_that_refuses_loses_nothing(tmp_path):
    effort = CpuTime(tmp_path / "gone")
    with effort.of("run", "ana"):
        busy(0.01)
    effort.write()
    (tmp_path / "gone").mkdir()
    effort.write()
    assert site_energy(tmp_path / "gone")["run"].cpu_seconds >= 0.01


def test_a_folder_without_runs_and_a_damaged_one(tmp_path):
    assert site_energy(tmp_path) == {}
    (tmp_path / ENERGY).write_text('{"run": "x"}\n')
    with pytest.raises(BadRun, match="is damaged"):
        site_energy(tmp_path)


def test_a_federation_counts_at_the_sites_and_says_what_the_lead_does_not_know(tmp_path, monkeypatch, capsys):
    room, answers = Room(tmp_path, names=("a", "b"), rows=30), []
    room.change = lambda name, message, answer: answers.append(answer) or answer
    record = room.play(monkeypatch, tmp_path / "run", rounds=2)
    for name in ("a", "b"):
        lines = [json.loads(line) for line in (room.states[name] / ENERGY).read_text().splitlines()]
        assert {line["by"] for line in lines} == {"lead"}
        assert len(lines) >= 2  # a round at least each
        assert sum(line["cpu_seconds"] for line in lines) > 0
    assert answers
    assert not any(b"cpu_seconds" in answer for answer in answers)
    found = record.energy()
    assert (found.kwh, found.where, found.passed) == (None, "the lead's process alone", True)
    capsys.readouterr()
    assert main(["energy", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "computing of the lead's process alone" in out
    assert "what the whole run took is not known" in out
    assert "Not counted: what the 2 sites computed" in out
    assert main(["energy", str(room.states["a"])]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "CPU time of this site, by run" in out
    assert "of lead," in out
    assert "Not counted: what other sites and the lead computed" in out
