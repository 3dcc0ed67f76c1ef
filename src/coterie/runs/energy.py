"""What a run took: CPU seconds and bytes, which are measured; kWh and CO2e, which are guessed from them.

    kWh of computing = CPU seconds x watts of a busy core x PUE / 3.6e6
    kWh of the network = bytes / 10^9 x kWh for a GB
    g CO2e = kWh x g for a kWh of the grid

Each as (low, usual, high): all low factors together, all usual, all high (`factors.py`). The two parts are
not added up. In one process no byte leaves the machine: the network's part is what it would take if sites
were apart. Over a federation the bytes do pass, but what sites compute is known to them alone
(`federation/energy.py`). What was not measured is None, and never 0; and a part of the whole is never given
as the whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.runs.budget import JOULES, estimates_energy
from coterie.runs.factors import Factor, factor, given_power, grid

if TYPE_CHECKING:
    from coterie.runs.record import Record

GB = 10**9
NEVER = (
    "start-up, preparing data, reports",
    "memory, disks, graphics processors",
    "idle machines and what else runs on them",
    "making the machines",
)
"""What no estimate here has in it."""


class Range(NamedTuple):
    low: float
    usual: float
    high: float


def product(amount: float, factors: Sequence[Factor]) -> Range:
    """All low factors together, all usual, all high."""
    ends = ("low", "usual", "high")
    return Range(*(amount * math.prod(getattr(one, end) for one in factors) for end in ends))


@dataclass(frozen=True)
class Part:
    """kWh, and grams of CO2e."""

    kwh: Range
    co2: Range

    def table(self) -> dict[str, Any]:
        return {"kwh": self.kwh._asdict(), "co2_g": self.co2._asdict()}


def part(amount: float, mix: Factor, *factors: Factor) -> Part:
    return Part(product(amount, factors), product(amount, (*factors, mix)))


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
        return None if self.cpu_seconds is None else part(self.cpu_seconds / JOULES, mix, watts, pue)

    @property
    def network(self) -> Part | None:
        _, _, network, mix = self.factors
        return None if self.bytes is None else part(self.bytes / GB, mix, network)

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
        parts = {"compute": self.compute, "network": self.network}
        return {
            "cpu_seconds": self.cpu_seconds,
            "scoring_cpu_seconds": self.scoring,
            "bytes": self.bytes,
            "scoring_bytes": self.scoring_bytes,
            "where": self.where,
            "whole": self.whole,
            "passed": self.passed,
            "kwh": self.kwh and self.kwh._asdict(),
            "co2_g": self.co2 and self.co2._asdict(),
            "parts": {name: one and one.table() for name, one in parts.items()},
            "factors": [asdict(one) for one in self.factors],
            "not_counted": list(self.not_counted),
        }


def energy_of(record: Record, country: str = "") -> Energy:
    """Of a run, over or not, with a country's grid, or the world's."""
    cpu, scoring = cpu_seconds(record.timings)
    looked = sum(int(m.get("scoring", {}).get("bytes", 0)) for m in record.metrics)
    spent = record.spent().get("bytes", np.zeros(0))
    where, missing = place(record)
    power = record.config.get("power")
    return Energy(
        cpu_seconds=cpu,
        bytes=int(spent[-1]) + looked if len(spent) else None,
        scoring=scoring,
        scoring_bytes=looked,
        where=where,
        whole=estimates_energy(record.config),
        passed=record.config.get("net") == "federation",
        missing=missing,
        watts=factor("watts") if power is None else given_power(float(power)),
        mix=grid(country),
    )


def cpu_seconds(timings: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Of a run, and how many of these were scoring: None where a round, of an earlier version, has none."""

    def total(name: str) -> float | None:
        known = [line[name] for line in timings if name in line]
        return float(sum(known)) if timings and len(known) == len(timings) else None

    training, scoring = total("cpu_seconds"), total("evaluate_cpu_seconds")
    return None if training is None else training + (scoring or 0.0), scoring


def place(record: Record) -> tuple[str, tuple[str, ...]]:
    """Who spent the CPU seconds that are known, and who spent others that are not."""
    net, device = record.config.get("net", "in-process"), str(record.config.get("device", "cpu"))
    sites = len(record.clients)
    if net == "federation":
        said = f"what the {sites} sites computed (each keeps its own: coterie energy KIT), relay and helpers"
        return "the lead's process alone", (said,)
    if net != "in-process":
        return "the coordinator's process alone", (
            f"what the {sites} sites computed, in processes of their own",
        )
    if device != "cpu":
        return "the processor alone", (f"what {device} computed, where most of the work was",)
    return "this process", ()
