"""What a run took: CPU seconds and bytes, which are measured; kWh and CO2e, which are guessed from them.

    kWh of computing = CPU seconds x watts of a busy core x PUE / 3.6e6
    kWh of the network = bytes / 10^9 x kWh for a GB
    g CO2e = kWh x g for a kWh of the grid

Each as (low, usual, high): all low factors together, all usual, all high. They are in energy.toml, with their
sources. The two parts are not added up. In one process no byte leaves the machine: the network's part is what
it would take if sites were apart. Over a federation the bytes do pass, but what sites compute is known to
them alone (`federation/site/request_log.py`). What was not measured is None, and never 0; and a part of the
whole is never given as the whole.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coterie.core.errors import UnknownName
from coterie.runs.budget import JOULES, estimates_energy
from coterie.runs.record import Kept, Record
from coterie.storage.tensors import damaged

COUNTRY = "COTERIE_COUNTRY"
FILE = "energy.json"  # what a tracker said of a run (`option.py`)


@dataclass(frozen=True)
class Factor:
    """`about` says what is in it, and how sure it is."""

    name: str
    low: float
    usual: float
    high: float
    unit: str
    source: str
    about: str


@cache
def read() -> dict[str, Any]:
    return tomllib.loads(files("coterie.features.energy").joinpath("energy.toml").read_text(encoding="utf-8"))


def factor(name: str) -> Factor:
    """watts, pue or network."""
    return Factor(name, **read()[name])


def countries() -> tuple[str, ...]:
    """By their codes of two letters (ISO 3166)."""
    return tuple(read()["countries"]["usual"])


def asked_country() -> str:
    """As the environment has it; nothing where it is not said."""
    return os.environ.get(COUNTRY, "")


def grid(country: str = "") -> Factor:
    """Grams of CO2e for a kWh: of a country, or of the world where none is given."""
    if not country:
        return Factor("grid of the world", **read()["grid"])
    table, code = read()["countries"], country.upper()
    if code not in table["usual"]:
        raise UnknownName("country", country, countries())
    mean = table["usual"][code]
    ends = {end: table[end] * mean for end in ("low", "high")}
    said = {key: table[key] for key in ("unit", "source", "about")}
    return Factor(f"grid of {code}", usual=mean, **ends, **said)


GB = 10**9
NEVER = (
    *("start-up, preparing data, reports", "memory, disks, graphics processors"),
    *("idle machines and what else runs on them", "making the machines"),
)
"""What no estimate here has in it."""


class Range(NamedTuple):
    low: float
    usual: float
    high: float


@dataclass(frozen=True)
class Part:
    """kWh, and grams of CO2e."""

    kwh: Range
    co2: Range


@dataclass(frozen=True)
class Energy:
    """What was measured, and by what it becomes kWh and CO2e.

    cpu_seconds    of training and, where it was measured, scoring; None where they were not measured
    bytes          that passed between sites and coordinator, for both; None where they were not counted
    scoring, scoring_bytes   how much of these was for scoring
    where          who spent the CPU seconds
    whole          whether that is all who computed
    passed         whether the bytes went from machine to machine; otherwise they only would
    missing        what else computed, and was not measured
    """

    cpu_seconds: float | None
    bytes: float | None
    scoring: float | None = None
    scoring_bytes: float = 0
    where: str = "this process"
    whole: bool = True
    passed: bool = False
    missing: tuple[str, ...] = ()
    watts: Factor = field(default_factory=partial(factor, "watts"))
    mix: Factor = field(default_factory=grid)

    @property
    def cpu(self) -> tuple[float | None, float | None]:
        """Of training, and of scoring."""
        return None if self.cpu_seconds is None else self.cpu_seconds - (self.scoring or 0.0), self.scoring

    @property
    def moved(self) -> tuple[float | None, float | None]:
        """Bytes of training, and of scoring."""
        return (None, None) if self.bytes is None else (self.bytes - self.scoring_bytes, self.scoring_bytes)

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.watts, factor("pue"), factor("network"), self.mix

    @property
    def compute(self) -> Part | None:
        """Of the CPU seconds that are known."""
        watts, pue, _, mix = self.factors
        return None if self.cpu_seconds is None else _part(self.cpu_seconds / JOULES, mix, watts, pue)

    @property
    def network(self) -> Part | None:
        _, _, network, mix = self.factors
        return None if self.bytes is None else _part(self.bytes / GB, mix, network)

    @property
    def kwh(self) -> Range | None:
        """What the run took in all; None where only a part of it is known."""
        return self.compute.kwh if self.compute and self.whole else None

    @property
    def co2(self) -> Range | None:
        """Grams of CO2e, likewise."""
        return self.compute.co2 if self.compute and self.whole else None

    @property
    def not_counted(self) -> tuple[str, ...]:
        return *self.missing, *NEVER

    def table(self) -> dict[str, Any]:
        """Plain values, for a file or a page."""

        def figures(part: Part | None) -> dict[str, Any]:
            return {"kwh": part and part.kwh._asdict(), "co2_g": part and part.co2._asdict()}

        parts = {"compute": self.compute, "network": self.network}
        return {
            "cpu_seconds": self.cpu_seconds,
            "scoring_cpu_seconds": self.scoring,
            "bytes": self.bytes,
            "scoring_bytes": self.scoring_bytes,
            "where": self.where,
            "whole": self.whole,
            "passed": self.passed,
            **figures(self.compute if self.whole else None),
            "parts": {name: one and figures(one) for name, one in parts.items()},
            "factors": [asdict(one) for one in self.factors],
            "not_counted": list(self.not_counted),
        }


def _part(amount: float, mix: Factor, *factors: Factor) -> Part:
    """All low factors together, all usual, all high."""
    kwh, co2 = (
        Range(*(amount * math.prod(getattr(one, end) for one in some) for end in Range._fields))
        for some in (factors, (*factors, mix))
    )
    return Part(kwh, co2)


def _energy_of(record: Record, country: str = "") -> Energy:
    """Of a run, over or not, with a country's grid, or the world's: who spent the CPU seconds that are known,
    and who spent others that are not.
    """
    cpu, scoring = cpu_seconds(record.timings)
    looked = sum(int(m.get("scoring", {}).get("bytes", 0)) for m in record.metrics)
    spent = (record.of("spent") or {}).get("bytes", np.zeros(0))
    net, device = record.settings.connector, record.settings.device
    where, missing = "this process", tuple[str, ...]()
    others = f"what the {len(record.clients)} sites computed"
    if net.meets:
        where = "the lead's process alone"
        missing = (f"{others} (each keeps its own: coterie energy KIT), relay and helpers",)
    elif not net.here:
        where, missing = "the coordinator's process alone", (f"{others}, in processes of their own",)
    elif device != "cpu":
        where, missing = "the processor alone", (f"what {device} computed, where most of the work was",)
    power, watts = record.config.get("power"), factor("watts")
    if power is not None:  # somebody said what a busy core draws: no range
        given = float(power)
        watts = Factor("watts", given, given, given, watts.unit, "as was given (--power)", "of these runs")
    return Energy(
        cpu_seconds=cpu,
        bytes=int(spent[-1]) + looked if len(spent) else None,
        scoring=scoring,
        scoring_bytes=looked,
        where=where,
        whole=estimates_energy(record.settings),
        passed=net.meets,
        missing=missing,
        watts=watts,
        mix=grid(country),
    )


def cpu_seconds(timings: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Of a run, and how many of these were scoring: None where a round, of an earlier version, has none."""

    def total(name: str) -> float | None:
        known = [line[name] for line in timings if name in line]
        return float(sum(known)) if timings and len(known) == len(timings) else None

    training, scoring = total("cpu_seconds"), total("evaluate_cpu_seconds")
    return None if training is None else training + (scoring or 0.0), scoring


def read_tracked(folder: Path) -> Mapping[str, Any] | None:
    """None where no tracker was asked, and before the run is over."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        told = json.loads(path.read_bytes())
        if not (isinstance(told, dict) and {"tracker", "kwh", "co2_kg", "how", "rounds"} <= told.keys()):
            raise ValueError("it lacks something")
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None
    return told


KEPT = {"tracked": Kept(FILE, read_tracked)}
VIEWS = {"energy": _energy_of}
