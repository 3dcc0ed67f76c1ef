"""What a run may spend: `--budget steps=20000 bytes=50M`. The first that is reached ends it.

    steps      gradient steps of all clients together, in every visit of every round
    bytes      of models, rows, numbers and sealed shares that passed, both ways; not for a run's own scoring
    seconds    of training on the clock; no two runs take the same
    kwh        CPU seconds of training x watts of a busy core, an estimate

A round is never cut: no round begins once a budget is spent, and the last may go beyond it. The first round
always runs, whatever it costs. `rounds` stays the most that there are.

Watts are those that a processor is made to draw, by core (`factors.py`). Memory, cooling and whatever else
runs on the machine are not in it; `energy.py` looks further, at cooling, the network and CO2e.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.core.belief import Beliefs
from coterie.core.errors import BadInput, Gathered, UnknownName, shown
from coterie.core.roster import Roster
from coterie.nets.counting import Traffic
from coterie.runs.factors import factor

KINDS = ("steps", "bytes", "seconds", "kwh")
REPEATED = ("steps", "bytes")
"""The same each time that a run is repeated; and known of a round before it is trained."""
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
TRY = {"steps": "20000", "bytes": "50M", "seconds": "60", "kwh": "0.001"}
WATTS, LEAST, MOST = (getattr(factor("watts"), end) for end in ("usual", "low", "high"))
JOULES = 3.6e6  # in a kWh
NUMBER = 8  # bytes of a single value such as a loss


def read_budget(specs: Sequence[str]) -> dict[str, float]:
    """{kind: amount} of texts such as steps=20000; all that is wrong is said at once."""
    found, wrong = dict[str, float](), Gathered()
    for spec in specs:
        kind, equals, text = (part.strip() for part in spec.partition("="))
        with wrong.one():
            if not equals:
                raise BadInput(f"budget {shown(spec)} needs the form kind=amount: try steps=20000")
            if kind not in KINDS:
                raise UnknownName("budget", kind, KINDS)
            if kind in found:
                raise BadInput(f"budget {kind} is given twice: give it once")
            found[kind] = amount(kind, text)
    wrong.refuse()
    return found


def amount(kind: str, text: str) -> float:
    """A number above 0, with k, M, G or T behind it if wanted; steps and bytes are whole."""
    read = re.fullmatch(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)\s*([kMGT]?)", text)
    value = float(read[1]) * UNITS[read[2]] if read else math.nan
    if not 0 < value < 2**63 or (kind in REPEATED and value != int(value)):
        whole = "a whole number" if kind in REPEATED else "a number"
        raise BadInput(f"budget {kind}={shown(text)} must be {whole} above 0: try {kind}={TRY[kind]}")
    return value


def specs_of(budget: Sequence[str] | Mapping[str, float]) -> tuple[str, ...]:
    """A budget as settings hold it, from texts or from {"steps": 20000}."""
    if not isinstance(budget, Mapping):
        return tuple(budget)
    return tuple(f"{kind}={float(value):.17g}" for kind, value in budget.items())


def check_power(watts: float) -> None:
    if not 0 < watts <= 1000:
        raise BadInput(f"power={watts:g} must be above 0 and at most 1000 watts for a core: try {WATTS:g}")


def kwh(cpu_seconds: Any, watts: float = WATTS) -> Any:
    return cpu_seconds * watts / JOULES


def estimates_energy(config: Mapping[str, Any]) -> bool:
    """Whether CPU seconds of this process are all that trains."""
    return config.get("net", "in-process") == "in-process" and str(config.get("device", "cpu")) == "cpu"


def row_bytes(roster: Roster, beliefs: Beliefs) -> int:
    """Of one client's row as it would move: its inputs and its target, in the precision of the model."""
    wide = next((t.element_size() for t in beliefs.values() if t.is_floating_point()), 4)
    return wide * (math.prod(roster.shape) + 1)


def bytes_of(moved: Traffic, sealed: int, a_row: int) -> int:
    """All that passed in a round; a client's row is so many bytes."""
    return int(moved.bytes.sum()) + NUMBER * int(moved.numbers.sum()) + a_row * int(moved.rows.sum()) + sealed


def check_budget(config: Mapping[str, Any]) -> None:
    """Refuses a budget in what cannot be known."""
    if "kwh" in read_budget(config.get("budget", ())) and not estimates_energy(config):
        raise BadInput(
            f"budget kwh with net {config.get('net')} on {config.get('device', 'cpu')}: only CPU seconds of "
            "this process are counted: use net in-process on the cpu, or a budget in steps"
        )


@dataclass
class Meter:
    """What a run has spent so far, by kind, and what it may."""

    budget: Mapping[str, float]
    spent: dict[str, float] = field(default_factory=dict)
    power: float = WATTS

    def add(self, **more: float) -> None:
        for kind, value in more.items():
            self.spent[kind] = self.spent.get(kind, 0.0) + value

    def over(self) -> str:
        """The first kind whose budget is spent; nothing while all have something left."""
        return next((kind for kind, most in self.budget.items() if self.spent.get(kind, 0.0) >= most), "")


def meter_of(config: Mapping[str, Any], totals: Mapping[str, float]) -> Meter:
    """Of a run that has spent so much before it was cut off."""
    power = float(config.get("power", WATTS))
    return Meter(read_budget(config.get("budget", ())), dict(totals), power)


Line = Mapping[str, Any]


def spent_by_round(
    metrics: Sequence[Line], timings: Sequence[Line], config: Mapping[str, Any], passed: Callable[[Line], int]
) -> dict[str, np.ndarray]:
    """Spent up to the end of each round, by kind: [round]. Kinds that were not counted are left out."""
    found = dict[str, np.ndarray]()
    if all("spent" in line for line in metrics):
        found = {kind: np.cumsum([line["spent"][kind] for line in metrics]) for kind in REPEATED}
    elif metrics:  # a run of an earlier version knows of its models
        found["bytes"] = np.cumsum([passed(line) for line in metrics])
    took = {line["round"]: line for line in timings}
    lines = [took.get(line["round"], {}) for line in metrics]
    if took:
        found["seconds"] = np.cumsum([line.get("seconds", 0.0) for line in lines])
    if estimates_energy(config) and took and all("cpu_seconds" in line for line in timings):
        cpu = np.cumsum([line.get("cpu_seconds", 0.0) for line in lines])
        found["kwh"] = kwh(cpu, float(config.get("power", WATTS)))
    return found
