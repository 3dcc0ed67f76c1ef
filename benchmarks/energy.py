"""One workload, several guesses of its energy: python benchmarks/energy.py [--rounds 600]

Each tracker watches the same run in a process of its own, one after the other, with the network shut: a
look-up that one of them tries fails, and it goes on without. One that is not installed is left out and said
so (pip install 'coterie[energy]'; pip install eco2ai; pip install carbontracker). Watts are of a busy core:
the guess over the CPU seconds of that run, so that runs of unequal length compare. Most trackers count
seconds on the clock: on a machine that others use, whose load is printed, they count those others too.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from coterie.features.energy.record import Energy
from coterie.runs.budget import JOULES

Guess = tuple[float, str]  # kWh, and how it was made
RUN = ("run", "--data", "digits", "--clients", "10", "--method", "fedavg", "--seed", "0", "--evaluate", "50")


@contextlib.contextmanager
def nothing() -> Iterator[Callable[[], Guess]]:
    """CPU seconds alone: the factors of `coterie energy` are applied where they are printed."""
    yield lambda: (0.0, "")


@contextlib.contextmanager
def codecarbon(constant: bool = False, **options: object) -> Iterator[Callable[[], Guess]]:
    """`constant` stands for a machine whose load it cannot read."""
    import logging

    import codecarbon as library
    from codecarbon.core import cpu

    logging.getLogger("codecarbon").setLevel(logging.CRITICAL)
    if constant:
        cpu.is_psutil_available = lambda: False
    quiet = {"output_methods": [], "log_level": "critical", "force_carbon_intensity_g_co2e_kwh": 480.0}
    tracker = library.OfflineEmissionsTracker(**quiet, **options)
    tracker.start()

    def end() -> Guess:
        tracker.stop()
        data = tracker.final_emissions_data
        cores = [h for h in tracker._hardware if hasattr(h, "_mode")]
        ram = data.ram_energy / data.energy_consumed
        return data.energy_consumed, f"{cores[0]._mode}, {cores[0]._tdp:g} W, {ram:.0%} of it memory"

    yield end


@contextlib.contextmanager
def eco2ai() -> Iterator[Callable[[], Guess]]:
    import eco2ai as library

    class Quiet(library.Tracker):  # type: ignore[misc, name-defined]
        def _write_to_csv(self, *told: object, **more: object) -> dict[str, object]:
            return {}

    told = {"project_name": "-", "experiment_description": "-", "file_name": "e.csv", "alpha_2_code": "FR"}
    tracker = Quiet(**told, measure_period=1, ignore_warnings=True)
    tracker.start()

    def end() -> Guess:
        tracker._func_for_sched()
        return float(tracker.consumption()), f"load of the process, {tracker._cpu.tdp():g} W, memory"

    yield end


@contextlib.contextmanager
def carbontracker() -> Iterator[Callable[[], Guess]]:
    from carbontracker import parser
    from carbontracker.tracker import CarbonTracker

    tracker = CarbonTracker(epochs=1, monitor_epochs=1, update_interval=1, components="cpu", log_dir="ct")
    tracker.epoch_start()

    def end() -> Guess:
        tracker.epoch_end()
        tracker.stop()
        kwh = parser.parse_all_logs("ct")[0]["actual"]["energy (kWh)"]
        return float(kwh), "half of the processor's watts while it runs, data centre"

    yield end


TRACKERS: dict[str, tuple[str, Callable[[], contextlib.AbstractContextManager[Callable[[], Guess]]]]] = {
    "nothing": ("coterie", nothing),
    "codecarbon, process": ("codecarbon", lambda: codecarbon(tracking_mode="process")),
    "codecarbon, machine": ("codecarbon", lambda: codecarbon(tracking_mode="machine")),
    "codecarbon, constant": ("codecarbon", lambda: codecarbon(constant=True)),
    "eco2ai": ("eco2ai", eco2ai),
    "carbontracker": ("carbontracker", carbontracker),
}


def shut(*told: object, **more: object) -> None:
    raise OSError("the network is shut")


def watched(name: str, rounds: int) -> dict[str, object]:
    """The workload in this process, with a tracker around it."""
    socket.socket.connect = shut  # type: ignore[method-assign, assignment]
    socket.getaddrinfo = shut  # type: ignore[assignment]
    from coterie.cli.main import main

    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        words = [*RUN, "--rounds", str(rounds), "--out", "run"]
        silent = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with silent[0], silent[1], TRACKERS[name][1]() as end:
            cpu, clock = time.process_time(), time.perf_counter()
            assert main(words) == 0
            cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
            kwh, how = end()
        os.chdir("/")
    return {"cpu": cpu, "clock": clock, "kwh": kwh, "how": how}


def child(name: str, rounds: int) -> dict[str, object]:
    words = [sys.executable, __file__, "--rounds", str(rounds), "--child", name]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(rounds: int) -> None:
    rows: list[tuple[str, str, float, float, float]] = []
    for name, (package, _) in TRACKERS.items():
        if find_spec(package) is None:
            print(f"{name}: {package} is not installed")
            continue
        found = child(name, rounds)
        cpu, clock, kwh = (float(str(found[k])) for k in ("cpu", "clock", "kwh"))
        if name == "nothing":
            guess = Energy(cpu, None).compute
            assert guess is not None
            for end, value in guess.kwh._asdict().items():
                rows.append((f"coterie energy, {end}", "CPU seconds x watts x PUE", cpu, clock, value))
        else:
            rows.append((name, str(found["how"]), cpu, clock, kwh))
    print(f"load {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores, in the last five minutes\n")
    print(f"| guess | how | seconds | CPU seconds | mWh | W a busy core |\n| --- | --- |{' ---: |' * 4}")
    for name, how, cpu, clock, kwh in rows:
        print(f"| {name} | {how} | {clock:.1f} | {cpu:.1f} | {1e6 * kwh:.1f} | {kwh * JOULES / cpu:.1f} |")
    watts = [kwh * JOULES / cpu for *_, cpu, _, kwh in rows]
    others = [w for w, row in zip(watts, rows, strict=True) if not row[0].startswith("coterie")]
    print(f"\nlargest over smallest: {max(watts) / min(watts):.1f}", end="")
    print(f"; of trackers alone {max(others) / min(others):.1f}" if len(others) > 1 else "")


if __name__ == "__main__":
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("--rounds", type=int, default=600)
    read.add_argument("--child", default="", help=argparse.SUPPRESS)
    given = read.parse_args()
    if given.child:
        print(json.dumps(watched(given.child, given.rounds)))
    else:
        table(given.rounds)
