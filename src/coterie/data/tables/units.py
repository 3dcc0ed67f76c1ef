"""Units that columns are measured in, and what turns one into another.

Mass and amount go by substance: glucose of 1 mmol/l is 18.016 mg/dl, creatinine of 1 mg/dl is 88.42 µmol/l.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from coterie.data.tables.texts import loose, plain, trimmed


class Conversion(NamedTuple):
    """value · factor + offset is the value in the other unit."""

    factor: float
    offset: float = 0.0

    def __call__(self, value: float) -> float:
        return value * self.factor + self.offset

    @property
    def back(self) -> Conversion:
        return Conversion(1 / self.factor, -self.offset / self.factor)


class Known(NamedTuple):
    """A conversion, and the words in a column's name for which it is meant."""

    there: str
    here: str
    by: Conversion
    words: tuple[str, ...] = ()


WEIGHT, HEIGHT = ("weight", "wt", "mass", "gewicht", "poids"), ("height", "ht", "length", "grosse", "taille")
CHOLESTEROL = ("cholesterol", "chol", "ldl", "hdl")
SHARES = ("saturation", "spo2", "sao2", "haematocrit", "hematocrit", "hct", "ejection", "lvef", "ef", "fio2")
CONVERSIONS = (
    Known("mmol/l", "mg/dl", Conversion(18.016), ("glucose", "sugar", "glucosis", "gluc")),
    Known("mmol/l", "mg/dl", Conversion(38.67), CHOLESTEROL),
    Known("mmol/l", "mg/dl", Conversion(88.57), ("triglycerides", "triglyceride", "trig", "tg")),
    Known("umol/l", "mg/dl", Conversion(1 / 88.42), ("creatinine", "crea", "creat", "kreatinin")),
    Known("umol/l", "mg/dl", Conversion(1 / 17.1), ("bilirubin", "bili")),
    Known("mmol/l", "mg/dl", Conversion(2.801), ("bun", "nitrogen")),
    Known("mmol/l", "mg/dl", Conversion(6.006), ("urea",)),
    Known("°F", "°C", Conversion(5 / 9, -160 / 9), ("temperature", "temp", "fever")),
    Known("lb", "kg", Conversion(0.45359237), WEIGHT),
    Known("g", "kg", Conversion(0.001), WEIGHT),
    Known("in", "cm", Conversion(2.54), HEIGHT),
    Known("m", "cm", Conversion(100.0), HEIGHT),
    Known("mm", "cm", Conversion(0.1), HEIGHT),
    Known("ft", "cm", Conversion(30.48), HEIGHT),
    Known("kpa", "mmhg", Conversion(7.500617), ("pressure", "sbp", "dbp", "bp", "systolic", "diastolic")),
    Known("g/l", "g/dl", Conversion(0.1), ("haemoglobin", "hemoglobin", "hb", "hgb", "albumin")),
    Known("months", "years", Conversion(1 / 12), ("age",)),
    Known("fraction", "%", Conversion(100.0), SHARES),
    Known("hours", "days", Conversion(1 / 24)),
    Known("weeks", "days", Conversion(7.0)),
    Known("months", "days", Conversion(365.2425 / 12)),
    Known("years", "days", Conversion(365.2425)),
)
SPELLINGS = {
    "mmol/l": ("mmol/l", "mmol l", "mmol per l", "mmoll"),
    "umol/l": ("umol/l", "µmol/l", "μmol/l", "micromol/l", "umol l"),
    "mg/dl": ("mg/dl", "mg dl", "mg%", "mgdl"),
    "g/dl": ("g/dl", "g dl"),
    "g/l": ("g/l",),
    "°C": ("c", "°c", "degc", "celsius"),
    "°F": ("f", "°f", "degf", "fahrenheit"),
    "kg": ("kg", "kgs", "kilogram"),
    "g": ("g", "gram"),
    "lb": ("lb", "lbs", "pound", "pounds"),
    "cm": ("cm",),
    "mm": ("mm",),
    "m": ("m",),
    "in": ("in", "inch", "inches"),
    "ft": ("ft", "feet"),
    "mmhg": ("mmhg", "mm hg"),
    "kpa": ("kpa",),
    "years": ("years", "year", "yrs", "yr", "y", "jahre", "jahr", "ans", "années"),
    "months": ("months", "month", "mo", "monate", "monat", "mois"),
    "weeks": ("weeks", "week", "wk", "wks", "wochen", "woche", "semaines", "semaine"),
    "days": ("days", "day", "d", "tage", "tag", "jours", "jour"),
    "hours": ("hours", "hour", "h", "hrs", "stunden", "stunde", "heures", "heure"),
    "bpm": ("bpm", "/min", "1/min"),
    "%": ("%", "percent"),
    "fraction": ("fraction",),
    "kg/m2": ("kg/m2", "kg/m²", "kg/m^2"),
}
UNITS = {spelling: unit for unit, words in SPELLINGS.items() for spelling in words}
BRACKETED = re.compile(r"^(.*\S)\s*[\[(]\s*([^()\[\]]+?)\s*[\])]\s*$")
# behind a blank or an underscore only those that are nothing else
BEHIND = re.compile(
    r"^(.*[^\W_])[\s_,]+(kg|lbs?|cm|mm|inch|mg/?dl|mmol/?l|[uµ]mol/?l|mmhg|kpa|celsius|fahrenheit|years|months|weeks|days|hours)$",
    re.IGNORECASE,
)


def unit_of(text: str) -> str:
    """A unit by its common name; one that is not known is called as it is written."""
    found = plain(text)
    return UNITS.get(found) or UNITS.get(found.replace(" ", "")) or trimmed(text)


def name_and_unit(header: str) -> tuple[str, str]:
    """Weight (kg), weight [kg] and weight_kg are weight, in kg; brackets around no unit are the name's."""
    if (found := BRACKETED.match(header)) and plain(found[2]) in UNITS:
        return trimmed(found[1]), unit_of(found[2])
    if found := BEHIND.match(trimmed(header)):
        unit = found[2].lower()
        return trimmed(found[1]), UNITS.get(unit) or {"mgdl": "mg/dl", "mmoll": "mmol/l"}.get(unit, "umol/l")
    return trimmed(header), ""


def conversion(name: str, there: str, here: str) -> Conversion | None:
    """What turns a column's values from one unit into another, if it is known."""
    there, here, words = unit_of(there), unit_of(here), set(loose(name).split())
    if there == here:
        return Conversion(1.0)
    for known in CONVERSIONS:
        if (there, here) in ((known.there, known.here), (known.here, known.there)) and (
            words & set(known.words) or not by_substance(known)
        ):
            return known.by if there == known.there else known.by.back
    return None


def by_substance(known: Known) -> bool:
    return known.there.endswith("mol/l")


def conversions_for(name: str) -> list[Known]:
    """All that a column of that name may need, each way round."""
    words = set(loose(name).split())
    found = [k for k in CONVERSIONS if words & set(k.words)]
    return each_way(found)


def conversions_into(unit: str) -> list[Known]:
    """All that give a unit whatever the column is called: not those that go by substance."""
    return [k for k in each_way([k for k in CONVERSIONS if not by_substance(k)]) if k.here == unit]


def each_way(found: Sequence[Known]) -> list[Known]:
    return [*found, *(Known(k.here, k.there, k.by.back, k.words) for k in found)]
