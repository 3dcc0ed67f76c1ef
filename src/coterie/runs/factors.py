"""By what CPU seconds and bytes become kWh and CO2e: low, usual and high values, with their sources.

All of them are in energy.toml beside this file.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from coterie.core.errors import UnknownName

COUNTRY = "COTERIE_COUNTRY"


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
    return tomllib.loads(files("coterie.runs").joinpath("energy.toml").read_text(encoding="utf-8"))


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


def given_power(watts: float) -> Factor:
    """What somebody said that a busy core draws: no range."""
    unit = factor("watts").unit
    return Factor("watts", watts, watts, watts, unit, "as was given (--power)", "of these runs")
