"""What the name of a column says of it, in the languages that tables of hospitals are in; its unit, and what
turns one unit into another.

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

    @property
    def by_substance(self) -> bool:
        return self.there.endswith("mol/l")


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
    "°C": ("c", "°c", "degc", "celsius"),
    "°F": ("f", "°f", "degf", "fahrenheit"),
    "kg": ("kg", "kgs", "kilogram"),
    "g": ("g", "gram"),
    "lb": ("lb", "lbs", "pound", "pounds"),
    "in": ("in", "inch", "inches"),
    "ft": ("ft", "feet"),
    "mmhg": ("mmhg", "mm hg"),
    "years": ("years", "year", "yrs", "yr", "y", "jahre", "jahr", "ans", "années"),
    "months": ("months", "month", "mo", "monate", "monat", "mois"),
    "weeks": ("weeks", "week", "wk", "wks", "wochen", "woche", "semaines", "semaine"),
    "days": ("days", "day", "d", "tage", "tag", "jours", "jour"),
    "hours": ("hours", "hour", "h", "hrs", "stunden", "stunde", "heures", "heure"),
    "bpm": ("bpm", "/min", "1/min"),
    "%": ("%", "percent"),
    "kg/m2": ("kg/m2", "kg/m²", "kg/m^2"),
    **{unit: (unit,) for unit in ("g/l", "cm", "mm", "m", "kpa", "fraction")},
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
    there, here, words = unit_of(there), unit_of(here), words_in(name)
    if there == here:
        return Conversion(1.0)
    for known in CONVERSIONS:
        if (there, here) in ((known.there, known.here), (known.here, known.there)) and (
            words & set(known.words) or not known.by_substance
        ):
            return known.by if there == known.there else known.by.back
    return None


def conversions_for(name: str) -> list[Known]:
    """All that a column of that name may need, each way round."""
    words = words_in(name)
    return _each_way([k for k in CONVERSIONS if words & set(k.words)])


def conversions_into(unit: str) -> list[Known]:
    """All that give a unit whatever the column is called: not those that go by substance."""
    return [k for k in _each_way([k for k in CONVERSIONS if not k.by_substance]) if k.here == unit]


def _each_way(found: Sequence[Known]) -> list[Known]:
    return [*found, *(Known(k.here, k.there, k.by.back, k.words) for k in found)]


SCALE_WORDS = {
    "grade", "stage", "class", "score", "level", "ecog", "asa", "nyha", "killip", "degree", "severity",
    "step", "tnm",
}  # fmt: skip
IDENTIFIERS = {
    "id", "ids", "uuid", "guid", "identifier", "patientid", "patid", "caseid", "recordid", "subjectid",
    "fallnr", "fallnummer", "fallid", "visitid", "encounterid",
}  # fmt: skip
PERSONS = {
    "pid", "mrn", "ssn", "ahv", "ahvnr", "nhs", "empi", "pseudonym", "patient", "patients", "pat", "subject",
    "subj", "person", "proband", "participant", "patiente", "paziente", "paciente", "ptid", "subjid",
    "usubjid", "randid", "rid", "nip", "ipp", "versicherter", "versicherten", "versicherte",
}  # fmt: skip
# ... with a word of numbering beside them: study_id, chart_no
NUMBERED = {"study", "chart", "dossier", "pers", "akte", "rekrutierung", "screening", "enrolment"}
NUMBERING = {
    "no", "nr", "nbr", "num", "number", "key", "index", "code", "record", "case", "row", "fall", "nummer",
    "numero", "lfd", "unnamed",
} | {str(i) for i in range(10)}  # fmt: skip
# one word of two, as some languages have it: Patientennummer
COMPOUND = re.compile(
    r"(pat|pt|patient|patienten|subject|subj|person|personen|pers|proband|probanden|participant|versicherten"
    r"|studien|study|chart|akten|dossier)"
    r"(id|nr|nbr|no|num|nummer|number|key|code|identifier|pseudonym)"
)
PERSONAL = {
    "name", "surname", "firstname", "lastname", "vorname", "nachname", "address", "street", "email", "mail",
    "prenom", "nom", "adresse", "strasse", "phone", "telephone", "telefon",
}  # fmt: skip
DATES = {"date", "day", "time", "datum", "birth", "born", "dob", "admission", "admitted", "visit"}
SEX = {
    "sex", "gender", "geschlecht", "sexe", "sesso", "sexo", "male", "female", "mannlich", "weiblich", "homme",
    "femme", "maschio", "femmina", "woman",
}  # fmt: skip
BIRTH = re.compile(r"birth|born|dob|yob|geburt|geb|gebdat|gebjahr|naissance|ddn|nascita|nacimiento|jahrgang")
AGE = {"age", "alter", "eta", "edad", "alder", "leeftijd", "idade"}
# digits that are no quantity, whatever else is in the name ...
CODES = {
    "zip", "zipcode", "plz", "postcode", "postleitzahl", "postal", "npa", "phone", "telephone", "telefon",
    "telefonnummer", "tel", "fax", "icd", "icd9", "icd10", "atc", "snomed", "loinc",
    "zip3", "zip4", "zip5", "gemeindenr", "gemeindenummer",
}  # fmt: skip
# ... with or without decimals, 250.83, where nothing else is in it ...
DIAGNOSES = {
    "diag", "diagnosis", "diagnose", "dx", "hauptdiagnose", "nebendiagnose", "diagnostic", "diagnosi",
}  # fmt: skip
# ... or where nothing else is: a room, but no room temperature
PLACES = {
    "room", "zimmer", "zimmernummer", "chambre", "bed", "bett", "lit", "ward", "station", "department",
    "abteilung", "service", "unit", "doctor", "arzt", "physician", "medecin", "hausarzt", "behandler",
    "zimmernr", "arztnr", "arztnummer", "gemeinde", "commune", "municipality", "bettnr", "bettnummer",
    "stationsnr", "gp", "medico", "reparto", *DIAGNOSES,
    "nurse", "operator", "surgeon", "provider", "drg", "cpt", "procedure",
    "mobile", "handy", "city", "region", "canton", "country",
}  # fmt: skip
MEASURES = {
    "platelets", "platelet", "plt", "thrombocytes", "thrombozyten", "leukocytes", "leukozyten", "wbc", "rbc",
    "count", "age", "pressure", "rate", "bmi", "dose", "volume", "cost", "costs", "income", "ferritin", "ck",
    "bnp", "probnp", "ntprobnp", "alt", "ast", "ldh", "steps", "price", "score", "level", "weight", "height",
    "year", "jahr", "annee", "month", "week",
}  # fmt: skip


MEASURED = {word for known in CONVERSIONS for word in known.words}


def words_in(name: str) -> set[str]:
    return set(loose(name).split())


def names_person(name: str) -> bool:
    """patient, patient_no, PID, Patientennummer; but no patient_weight."""
    words = words_in(name)
    numbers = NUMBERING | IDENTIFIERS
    numbered = any(not w.isdigit() for w in words & numbers) and words & NUMBERED
    compound = any(COMPOUND.fullmatch(w) for w in words)
    return compound or bool((words & PERSONS or numbered) and words <= PERSONS | NUMBERED | numbers)


def names_identifier(name: str) -> bool:
    return bool(words_in(name) & IDENTIFIERS) or names_person(name)


def names_numbering(name: str) -> bool:
    """Nothing but nr, case no, record."""
    return words_in(name) <= NUMBERING | PERSONS | IDENTIFIERS


def names_code(name: str, whole: bool = True) -> bool:
    """A code by its name; a diagnosis has decimals, a ward or a doctor has a `whole` number."""
    words = words_in(name)
    only = {w for w in words if not w.isdigit()} - NUMBERING - IDENTIFIERS
    if words & CODES or (only and only <= DIAGNOSES):
        return True
    return whole and (bool(only and only <= PLACES) or words == {"code"})


def names_place(name: str) -> bool:
    """What many patients share: a ward, a doctor, a postcode."""
    return bool(words_in(name) & (PLACES | CODES))


def names_measure(name: str) -> bool:
    """A quantity by its name, or by a unit behind it."""
    return bool(name_and_unit(name)[1]) or bool(words_in(name) & (MEASURES | MEASURED))


def names_sex(name: str) -> bool:
    return bool(words_in(name) & SEX)


def names_birth(name: str) -> bool:
    return bool(BIRTH.search(loose(name)))


def names_age(name: str) -> bool:
    return bool(words_in(name) & AGE)
