"""What a run may spend, as it is said: `--budget steps=20000 bytes=50M`, or several (`features/budgets`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.core.errors import BadInput, Gathered, UnknownName, shown

if TYPE_CHECKING:
    from coterie.runs.settings import Settings

KINDS = ("steps", "bytes", "seconds", "kwh")
REPEATED = ("steps", "bytes")
"""The same each time that a run is repeated; and known of a round before it is trained."""
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
TRY = {"steps": "20000", "bytes": "50M", "seconds": "60", "kwh": "0.001"}
WATTS = 12.0
"""What a processor is made to draw by core, if nobody knows which it is (`features/energy/energy.toml`)."""
JOULES = 3.6e6  # in a kWh


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
            # a number above 0, with k, M, G or T behind it if wanted; steps and bytes are whole
            read = re.fullmatch(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)\s*([kMGT]?)", text)
            value = float(read[1]) * UNITS[read[2]] if read else math.nan
            if not 0 < value < 2**63 or (kind in REPEATED and value != int(value)):
                whole = "a whole number" if kind in REPEATED else "a number"
                raise BadInput(f"budget {kind}={shown(text)} must be {whole} above 0: try {kind}={TRY[kind]}")
            found[kind] = value
    wrong.refuse()
    return found


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


def estimates_energy(settings: Settings) -> bool:
    """Whether CPU seconds of this process are all that trains."""
    return settings.connector.here and settings.device == "cpu"
