"""coterie energy, and --energy of run and compare, as a user has them."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

QUICK = ("--data", "digits", "--rounds", "2", "--clients", "3")


@pytest.fixture
def fake(monkeypatch):
    """A codecarbon that comes to 2 mWh."""

    class CPU:
        _mode, _tdp = "cpu_load", 8

    class OfflineEmissionsTracker:
        _conf, _hardware = {"cpu_model": "a chip"}, [CPU()]
        final_emissions_data = SimpleNamespace(energy_consumed=2e-6, emissions=1e-9)

        def __init__(self, **options):
            pass

        start = stop = lambda self: None

    library = SimpleNamespace(OfflineEmissionsTracker=OfflineEmissionsTracker, __version__="3.3.2")
    monkeypatch.setitem(sys.modules, "codecarbon", library)


def test_a_run_with_a_tracker_and_what_it_took(coterie, fake, tmp_path):
    code, _, said = coterie("run", *QUICK, "--energy", "codecarbon:FR", "--out", "r")
    assert code == 0, said
    assert json.loads((tmp_path / "r" / "energy.json").read_text())["rounds"] == [0, 2]
    assert "codecarbon 3.3.2 says" in (tmp_path / "r" / "report.html").read_text()
    code, out, said = coterie("energy", "r", "--country", "FR")
    assert (code, said) == (0, "")
    for part in ("CPU,", "fedavg, computing", "grid of FR", "codecarbon 3.3.2 says", "Not counted", "Aslan"):
        assert part in out
    lines = [json.loads(line) for line in (tmp_path / "r" / "timings.jsonl").read_text().splitlines()]
    assert all(line["evaluate_cpu_seconds"] >= 0 for line in lines if "round" in line)
    assert sum(line.get("evaluate_cpu_seconds", 0) for line in lines) > 0


def test_every_run_of_a_comparison_is_tracked_by_itself(coterie, fake, tmp_path):
    code, _, said = coterie(
        "compare",
        *QUICK,
        "--methods",
        "local",
        "fedavg",
        "--seeds",
        "2",
        "--energy",
        "codecarbon",
        "--out",
        "c",
    )
    assert code == 0, said
    assert len(list((tmp_path / "c").rglob("energy.json"))) == 6  # `nothing` is a run too
    code, out, _ = coterie("energy", "c")
    assert code == 0
    assert "the mean over seeds" in out
    assert "local, network" in out


def test_mistakes_leave_nothing(refused, fake, monkeypatch):
    assert "unknown country 'XX': known are AT" in refused("energy", "nowhere", "--country", "XX")
    assert "unknown energy tracker" in refused("run", *QUICK, "--energy", "meter")
    assert "unknown country 'XX'" in refused("compare", *QUICK, "--energy", "codecarbon:XX")
    said = refused("compare", *QUICK, "--energy", "codecarbon", "--jobs", "2")
    assert said.endswith("--jobs 2: an energy tracker sees one run at a time: leave it out")
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    said = refused("run", *QUICK, "--energy", "codecarbon")
    assert said.endswith("codecarbon is not installed: install it with pip install 'coterie[energy]'")


def test_a_run_of_an_earlier_version_says_not_known(coterie, tmp_path):
    assert coterie("run", *QUICK, "--out", "r")[0] == 0
    path = tmp_path / "r" / "timings.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    gone = ("cpu_seconds", "evaluate_cpu_seconds")
    path.write_text("".join(json.dumps({k: v for k, v in e.items() if k not in gone}) + "\n" for e in lines))
    code, out, _ = coterie("energy", "r")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("fedavg, computing"))
    assert row.split()[2:] == ["not", "known"] * 3
