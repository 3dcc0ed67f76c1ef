"""A tracker of energy around a run: offline, silent, and honest of what it saw."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from coterie.core.errors import BadInput, BadRun, UnknownName
from coterie.features.energy.option import tracked, tracker_of
from coterie.features.energy.record import FILE, read_tracked

DATA = {"energy_consumed": 2e-6, "emissions": 1e-9, "cpu_energy": 1e-6, "ram_energy": 1e-6}
DATA |= {"gpu_energy": 0.0, "duration": 1.5}


class CPU:
    def __init__(self, mode):
        self._mode, self._tdp = mode, 8


@pytest.fixture
def fake(monkeypatch):
    """`fake(mode="intel_rapl")`: a codecarbon that counts nothing; returns what it is told."""

    def put(mode="cpu_load", data=DATA):
        told = {}

        class OfflineEmissionsTracker:
            def __init__(self, **options):
                told.update(options, level=logging.getLogger("codecarbon").level)
                self._conf, self._hardware = {"cpu_model": "a chip"}, [CPU(mode)]

            def start(self):
                told["started"] = True

            def stop(self):
                if data is not None:
                    self.final_emissions_data = SimpleNamespace(**data)

        library = SimpleNamespace(OfflineEmissionsTracker=OfflineEmissionsTracker, __version__="3.3.2")
        monkeypatch.setitem(sys.modules, "codecarbon", library)
        return told

    return put


def rounds(folder, *numbers):
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"round": r}) + "\n" for r in numbers)


def test_it_is_told_to_keep_to_itself(fake, tmp_path):
    told = fake()
    with tracked(tracker_of("codecarbon:FR"), tmp_path):
        rounds(tmp_path, 0, 1, 2)
    assert told["started"]
    assert told["level"] == logging.CRITICAL
    assert told["output_methods"] == told["output_handlers"] == []
    assert told["emissions_endpoint"] is None
    assert told["electricitymaps_api_token"] == ""
    assert told["force_carbon_intensity_g_co2e_kwh"] == 56.0
    assert told["allow_multiple_runs"]
    found = read_tracked(tmp_path)
    assert found == {
        "tracker": "codecarbon",
        "version": "3.3.2",
        "kwh": 2e-6,
        "co2_kg": 1e-9,
        "seconds": 1.5,
        "cpu_kwh": 1e-6,
        "ram_kwh": 1e-6,
        "gpu_kwh": 0.0,
        "watts": 8,
        "cpu_model": "a chip",
        "how": "cpu_load",
        "tracking": "process",
        "g_per_kwh": 56.0,
        "grid": "grid of FR",
        "rounds": [0, 2],
    }


@pytest.mark.parametrize("mode", ["intel_rapl", "constant"])
def test_counters_and_constants_are_of_the_machine(fake, tmp_path, mode):
    fake(mode)
    with tracked(tracker_of("codecarbon"), tmp_path):
        rounds(tmp_path, 0)
    found = read_tracked(tmp_path)
    assert (found["how"], found["tracking"], found["grid"]) == (mode, "machine", "grid of the world")


def test_a_tracker_that_swallowed_its_error_has_no_figure(fake, tmp_path):
    fake(data=None)
    with tracked(tracker_of("codecarbon"), tmp_path):
        rounds(tmp_path, 0)
    assert read_tracked(tmp_path)["kwh"] is None


def test_a_run_that_stops_says_which_rounds_were_seen(fake, tmp_path):
    fake()
    rounds(tmp_path, 0, 1)

    def stopped():
        with tracked(tracker_of("codecarbon"), tmp_path):
            rounds(tmp_path, 2, 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert read_tracked(tmp_path)["rounds"] == [2, 3]


def test_a_run_that_made_no_round_leaves_nothing(fake, tmp_path):
    fake()
    rounds(tmp_path, 0, 1)
    with tracked(tracker_of("codecarbon"), tmp_path):
        pass
    with tracked(tracker_of("codecarbon"), tmp_path / "gone"):
        pass
    with tracked(tracker_of(""), tmp_path):
        rounds(tmp_path, 2)
    assert read_tracked(tmp_path) is None
    assert not (tmp_path / "gone").exists()


def test_mistakes_are_refused_before_anything_runs(fake, monkeypatch):
    with pytest.raises(UnknownName, match="unknown energy tracker 'watts': known are codecarbon"):
        tracker_of("watts")
    with pytest.raises(UnknownName, match="unknown country 'XX': known are AT"):
        tracker_of("codecarbon:XX")
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(BadInput, match=r"^codecarbon is not installed: .* pip install 'coterie\[energy\]'$"):
        tracker_of("codecarbon")


@pytest.mark.parametrize("text", ["{", "[]", '{"kwh": 1}'])
def test_a_damaged_file_is_said(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadRun, match=r"energy\.json is damaged"):
        read_tracked(tmp_path)


def test_the_real_one_calls_nobody_and_leaves_no_file(tmp_path, monkeypatch, capfd):
    """Not even where its own settings name servers and logs."""
    pytest.importorskip("codecarbon")
    called = []

    def refuse(self, address, *rest):
        called.append(address)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *told, **more: refuse(None, told))
    settings = {
        "EMISSIONS_ENDPOINT": "http://127.0.0.1:9",
        "CO2_SIGNAL_API_TOKEN": "x",
        "SAVE_TO_API": "true",
    }
    settings |= {"OUTPUT_METHODS": "csv,api,prometheus", "ALLOW_MULTIPLE_RUNS": "false", "LOG_LEVEL": "debug"}
    for name, value in settings.items():
        monkeypatch.setenv(f"CODECARBON_{name}", value)
    monkeypatch.chdir(tmp_path)
    before = threading.active_count()
    with tracked(tracker_of("codecarbon"), tmp_path):
        rounds(tmp_path, 0)
        sum(range(10**6))
    found = read_tracked(tmp_path)
    assert called == []
    assert sorted(os.listdir(tmp_path)) == ["energy.json", "metrics.jsonl"]
    assert "".join(capfd.readouterr()) == ""
    assert found["kwh"] > 0
    assert found["co2_kg"] == pytest.approx(0.48 * found["kwh"])
    assert found["how"] not in ("", "?", "not known")
    assert threading.active_count() <= before + 1
