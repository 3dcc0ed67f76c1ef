"""coterie run --energy codecarbon, or codecarbon:FR with a country's grid: a tracker of energy around a run.

It runs offline: it writes no file, says nothing, and no look-up of its own is left to it, as grams of CO2e
for a kWh come from `energy.toml`. What it says goes into energy.json of the run:

    tracker, version   codecarbon, 3.3.2
    kwh, co2_kg        None where it came to no figure
    cpu_kwh, ram_kwh, gpu_kwh   of what
    how                by what: a counter of the machine, or a guess from load and model
    watts              what it took the processor to draw at most, if it says so
    cpu_model          as it reads it
    tracking           process (and its children) or machine: whose work on the processor it counts
    seconds            on the clock
    g_per_kwh, grid    as given to it
    rounds             the first and the last that it saw

A run that goes on after a stop is not tracked any more: `rounds` says which rounds the figures are of.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import BadInput, UnknownName
from coterie.core.options import Option
from coterie.features.energy.record import FILE, Factor, asked_country, grid
from coterie.runs.loop import Around
from coterie.storage.atomic import read_lines, write_whole

ROUNDS = "metrics.jsonl"
Stop = Callable[[], dict[str, Any]]
"""Ends what a tracker has begun, and says what it found."""


class _Tracker(NamedTuple):
    name: str
    grid: Factor


def tracker_of(text: str) -> _Tracker | None:
    """Of a text as typed: codecarbon, codecarbon:FR; None of an empty one. A package that is missing is
    refused here, before anything is computed.
    """
    name, _, country = text.partition(":")
    if not text:
        return None
    if name not in TRACKERS:
        raise UnknownName("energy tracker", name, TRACKERS)
    mix = grid(country or asked_country())
    _imported(name)
    return _Tracker(name, mix)


@contextlib.contextmanager
def tracked(tracker: _Tracker | None, folder: Path) -> Iterator[None]:
    """Inside, a run's rounds are tracked; in the end, however that comes, energy.json is written."""
    if tracker is None:
        yield
        return
    first = len(read_lines(folder / ROUNDS))
    stop = TRACKERS[tracker.name](tracker.grid)
    try:
        yield
    finally:
        said = {"tracker": tracker.name, **stop()}
        said |= {"g_per_kwh": tracker.grid.usual, "grid": tracker.grid.name}
        last = len(read_lines(folder / ROUNDS)) - 1
        if folder.exists() and last >= first:  # one that was refused before its first round leaves nothing
            write_whole(folder / FILE, json.dumps({**said, "rounds": [first, last]}, indent=1) + "\n")


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadInput(f"{name} is not installed: install it with pip install 'coterie[energy]'") from None


def _codecarbon(mix: Factor) -> Stop:
    """Its settings in files and in the environment may name servers and logs: those are overruled. What they
    say of the machine (force_cpu_power, pue) holds.
    """
    library, quiet = _imported("codecarbon"), logging.getLogger("codecarbon")
    quiet.setLevel(logging.CRITICAL)  # from the first line on: it sets its own level later
    tracker = library.OfflineEmissionsTracker(
        tracking_mode="process",
        force_carbon_intensity_g_co2e_kwh=mix.usual,
        output_methods=[],
        output_handlers=[],
        emissions_endpoint=None,
        electricitymaps_api_token="",  # not None, for which it would look elsewhere
        cloud_provider=None,
        cloud_region=None,
        region=None,
        country_iso_code=None,
        allow_multiple_runs=True,  # without a lock file, and without handlers of signals
        log_level="critical",
    )
    tracker.start()

    def stop() -> dict[str, Any]:
        tracker.stop()
        data = getattr(tracker, "final_emissions_data", None)  # it swallows its own errors
        conf, hardware = getattr(tracker, "_conf", {}), getattr(tracker, "_hardware", [])
        cpus = [h for h in hardware if type(h).__name__ == "CPU"]
        how = ", ".join(str(getattr(cpu, "_mode", "?")) for cpu in cpus) or "not known"
        return {
            "version": library.__version__,
            "kwh": getattr(data, "energy_consumed", None),
            "co2_kg": getattr(data, "emissions", None),
            "cpu_kwh": getattr(data, "cpu_energy", None),
            "ram_kwh": getattr(data, "ram_energy", None),
            "gpu_kwh": getattr(data, "gpu_energy", None),
            "how": how,
            "watts": next((getattr(cpu, "_tdp", None) for cpu in cpus), None),
            "cpu_model": conf.get("cpu_model"),
            "tracking": "process" if how == "cpu_load" else "machine",
            "seconds": getattr(data, "duration", None),
        }

    return stop


TRACKERS: dict[str, Callable[[Factor], Stop]] = {"codecarbon": _codecarbon}


OPTION = Option(
    "energy", str, "", "Also let codecarbon guess the energy, offline; codecarbon:FR with a country's grid."
)
WHO = "an energy tracker"


def around(text: str) -> Around:
    return partial(tracked, tracker_of(text))
