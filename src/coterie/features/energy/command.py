"""coterie energy"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from coterie.cli.command import Flags, command_with, flag, word
from coterie.cli.report import read_sections
from coterie.features.energy import shown
from coterie.features.energy.record import Energy, asked_country, countries, grid
from coterie.federation.site.request_log import ENERGY, site_energy
from coterie.show import views
from coterie.show.terminal import fitting
from coterie.storage.paths import given_path

COMMANDS = {"energy": ("after", 60, "say what a run took: CPU time and bytes, and guesses of kWh and CO2e")}
HELP = f"""Says what a run or a comparison took: CPU time and bytes, which are measured, and kWh and CO2e,
which are guessed from them, with all factors and their sources. Of a site's kit: its CPU time, by run.

Without a country the grid is the world's. Known are {", ".join(countries())}.

examples:
  coterie energy runs/digits-shift-fedavg-seed0
  coterie energy runs/digits-shift-fedavg-seed0 --country FR
  coterie run --data digits --energy codecarbon
"""


@dataclass(frozen=True)
class _Asked:
    path: str = word("The folder of a run or a comparison, or a site's kit.")
    country: str = flag("", "Whose grid, by its code of two letters; by default COTERIE_COUNTRY.")


@command_with(Flags(_Asked, "energy", HELP))
def energy(asked: _Asked) -> int:
    path, country, console = given_path(asked.path), asked.country or asked_country(), Console()
    mix = grid(country)  # a country that nobody knows is refused first
    for state in (path, path / "state"):
        if (state / ENERGY).exists():
            _say(console, f"{path}: CPU time of this site, by run", _of_site(state, country), [])
            return 0
    for section in read_sections(path):
        by_label = views.groups(section.records)
        several = any(len(runs) > 1 for runs in by_label.values())
        title = f"{section.title}, {mix.name}" + (": of a run, the mean over seeds" if several else "")
        found = {label: shown.mean_of(runs, country) for label, runs in by_label.items()}
        _say(console, title, found, shown.tracked(by_label))
    return 0


def _of_site(state: Path, country: str) -> dict[str, Energy]:
    """Of each run that a site was in; bytes are counted where it is led."""
    missing = ("what other sites and the lead computed", "bytes, which are counted where the run is led")
    facts: dict[str, Any] = {"where": "this site's process alone", "whole": False, "passed": True}
    facts |= {"missing": missing, "mix": grid(country)}
    spent = {f"{run[:8]} of {s.by}, {s.last[:10]}": s.cpu_seconds for run, s in site_energy(state).items()}
    return {name: Energy(cpu_seconds, None, **facts) for name, cpu_seconds in spent.items()}


def _say(console: Console, title: str, by_label: Mapping[str, Energy], lines: Sequence[str]) -> None:
    tables, more = shown.in_full(by_label)
    console.print(Text(title, style="bold"), soft_wrap=True)
    for header, rows in tables:
        console.print()
        console.print(fitting(header, rows, "", "", console.width))
    console.print()
    for line in (*lines, *more):
        console.print(Text(line, style="dim"), soft_wrap=True)
